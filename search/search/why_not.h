// "Why not tp=8?": the best plan under a constraint, beside the chosen one, term by term.
#pragma once

#include "search/search/search.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// One line of the comparison, in seconds or bytes; `difference` = constrained - chosen.
struct WhyNotTerm {
  enum class Unit : std::uint8_t { kSeconds, kBytes };
  std::string name;  // "compute", "memory: activations"
  Unit unit = Unit::kSeconds;
  double chosen = 0, constrained = 0;
  double difference() const { return constrained - chosen; }
};

struct WhyNot {
  std::string constraint;
  Candidate chosen;
  std::optional<Candidate> constrained;  // nothing: no plan has the constraint
  // Parts of the step, largest difference first, then memory by class. The parts' differences sum
  // to the difference of the step times.
  std::vector<WhyNotTerm> terms;
  SearchResult search;  // under the constraint: why plans were rejected
};

// `constraint` is one setting or several, blank between: "tp=8", "tp=8 pp=1".
WhyNot why_not(const SearchProblem& problem, const Candidate& chosen, const std::string& constraint,
               const SearchLimits& limits = {});

// A paragraph for people, several lines.
std::string to_text(const WhyNot& answer);

}  // namespace sextant
