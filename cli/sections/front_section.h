// `search --pareto`: the plans that no other one beats in step time and memory.
#pragma once

#include "cli/console.h"
#include "search/search/search.h"

#include <nlohmann/json_fwd.hpp>

namespace sextant {

// Of a search for a front (SearchLimits::pareto): what is complete has the front of its whole
// space.
void say_front(const SearchResult& result, const Console& console);
nlohmann::ordered_json front_json(const SearchResult& result);

}  // namespace sextant
