// `search --sensitivity`: which change of a link, of memory or of the batch makes another plan win.
#pragma once

#include "cli/console.h"
#include "search/search/search.h"
#include "search/search/sensitivity.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>

namespace sextant {

struct SensitivitySection {
  MemoryChange memory;
  std::optional<Sensitivity> others;  // nothing: there is one plan only
};

// `result` has a plan.
SensitivitySection sensitivity_section(const SearchProblem& problem, const SearchResult& result,
                                       const SearchLimits& limits);
void say(const SensitivitySection& section, const SearchResult& result, const Console& console);
nlohmann::ordered_json sensitivity_json(const SensitivitySection& section,
                                        const SearchResult& result);

}  // namespace sextant
