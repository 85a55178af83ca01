// What would make a plan smaller that does not fit: strategies one setting away, compiled.
#pragma once

#include "search/search.h"

#include <string>
#include <vector>

namespace sextant {

struct MemoryRemedy {
  Strategy strategy;
  std::string change;  // "zero=1", "dp=2 tp=8"
  Bytes peak;          // arena and libraries of the device with least room
};

// Strategies of the same devices (or of more, where the cluster has them) that differ by one change
// and whose worst device needs less than `peak`, libraries included: the smallest first. Those that
// cannot be honoured are left out.
std::vector<MemoryRemedy> memory_remedies(const SearchProblem& problem, const Strategy& strategy,
                                          const SearchModels& models, Bytes peak);

// One sentence per remedy, for the hints of a refusal.
std::vector<std::string> remedy_texts(const std::vector<MemoryRemedy>& remedies, Bytes peak,
                                      Bytes capacity);

}  // namespace sextant
