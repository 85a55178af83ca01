// The cost and network models: roofline and measured kernels; NCCL's algorithms, and alpha-beta
// rings as the baseline.
#pragma once

#include "core/costs/cluster.h"
#include "core/costs/cost_model.h"
#include "simulator/cluster_files/cluster_file.h"

#include <memory>

namespace sextant {

// t = kernel overhead + max(flops / (peak * efficiency), bytes / (bandwidth * efficiency)), with
// the peak of `compute_dtype`; families of kernels that the device has a rate for (KernelRate) take
// theirs. A kernel key "matmul:MxNxK" adds the shape (product_work.h) and what is read and written
// beside the operands; products with loose rows run at the rate of `matmul_loose` where there is
// one. A key "attention:KxD" with a pair time t takes, for P pairs of a query and a key that it
// sees, (1 + lost keys / K) (FLOPs of heads in steps of 64 elements / rate + P t); where all see
// all, "attention:KxD:all", half as many are lost. Throws Error(kUsage) when the device has no peak
// for the dtype, Error(kBadInput) from `duration` for a key that does not parse.
std::unique_ptr<CostModel> make_roofline(const Cluster& cluster, DType compute_dtype);

// The kernels that the cluster file has measured times of, in the dtype they were measured in, and
// the roofline for all else. Work that was measured takes what it took. Other work of a measured
// family takes what the roofline says, times the mean ratio that the family's kernels have to
// theirs: of logarithms, weighted by 1 / distance^4, distances in octaves of the extents of a
// matmul, else of FLOPs and bytes, and of what tells kernels of one size apart: twice those of a
// matmul's bytes beyond a plain one's, else eight times those of FLOPs to a byte. Without measured
// times this is the roofline.
std::unique_ptr<CostModel> make_cost_model(const Cluster& cluster, DType compute_dtype);

// How far the table of measured kernels is off where it is asked for others: the median, by their
// time, of the relative errors of each kernel when it is predicted from the rest; 0 without a
// table.
double leave_one_out_error(const Cluster& cluster);

// Peak matrix rate of the cluster's device; throws Error(kUsage) naming the dtypes it has.
const PeakRate& peak_of(const DeviceKind& device, DType dtype);

// Collectives of links of which only latency and bandwidth are known, all members together: they
// start when the last one has arrived. Inside a node of n members, with S the tensor as the group
// sees it and V the largest volume of one member:
//   all_reduce                  2 (n-1) (alpha + S / (n B))
//   all_gather, reduce_scatter    (n-1) (alpha + S / (n B))
//   broadcast                     (n-1) alpha + S / B, pipelined along the ring
//   all_to_all                    (n-1) alpha + V / B
//   transfer                            alpha + V / B
//   shift                               alpha + S / (n B)
// Over N nodes of k members each, every step and byte counts on the link that it uses. With alpha
// and B inside a node, beta and b of one member's share of the NICs between nodes:
//   all_gather, reduce_scatter  the faster of one ring over all, (n-N) alpha + (N-1) beta +
//                               (n-1) S / (n min(B, k b)), and of both levels one after the other,
//                               (k-1) (alpha + S / (k B)) + (N-1) (beta + S / (N k b));
//                               an all_reduce is both. Unequal nodes: the ring, k the fewest
//   all_to_all                  (k-1) alpha + (n-k) beta + the larger of V (k-1)/(n-1) / B and
//                               V (n-k)/(n-1) / b
//   transfer, shift             one step that leaves the node, all its bytes over one share
// Zero bytes cost latency only; a group of one costs nothing. Wirings, outer tiers and algorithms
// of the links are not looked at.
std::unique_ptr<NetworkModel> make_alpha_beta(const Cluster& cluster);

// What the product uses: collectives as the cluster's library runs them, the fastest of the
// algorithms and protocols that their link lists (simulator/clusters/nccl_algorithms.h has the
// formulas); where it lists none for a primitive, the formulas above with the link's wiring
// (simulator/clusters/wiring.h) and outer tiers in them: a ring reaches what the slowest border
// that it crosses lets through. All members complete together, one duration after the last arrival.
std::unique_ptr<NetworkModel> make_network_model(const Cluster& cluster);

// For studies of skew and slow hops: all_reduce, all_gather and reduce_scatter as rings in group
// order, completion per member (simulator/costs/ring_recurrence.h), a hop costing alpha + S / (n B)
// of the link that it passes, rails side by side between nodes. All else as make_network_model. It
// is not symmetric in the members, so runs with it must not be folded (simulator/README.md,
// invariant 3).
std::unique_ptr<NetworkModel> make_ring_recurrence(const Cluster& cluster);

// What a cluster says of time, together: the models that every verb uses.
struct TimingModels {
  std::unique_ptr<CostModel> cost;
  std::unique_ptr<NetworkModel> network;
};
TimingModels make_timing_models(const Cluster& cluster, DType compute_dtype);

}  // namespace sextant
