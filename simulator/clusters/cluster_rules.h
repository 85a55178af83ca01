// What a cluster may be, beyond the range of each number: how its parts must fit together.
#pragma once

#include "core/costs/cluster.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

inline constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;

// A rule that does not hold: the key it is about, and what is wrong with it.
struct BrokenRule {
  std::string key;   // "intra_node.cables[3]"
  std::string what;  // "joins device 4 to itself"
};

// Rules, each about one key:
// - a name; at least one node and one device per node; at most 2^20 devices;
// - every number in its range (cluster_fields.h), memory above zero, at least one peak rate;
// - a link where two devices need one: inside nodes of several devices, between several nodes;
// - a torus has extents above zero that multiply to what it wires; nothing else has extents;
// - cables join two different of the things they wire, with at least one lane, and all of them;
//   nothing else has cables;
// - an outer tier has groups of whole groups of the tier inside, more than one node each, and
//   divides the nodes;
// - other devices have nodes of the cluster, no node twice;
// - a table of measured kernels has some, each with a name that operators give
// (core/graphs/kernel_names.h) and
//   a time from 1 ps to 1 h, and no kernel with times ten times apart (matmuls: two times).
std::vector<BrokenRule> broken_rules(const Cluster& cluster);

}  // namespace sextant
