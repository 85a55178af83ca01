// One table per generation; each line is an algorithm with its protocol and numbers, each column
// says its source.

#include "simulator/clusters/nccl_numbers.h"

#include "simulator/clusters/published.h"

#include <string>
#include <utility>

namespace sextant {

namespace {

CollectiveAlgorithm algorithm(const char* name, const char* protocol, Sourced base, Sourced step,
                              Sourced efficiency, const char* primitive = "",
                              Sourced own_copy = {}) {
  base.value *= kMicro;
  step.value *= kMicro;
  return {name,      protocol,           std::move(base), std::move(step), std::move(efficiency),
          primitive, std::move(own_copy)};
}

// A number that was measured on another generation.
Sourced as_on(const std::string& generation, const Sourced& measured) {
  return assumed(measured.value,
                 "as on " + generation + ", no measurement here: " + measured.source);
}

// ncclTopoTuneModel (NCCL 2.8 to 2.27, src/graph/tuning.cc): latencies in us.
constexpr const char* kTuning = "NCCL tuning model (src/graph/tuning.cc)";
constexpr const char* kLlCeiling = "NCCL tuning model: llMaxBws of one node";
// Smallest messages, measured on A100: NCCL's 6.6 us leave out the start of the kernel.
constexpr const char* kStart = "all_reduce of 8 KiB on 8 A100 (nccl-tests log, 8proc)";
Sourced ring_start() { return calibrated(17.3, kStart); }
Sourced tree_start() { return calibrated(17.5, kStart); }
constexpr const char* kSweep4 = "1 GiB and 256 MiB on 2 and 4 H200 without NVLS";
constexpr const char* kSweepCopy = "all_reduce and all_gather of 1 GiB on 2 and on 4 H200";

// Measured on H100 and H200; elsewhere as_on("Hopper", ...).
Sourced hopper_all_reduce_base() { return calibrated(82, "all_reduce of 256 MiB on 4 H200"); }
Sourced hopper_half_base() { return calibrated(50, "all_gather of 256 MiB on 4 H200"); }
Sourced hopper_all_reduce_copy() { return calibrated(0.16, kSweepCopy); }
Sourced hopper_half_copy() { return calibrated(0.35, kSweepCopy); }
Sourced hopper_pairs_base() { return calibrated(24, "all_to_all of 16 MiB on 4 H200"); }

struct RingNumbers {
  Sourced ll_base;  // us
  Sourced ll_efficiency, ll128_efficiency, simple_efficiency;
  Sourced all_reduce_base, half_base;  // us, of simple: filling the pipeline of large chunks
  Sourced all_reduce_copy, half_copy;
};

void add_rings(const RingNumbers& numbers, std::vector<CollectiveAlgorithm>& algorithms) {
  const Sourced& ll = numbers.ll_base;
  const Sourced ll128 = published(14, kTuning);
  const Sourced ll_step = published(0.6, kTuning), ll128_step = published(1.9, kTuning);
  const Sourced step = published(3.4, kTuning);
  const auto add = [&](const char* primitive, const Sourced& base, const Sourced& copy) {
    algorithms.push_back(
        algorithm("ring", "ll", ll, ll_step, numbers.ll_efficiency, primitive, copy));
    algorithms.push_back(
        algorithm("ring", "ll128", ll128, ll128_step, numbers.ll128_efficiency, primitive, copy));
    algorithms.push_back(
        algorithm("ring", "simple", base, step, numbers.simple_efficiency, primitive, copy));
  };
  add("all_reduce", numbers.all_reduce_base, numbers.all_reduce_copy);
  add("all_gather", numbers.half_base, numbers.half_copy);
  add("reduce_scatter", numbers.half_base, numbers.half_copy);
  // Chunks of a broadcast are small from the start.
  algorithms.push_back(algorithm("ring", "simple", published(8.4, kTuning), step,
                                 numbers.simple_efficiency, "broadcast"));
}

void add_pairs(const Sourced& base, Sourced all_to_all, Sourced transfer,
               std::vector<CollectiveAlgorithm>& algorithms) {
  const Sourced step = assumed(1, "one more peer in a group call");
  algorithms.push_back(
      algorithm("pairwise", "simple", base, step, std::move(all_to_all), "all_to_all"));
  algorithms.push_back(algorithm("pairwise", "simple", base, step, transfer, "transfer"));
  algorithms.push_back(algorithm("pairwise", "simple", base, step, std::move(transfer), "shift"));
}

void add_trees(Sourced ll_base, Sourced ll_efficiency, Sourced ll128_efficiency,
               Sourced simple_base, Sourced simple_efficiency,
               std::vector<CollectiveAlgorithm>& algorithms) {
  algorithms.push_back(algorithm("tree", "ll", std::move(ll_base), published(0.6, kTuning),
                                 std::move(ll_efficiency)));
  algorithms.push_back(algorithm("tree", "ll128", published(14, kTuning), published(1.25, kTuning),
                                 std::move(ll128_efficiency)));
  algorithms.push_back(algorithm("tree", "simple", std::move(simple_base), published(4, kTuning),
                                 std::move(simple_efficiency)));
}

std::vector<CollectiveAlgorithm> hopper_in_node() {
  // 370 of 450 GB/s: also what a maintainer states as the peak of rings (nccl-tests issue 212).
  const Sourced peak = calibrated(370.0 / 450, kSweep4);
  const Sourced ll128 = published(0.92 * 370 / 450, "NCCL tuning model: 0.92 of Simple");
  const Sourced ll = published(141.0 / 450, kLlCeiling);
  std::vector<CollectiveAlgorithm> algorithms;
  add_rings({as_on("A100", ring_start()), ll, ll128, peak, hopper_all_reduce_base(),
             hopper_half_base(), hopper_all_reduce_copy(), hopper_half_copy()},
            algorithms);
  add_trees(as_on("A100", tree_start()), ll, ll128, published(8.4, kTuning), peak, algorithms);
  algorithms.push_back(algorithm(
      "nvls", "simple", calibrated(110, "all_reduce of 128 MiB on 8 H100 (nccl-tests issue 290)"),
      assumed(0, "in the base"),
      calibrated(0.6825, "all_reduce of 4 GiB on 8 H100 (nccl-tests issue 290)"), "all_reduce"));
  add_pairs(hopper_pairs_base(), calibrated(0.731, "all_to_all of 1 GiB on 4 H200"),
            calibrated(0.807, "sendrecv of 1 GiB on 4 H200"), algorithms);
  return algorithms;
}

std::vector<CollectiveAlgorithm> ampere_in_node() {
  const Sourced peak = calibrated(0.79, "all_reduce of 4 GiB on 8 A100 (nccl-tests log, 8proc)");
  const Sourced ll128 = calibrated(0.57, "all_reduce of 16 MiB on 8 A100 (nccl-tests log, 8proc)");
  // NCCL's own model has a ceiling of 88 GB/s, at which 512 KiB would take 1.3 times what they
  // took.
  const Sourced ll = calibrated(0.45, "all_reduce of 1 MiB on 8 A100 (nccl-tests log, 8proc)");
  std::vector<CollectiveAlgorithm> algorithms;
  add_rings({ring_start(), ll, ll128, peak,
             calibrated(154, "all_reduce of 256 MiB on 8 A100 (nccl-tests log, 8proc)"),
             assumed(94, "0.61 of an all_reduce, as on H200, no measurement here"),
             as_on("Hopper", hopper_all_reduce_copy()), as_on("Hopper", hopper_half_copy())},
            algorithms);
  add_trees(tree_start(), ll, ll128,
            calibrated(58, "all_reduce of 64 MiB on 8 A100 (nccl-tests log, 8proc)"),
            calibrated(0.857, "all_reduce of 8 GiB on 2 nodes of 8 A100-40GB (nccl-tests log)"),
            algorithms);
  add_pairs(as_on("Hopper", hopper_pairs_base()),
            assumed(0.70, "a little below the 0.731 of Hopper, no measurement here"),
            assumed(0.78, "a little below the 0.807 of Hopper, no measurement here"), algorithms);
  return algorithms;
}

std::vector<CollectiveAlgorithm> volta_in_node() {
  const Sourced peak = assumed(0.87, "rings of a DGX-1 V100: about 130 of 150 GB/s");
  const Sourced ll128 = published(0.87 * 0.92, "NCCL tuning model: 0.92 of Simple");
  const Sourced ll = published(39.0 / 150, kLlCeiling);
  std::vector<CollectiveAlgorithm> algorithms;
  add_rings({as_on("A100", ring_start()), ll, ll128, peak,
             as_on("Hopper", hopper_all_reduce_base()), as_on("Hopper", hopper_half_base()),
             as_on("Hopper", hopper_all_reduce_copy()), as_on("Hopper", hopper_half_copy())},
            algorithms);
  add_trees(as_on("A100", tree_start()), ll, ll128, published(8.4, kTuning), peak, algorithms);
  add_pairs(as_on("Hopper", hopper_pairs_base()),
            assumed(0.75, "a little above the 0.731 of Hopper, no measurement here"),
            assumed(0.80, "a little below the 0.807 of Hopper, no measurement here"), algorithms);
  return algorithms;
}

// Between nodes every base holds the start of the proxies as well, measured on H200.
constexpr double kProxies = 22.2;
constexpr const char* kProxySource =
    "NCCL tuning model, and 22.2 us: all_reduce of 8 KiB on 2 nodes of 8 H200 (nccl-tests log)";
constexpr const char* kPorts =
    "390.6 of 400 GB/s: all_reduce of 8 GiB on 2 nodes of 8 H100 (nccl-tests log, 8x400Gb IB)";
// 45 GB/s of bus bandwidth over 8 ports of 50 GB/s, 22.5 over 8 of 25: Hopper's and Ampere's.
constexpr const char* kFarLlCeiling = "NCCL tuning model: llMaxBws of two nodes";
constexpr double kFarLl = 45.0 / 400;

// What was measured between nodes was measured on Hopper, all_reduces of A100s apart.
struct FarNumbers {
  explicit FarNumbers(GpuGeneration generation) : generation(generation) {}

  bool is_hopper() const { return generation == GpuGeneration::kHopper; }
  Sourced measured_on_hopper(double value, const char* source) const {
    const Sourced number = calibrated(value, source);
    return is_hopper() ? number : as_on("Hopper", number);
  }
  Sourced base(double tuning) const { return measured_on_hopper(tuning + kProxies, kProxySource); }
  Sourced ports() const { return measured_on_hopper(0.977, kPorts); }
  Sourced ll() const {
    const Sourced ceiling = published(kFarLl, kFarLlCeiling);
    return generation == GpuGeneration::kVolta ? as_on("Ampere", ceiling) : ceiling;
  }
  // Inside a node: assumed here, also on Hopper.
  Sourced in_node_base(double base_us) const {
    return assumed(base_us + kProxies, "as inside a node, and 22.2 us for proxies");
  }
  Sourced in_node_copy(const Sourced& copy) const {
    return assumed(copy.value, "as inside a node of Hopper: " + copy.source);
  }
  // Rings of Hopper between nodes go at the rate of their ports alone.
  Sourced all_reduce_copy() const {
    return is_hopper() ? calibrated(0, kPorts) : in_node_copy(hopper_all_reduce_copy());
  }

  GpuGeneration generation;
};

void add_far_rings(const FarNumbers& far, double all_reduce_base, double half_base,
                   std::vector<CollectiveAlgorithm>& algorithms) {
  const Sourced ll128 = published(0.92, "NCCL tuning model: 0.92 of the line");
  const auto add = [&](const char* primitive, double base_us, const Sourced& own) {
    algorithms.push_back(
        algorithm("ring", "ll", far.base(6.6), published(2.7, kTuning), far.ll(), primitive, own));
    algorithms.push_back(
        algorithm("ring", "ll128", far.base(14), published(4.0, kTuning), ll128, primitive, own));
    algorithms.push_back(algorithm("ring", "simple", far.in_node_base(base_us),
                                   published(14.0, kTuning), far.ports(), primitive, own));
  };
  add("all_reduce", all_reduce_base, far.all_reduce_copy());
  add("all_gather", half_base, far.in_node_copy(hopper_half_copy()));
  add("reduce_scatter", half_base, far.in_node_copy(hopper_half_copy()));
  algorithms.push_back(algorithm("ring", "simple", far.base(8.4), published(14.0, kTuning),
                                 far.ports(), "broadcast"));
}

struct FarTrees {
  Sourced ll128 = published(0.915 * 0.9, "NCCL tuning model: 0.9 and 120/128");
  Sourced simple = published(0.9, "NCCL tuning model: 0.9");
};

void add_far_trees(const FarNumbers& far, Sourced simple_base, FarTrees efficiencies,
                   std::vector<CollectiveAlgorithm>& algorithms) {
  Sourced ll = far.ll();
  ll.value /= 2;
  algorithms.push_back(
      algorithm("tree", "ll", far.base(6.8), published(5.0, kTuning), std::move(ll)));
  algorithms.push_back(algorithm("tree", "ll128", far.base(14), published(8.5, kTuning),
                                 std::move(efficiencies.ll128)));
  algorithms.push_back(algorithm("tree", "simple", std::move(simple_base), published(14, kTuning),
                                 std::move(efficiencies.simple)));
}

void add_far_pairs(const FarNumbers& far, std::vector<CollectiveAlgorithm>& algorithms) {
  const Sourced efficiency = assumed(0.90, "NCCL send and recv over RDMA, no measurement here");
  algorithms.push_back(algorithm("pairwise", "simple", far.base(8.4),
                                 assumed(2, "one more peer in a group call"), efficiency));
}

std::vector<CollectiveAlgorithm> hopper_between_nodes() {
  const FarNumbers far(GpuGeneration::kHopper);
  std::vector<CollectiveAlgorithm> algorithms;
  add_far_rings(far, 82, 50, algorithms);
  add_far_trees(far, far.base(8.4), {}, algorithms);
  algorithms.push_back(
      algorithm("nvls", "simple",
                calibrated(224, "all_reduce of 1 GiB on 2 nodes of 8 H200 (nccl-tests log)"),
                published(18, kTuning), far.ports(), "all_reduce",
                calibrated(0.46, "all_reduce of 16 GiB on 2 nodes of 8 H200 (nccl-tests log)")));
  add_far_pairs(far, algorithms);
  return algorithms;
}

// The log does not tell whether ports or the chains of GPUs in a node bound these trees. NCCL makes
// as many chains as ports serve, so half the ports halve both.
FarTrees ampere_trees() {
  return {.ll128 = assumed(0.43,
                           "chains in a node, as many as its ports serve: 0.57 of 300 GB/s, "
                           "half each way, of 200 GB/s"),
          .simple = calibrated(0.64,
                               "all_reduce of 8 GiB on 2 nodes of 8 A100-40GB "
                               "(nccl-tests log)")};
}

std::vector<CollectiveAlgorithm> ampere_between_nodes() {
  const FarNumbers far(GpuGeneration::kAmpere);
  std::vector<CollectiveAlgorithm> algorithms;
  add_far_rings(far, 154, 94, algorithms);
  add_far_trees(far,
                calibrated(750, "all_reduce of 1 GiB on 2 nodes of 8 A100-40GB (nccl-tests log)"),
                ampere_trees(), algorithms);
  add_far_pairs(far, algorithms);
  return algorithms;
}

std::vector<CollectiveAlgorithm> volta_between_nodes() {
  const FarNumbers far(GpuGeneration::kVolta);
  std::vector<CollectiveAlgorithm> algorithms;
  add_far_rings(far, 82, 50, algorithms);
  add_far_trees(far, far.base(8.4), {}, algorithms);
  add_far_pairs(far, algorithms);
  return algorithms;
}

// Hopper's numbers, where nothing was measured.
std::vector<CollectiveAlgorithm> as_on_hopper(std::vector<CollectiveAlgorithm> algorithms) {
  for (CollectiveAlgorithm& one : algorithms)
    for (Sourced* number : {&one.base_latency, &one.step_latency, &one.efficiency, &one.own_copy})
      if (number->provenance == Provenance::kCalibrated) *number = as_on("Hopper", *number);
  return algorithms;
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
    case GpuGeneration::kBlackwell:
      return as_on_hopper(hopper_in_node());
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
    case GpuGeneration::kBlackwell:
      return as_on_hopper(hopper_between_nodes());
  }
  return {};
}

}  // namespace sextant
