// One table per generation; each line is a way with its numbers, each column says its source.

#include "simulator/nccl_numbers.h"

#include <string>
#include <utility>

namespace sextant {

namespace {

constexpr double kMicro = 1e-6;

Sourced published(double value, const char* source) {
  return {value, Provenance::kPublished, source};
}
Sourced assumed(double value, const char* source) { return {value, Provenance::kAssumed, source}; }
Sourced calibrated(double value, const char* source) {
  return {value, Provenance::kCalibrated, source};
}

CollectiveAlgorithm way(const char* name, const char* protocol, Sourced base, Sourced step,
                        Sourced efficiency, const char* primitive = "", Sourced own_copy = {}) {
  base.value *= kMicro;
  step.value *= kMicro;
  return {name,      protocol,           std::move(base), std::move(step), std::move(efficiency),
          primitive, std::move(own_copy)};
}

// ncclTopoTuneModel (NCCL 2.8 to 2.27, src/graph/tuning.cc): latencies in us.
constexpr const char* kTuning = "NCCL tuning model (src/graph/tuning.cc)";
constexpr const char* kLlCeiling = "NCCL tuning model: llMaxBws of one node";
// Smallest messages: NCCL's 6.6 us leave out the start of the kernel.
constexpr const char* kStart = "all_reduce of 8 KiB on 8 A100 (nccl-tests log, 8proc)";
constexpr const char* kSweep4 = "1 GiB and 256 MiB on 2 and 4 H200 without NVLS";
constexpr const char* kSweepCopy = "all_reduce and all_gather of 1 GiB on 2 and on 4 H200";
constexpr const char* kAsHopper = "as on Hopper, no measurement here";

struct RingNumbers {
  Sourced ll_efficiency, ll128_efficiency, simple_efficiency;
  Sourced all_reduce_base, half_base;  // us, of simple: filling the pipeline of large chunks
  Sourced all_reduce_copy, half_copy;
};

void add_rings(const RingNumbers& numbers, std::vector<CollectiveAlgorithm>& ways) {
  const Sourced ll = calibrated(17.3, kStart), ll128 = published(14, kTuning);
  const Sourced ll_step = published(0.6, kTuning), ll128_step = published(1.9, kTuning);
  const Sourced step = published(3.4, kTuning);
  const auto add = [&](const char* primitive, const Sourced& base, const Sourced& copy) {
    ways.push_back(way("ring", "ll", ll, ll_step, numbers.ll_efficiency, primitive, copy));
    ways.push_back(
        way("ring", "ll128", ll128, ll128_step, numbers.ll128_efficiency, primitive, copy));
    ways.push_back(way("ring", "simple", base, step, numbers.simple_efficiency, primitive, copy));
  };
  add("all_reduce", numbers.all_reduce_base, numbers.all_reduce_copy);
  add("all_gather", numbers.half_base, numbers.half_copy);
  add("reduce_scatter", numbers.half_base, numbers.half_copy);
  // Chunks of a broadcast are small from the start.
  ways.push_back(
      way("ring", "simple", published(8.4, kTuning), step, numbers.simple_efficiency, "broadcast"));
}

void add_pairs(Sourced all_to_all, Sourced transfer, std::vector<CollectiveAlgorithm>& ways) {
  const Sourced base = calibrated(24, "all_to_all of 16 MiB on 4 H200");
  const Sourced step = assumed(1, "one more peer in a group call");
  ways.push_back(way("pairwise", "simple", base, step, std::move(all_to_all), "all_to_all"));
  ways.push_back(way("pairwise", "simple", base, step, transfer, "transfer"));
  ways.push_back(way("pairwise", "simple", base, step, std::move(transfer), "shift"));
}

void add_trees(Sourced ll_efficiency, Sourced ll128_efficiency, Sourced simple_base,
               Sourced simple_efficiency, std::vector<CollectiveAlgorithm>& ways) {
  ways.push_back(way("tree", "ll", calibrated(17.5, kStart), published(0.6, kTuning),
                     std::move(ll_efficiency)));
  ways.push_back(way("tree", "ll128", published(14, kTuning), published(1.25, kTuning),
                     std::move(ll128_efficiency)));
  ways.push_back(way("tree", "simple", std::move(simple_base), published(4, kTuning),
                     std::move(simple_efficiency)));
}

std::vector<CollectiveAlgorithm> hopper_in_node() {
  // 370 of 450 GB/s: also what a maintainer states as the peak of rings (nccl-tests issue 212).
  const Sourced peak = calibrated(370.0 / 450, kSweep4);
  const Sourced ll128 = published(0.92 * 370 / 450, "NCCL tuning model: 0.92 of Simple");
  const Sourced ll = published(141.0 / 450, kLlCeiling);
  std::vector<CollectiveAlgorithm> ways;
  add_rings({ll, ll128, peak, calibrated(82, "all_reduce of 256 MiB on 4 H200"),
             calibrated(50, "all_gather of 256 MiB on 4 H200"), calibrated(0.16, kSweepCopy),
             calibrated(0.35, kSweepCopy)},
            ways);
  add_trees(ll, ll128, published(8.4, kTuning), peak, ways);
  ways.push_back(way(
      "nvls", "simple", calibrated(110, "all_reduce of 128 MiB on 8 H100 (nccl-tests issue 290)"),
      assumed(0, "in the base"),
      calibrated(0.6825, "all_reduce of 4 GiB on 8 H100 (nccl-tests issue 290)"), "all_reduce"));
  add_pairs(calibrated(0.731, "all_to_all of 1 GiB on 4 H200"),
            calibrated(0.807, "sendrecv of 1 GiB on 4 H200"), ways);
  return ways;
}

std::vector<CollectiveAlgorithm> ampere_in_node() {
  const Sourced peak = calibrated(0.79, "all_reduce of 4 GiB on 8 A100 (nccl-tests log, 8proc)");
  const Sourced ll128 = calibrated(0.57, "all_reduce of 16 MiB on 8 A100 (nccl-tests log, 8proc)");
  const Sourced ll = published(87.7 / 300, kLlCeiling);
  std::vector<CollectiveAlgorithm> ways;
  add_rings(
      {ll, ll128, peak, calibrated(154, "all_reduce of 256 MiB on 8 A100 (nccl-tests log, 8proc)"),
       assumed(94, "0.61 of an all_reduce, as on H200"), assumed(0.16, kAsHopper),
       assumed(0.35, kAsHopper)},
      ways);
  add_trees(ll, ll128, calibrated(58, "all_reduce of 64 MiB on 8 A100 (nccl-tests log, 8proc)"),
            calibrated(0.857, "all_reduce of 8 GiB on 2 nodes of 8 A100-40GB (nccl-tests log)"),
            ways);
  add_pairs(assumed(0.70, kAsHopper), assumed(0.78, kAsHopper), ways);
  return ways;
}

std::vector<CollectiveAlgorithm> volta_in_node() {
  const Sourced peak = assumed(0.87, "rings of a DGX-1 V100: about 130 of 150 GB/s");
  const Sourced ll128 = published(0.87 * 0.92, "NCCL tuning model: 0.92 of Simple");
  const Sourced ll = published(39.0 / 150, kLlCeiling);
  std::vector<CollectiveAlgorithm> ways;
  add_rings({ll, ll128, peak, assumed(82, kAsHopper), assumed(50, kAsHopper),
             assumed(0.16, kAsHopper), assumed(0.35, kAsHopper)},
            ways);
  add_trees(ll, ll128, published(8.4, kTuning), peak, ways);
  add_pairs(assumed(0.75, kAsHopper), assumed(0.80, kAsHopper), ways);
  return ways;
}

// Between nodes every base holds the start of the proxies as well.
constexpr double kProxies = 22.2;
constexpr const char* kProxySource =
    "NCCL tuning model, and 22.2 us: all_reduce of 8 KiB on 2 nodes of 8 H200 (nccl-tests log)";
Sourced base(double tuning) { return calibrated(tuning + kProxies, kProxySource); }

constexpr const char* kPorts =
    "390.6 of 400 GB/s: all_reduce of 8 GiB on 2 nodes of 8 H100 (nccl-tests log, 8x400Gb IB)";

// 45 GB/s of bus bandwidth over 8 ports of 50 GB/s, 22.5 over 8 of 25.
constexpr const char* kFarLlCeiling = "NCCL tuning model: llMaxBws of two nodes";

void add_far_rings(double all_reduce_base, double half_base, double all_reduce_copy,
                   double half_copy, std::vector<CollectiveAlgorithm>& ways) {
  const Sourced ports = calibrated(0.977, kPorts);
  const Sourced ll = published(45.0 / 400, kFarLlCeiling);
  const Sourced ll128 = published(0.92, "NCCL tuning model: 0.92 of the line");
  const char* in_node = "as inside a node, and 22.2 us for proxies";
  const auto add = [&](const char* primitive, double base_us, double copy) {
    const Sourced own{copy, Provenance::kAssumed, kAsHopper};
    ways.push_back(way("ring", "ll", base(6.6), published(2.7, kTuning), ll, primitive, own));
    ways.push_back(way("ring", "ll128", base(14), published(4.0, kTuning), ll128, primitive, own));
    ways.push_back(way("ring", "simple", assumed(base_us + kProxies, in_node),
                       published(14.0, kTuning), ports, primitive, own));
  };
  add("all_reduce", all_reduce_base, all_reduce_copy);
  add("all_gather", half_base, half_copy);
  add("reduce_scatter", half_base, half_copy);
  ways.push_back(way("ring", "simple", base(8.4), published(14.0, kTuning), ports, "broadcast"));
}

void add_far_trees(Sourced simple_base, Sourced simple_efficiency,
                   std::vector<CollectiveAlgorithm>& ways) {
  ways.push_back(way("tree", "ll", base(6.8), published(5.0, kTuning),
                     published(45.0 / 2 / 400, kFarLlCeiling)));
  ways.push_back(way("tree", "ll128", base(14), published(8.5, kTuning),
                     published(0.915 * 0.9, "NCCL tuning model: 0.9 and 120/128")));
  ways.push_back(way("tree", "simple", std::move(simple_base), published(14, kTuning),
                     std::move(simple_efficiency)));
}

void add_far_pairs(std::vector<CollectiveAlgorithm>& ways) {
  const Sourced efficiency = assumed(0.90, "NCCL send and recv over RDMA, no measurement here");
  ways.push_back(way("pairwise", "simple", base(8.4), assumed(2, "one more peer in a group call"),
                     efficiency));
}

std::vector<CollectiveAlgorithm> hopper_between_nodes() {
  std::vector<CollectiveAlgorithm> ways;
  add_far_rings(82, 50, 0.16, 0.35, ways);
  add_far_trees(base(8.4), published(0.9, "NCCL tuning model: 0.9"), ways);
  ways.push_back(
      way("nvls", "simple",
          calibrated(224, "all_reduce of 1 GiB on 2 nodes of 8 H200 (nccl-tests log)"),
          published(18, kTuning), calibrated(0.977, kPorts), "all_reduce",
          calibrated(0.46, "all_reduce of 16 GiB on 2 nodes of 8 H200 (nccl-tests log)")));
  add_far_pairs(ways);
  return ways;
}

std::vector<CollectiveAlgorithm> ampere_between_nodes() {
  std::vector<CollectiveAlgorithm> ways;
  add_far_rings(154, 94, 0.16, 0.35, ways);
  add_far_trees(calibrated(750, "all_reduce of 1 GiB on 2 nodes of 8 A100-40GB (nccl-tests log)"),
                published(0.9, "NCCL tuning model: 0.9"), ways);
  add_far_pairs(ways);
  return ways;
}

std::vector<CollectiveAlgorithm> volta_between_nodes() {
  std::vector<CollectiveAlgorithm> ways;
  add_far_rings(82, 50, 0.16, 0.35, ways);
  add_far_trees(base(8.4), published(0.9, "NCCL tuning model: 0.9"), ways);
  add_far_pairs(ways);
  return ways;
}

}  // namespace

std::vector<CollectiveAlgorithm> nccl_in_node(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::kVolta:
      return volta_in_node();
    case GpuGeneration::kAmpere:
      return ampere_in_node();
    case GpuGeneration::kHopper:
      return hopper_in_node();
  }
  return {};
}

std::vector<CollectiveAlgorithm> nccl_between_nodes(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::kVolta:
      return volta_between_nodes();
    case GpuGeneration::kAmpere:
      return ampere_between_nodes();
    case GpuGeneration::kHopper:
      return hopper_between_nodes();
  }
  return {};
}

}  // namespace sextant
