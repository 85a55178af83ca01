// What members of a group that meet for a communication are held to, on every kind of device.
#pragma once

#include "core/base/ids.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// Whether both may be one communication: equal in everything but side and role, which are each
// member's own. Layouts are equal as values: programs may name one by two ids.
bool are_same(const PhysicalGraph& graph, const Communication& a, const Communication& b);

// Who arrived at the `occurrence`-th communication of a group and who did not, for an error.
// `has_arrived`: by position in the group.
std::string arrivals_text(const PhysicalGraph& graph, GroupId group, std::int64_t occurrence,
                          const std::vector<bool>& has_arrived);

}  // namespace sextant
