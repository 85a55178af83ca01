// The whole page: what was named, one block each, with a table of contents.
#pragma once

#include "cli/pages/experiment_view.h"
#include "cli/pages/plan_view.h"
#include "cli/pages/run_view.h"
#include "search/search/search.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sextant {

struct PlanSubject {
  PlanView plan;
  std::optional<SearchResult> front;  // of a search for plans between time and memory
};
using ReportSubject = std::variant<PlanSubject, RunView, ExperimentView>;

// "plan", "run", "experiment"
std::string kind_of_subject(const ReportSubject& subject);
std::string name_of_subject(const ReportSubject& subject);

// One HTML file that loads nothing.
std::string report_page(const std::vector<ReportSubject>& subjects);

}  // namespace sextant
