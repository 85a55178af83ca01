// Of plans, those that no other one beats in step time and in memory. Knows nothing of how they
// were found.
#pragma once

#include "core/base/units.h"
#include "search/search/search.h"

#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace sextant {

// Points of time and memory of which none is at least as good in both as another one.
class ParetoFront {
 public:
  // Some point takes no more time and no more memory.
  bool covers(Duration time, Bytes memory) const;
  // False, and nothing changes, for what is covered; points that the new one covers are dropped.
  bool add(Duration time, Bytes memory);

 private:
  std::map<Duration, Bytes> memory_by_time_;  // falls as time rises
};

// By time; places in `plans`, which are ordered by time. Of plans that are equal in both, the
// first. Memory is what the device takes that needs most, libraries included.
std::vector<std::size_t> pareto_front(std::span<const Candidate> plans);

}  // namespace sextant
