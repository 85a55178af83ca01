// The cost and network models of this version: roofline, and alpha-beta rings over two tiers.
#pragma once

#include "core/cluster.h"
#include "core/cost_model.h"
#include "simulator/cluster_file.h"

#include <memory>

namespace sextant {

// t = kernel overhead + max(flops / (peak * efficiency), bytes / (bandwidth * efficiency)), with
// the peak of `compute_dtype`. A kernel key "matmul:MxNxK" adds the shape: output tiles run in
// waves over the device's matmul units, and each tile pays one tile edge of K for filling and
// draining. Throws Error(kUsage) when the device has no peak for the dtype, Error(kBadInput) from
// `duration` for a matmul key that does not parse.
std::unique_ptr<CostModel> make_roofline(const Cluster& cluster, DType compute_dtype);

// Peak matrix rate of the cluster's device; throws Error(kUsage) naming the dtypes it has.
const PeakRate& peak_of(const DeviceKind& device, DType dtype);

// Ring collectives, all members together: they start when the last one has arrived.
//   all_reduce                  2 (n-1) (alpha + S / (n B))
//   all_gather, reduce_scatter    (n-1) (alpha + S / (n B))
//   broadcast                     (n-1) alpha + S / B, pipelined along the ring
//   all_to_all                    (n-1) alpha + V / b
//   transfer                            alpha + V / b
// S is the tensor as the group sees it, V the largest volume of one member. Within one node alpha
// and B = b are those of the intra-node link. Otherwise alpha and b are the inter-node link's, and
// B = min(B_intra, g b) for g = the fewest members in one of the nodes: a ring crosses each node's
// border once, and every member brings its own share of the NICs (rails), so g rings run side by
// side. Zero bytes cost latency only; a group of one costs nothing.
std::unique_ptr<NetworkModel> make_alpha_beta(const Cluster& cluster);

}  // namespace sextant
