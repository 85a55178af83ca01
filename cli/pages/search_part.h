// What became of the strategies that a plan was chosen from, and time against memory.
#pragma once

#include "cli/pages/page_part.h"
#include "cli/pages/plan_view.h"
#include "search/search/search.h"

namespace sextant {

// Of the certificate in the plan file; where there is none, how to get one.
PagePart search_part(const PlanView& plan);

// Of a search made for this page, for plans between time and memory (SearchLimits::pareto).
PagePart front_part(const PlanView& plan, const SearchResult& result);

}  // namespace sextant
