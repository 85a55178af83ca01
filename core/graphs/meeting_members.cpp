// Words are compared, not their numbers.
#include "core/graphs/meeting_members.h"

#include <fmt/core.h>

namespace sextant {

bool are_same(const PhysicalGraph& graph, const Communication& a, const Communication& b) {
  const auto same_layout = [&](LayoutId x, LayoutId y) {
    return x == y || graph.layouts[x] == graph.layouts[y];
  };
  return a.primitive == b.primitive && a.reduce == b.reduce && a.dtype == b.dtype &&
         same_layout(a.from, b.from) && same_layout(a.to, b.to);
}

std::string arrivals_text(const PhysicalGraph& graph, GroupId group, std::int64_t occurrence,
                          const std::vector<bool>& has_arrived) {
  const DeviceGroup& members = graph.groups[group];
  std::string arrived, missing;
  for (std::size_t i = 0; i < members.ranks.size(); ++i) {
    std::string& list = has_arrived[i] ? arrived : missing;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", members.ranks[i].value);
  }
  return fmt::format("communication {} of group '{}': ranks {} arrived, ranks {} did not",
                     occurrence, members.name, arrived, missing.empty() ? "none" : missing);
}

}  // namespace sextant
