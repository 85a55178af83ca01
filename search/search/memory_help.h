// What would make a plan smaller that does not fit: strategies one setting away. What no plan of
// them can do without is known at once; the most promising ones are compiled.
#pragma once

#include "search/search/search.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

struct MemoryRemedy {
  Strategy strategy;
  std::string change;  // "zero=1", "dp=2 tp=8"
  enum class Known : std::uint8_t {
    kFits,     // compiled
    kMayFit,   // not compiled: no bound speaks against it
    kTooLarge  // compiled, or by its bound
  };
  Known known = Known::kFits;
  bool is_compiled = true;
  // Arena and libraries of the device with least room; not compiled: no plan needs less.
  Bytes peak;
};

// Acts of operators in one step of all that is compiled to find remedies: a plan of 7 billion
// parameters is compiled with every change, one of 400 billion with the most promising one.
inline constexpr std::int64_t kRemedyActs = 150'000;

// Strategies of the same devices (or of more, where the cluster has them) that differ by one change
// and whose worst device may need less than `peak`, libraries included, of the `capacity` that it
// has: first what fits, then what may, then what does not, of each the smallest first. Those that
// cannot be honoured are left out, as far as they were compiled. At least one is, then as many as
// `acts` allows.
std::vector<MemoryRemedy> memory_remedies(const SearchProblem& problem, const Strategy& strategy,
                                          const SearchModels& models, Bytes peak, Bytes capacity,
                                          std::int64_t acts = kRemedyActs);

// One sentence per remedy, for the hints of a refusal.
std::vector<std::string> remedy_texts(const std::vector<MemoryRemedy>& remedies, Bytes peak);

}  // namespace sextant
