// One map: memory falls as time rises, so the point before a time is the smallest of those before.
#include "search/search/pareto.h"

#include <iterator>

namespace sextant {

bool ParetoFront::covers(Duration time, Bytes memory) const {
  const auto later = memory_by_time_.upper_bound(time);
  return later != memory_by_time_.begin() && std::prev(later)->second <= memory;
}

bool ParetoFront::add(Duration time, Bytes memory) {
  if (covers(time, memory)) return false;
  auto later = memory_by_time_.lower_bound(time);
  while (later != memory_by_time_.end() && later->second >= memory)
    later = memory_by_time_.erase(later);
  memory_by_time_.emplace(time, memory);
  return true;
}

std::vector<std::size_t> pareto_front(std::span<const Candidate> plans) {
  std::vector<std::size_t> front;
  ParetoFront points;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!points.add(plans[i].step_time, plans[i].most_needed)) continue;
    // Of equal times the later one needs less, or it would be covered.
    while (!front.empty() && plans[front.back()].step_time == plans[i].step_time) front.pop_back();
    front.push_back(i);
  }
  return front;
}

}  // namespace sextant
