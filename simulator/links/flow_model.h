// Which links a collective loads: what timed mode needs beside closed-form durations.
#pragma once

#include "core/costs/cluster.h"
#include "core/costs/cost_model.h"

#include <memory>

namespace sextant {

// `base` with the links of the cluster (simulator/links/topology.h) and the load of each
// collective.
//
// latency = what `base` says of the collective without bytes. In the rest of its isolated duration
// it loads
//   rings (all_reduce 2 (n-1)/n S, all_gather and reduce_scatter (n-1)/n S, broadcast S, a shift
//     S/n per member)
//     inside a node: what a member sends leaves it and enters the next; where devices have several
//     links, half of it goes on a ring in the other direction (all pairs: to all peers alike);
//     between nodes: as many rings side by side as the node with the fewest members has members,
//     each over NICs of its own. A shift crosses nodes from one member to the next only.
//   all_to_all: the average bytes of a pair, between all pairs
//   transfer: from the first member to the second; of more, senders being listed first, from each
//     to all later ones alike.
// Trees, NVLS and other algorithms are taken to load what a ring does. No link gets more than it
// carries in that time: alone, every collective runs at its full rate.
std::unique_ptr<NetworkModel> make_flow_network(const Cluster& cluster,
                                                std::unique_ptr<NetworkModel> base);

}  // namespace sextant
