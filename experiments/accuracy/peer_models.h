// Cost and network as other programs have them: launches from an interpreter, and reductions of
// gradients that start when backward is over.
#pragma once

#include "core/costs/cost_model.h"
#include "core/graphs/fused_kinds.h"
#include "core/graphs/kernel_names.h"
#include "core/graphs/physical_graph.h"
#include "experiments/accuracy/software.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace sextant {

// Which products have 8-bit operands: with `tokens` of a rank and micro-batch as an extent of
// theirs, but those of the head, whose extent is `classes`. No tokens: none has.
struct EightBitLayers {
  double tokens = 0, classes = 0;
  EightBitUse use;
};

// The cost of a device as a program uses it.
class PeerCosts final : public CostModel {
 public:
  // `attention_share`: rate of fused attention, as a share of that of large products. `slowdown`:
  // how much longer kernels take together because the host launches them too late
  // (`host_slowdown`). `products`: theirs beside ours.
  PeerCosts(const CostModel& base, const Software& software, double attention_share,
            Duration launch_cost, double slowdown = 1, ProductUse products = {},
            const EightBitLayers& eight_bit = {})
      : base_(base),
        software_(software),
        attention_share_(attention_share),
        launch_cost_(launch_cost),
        slowdown_(slowdown),
        products_(products),
        eight_bit_(eight_bit) {}

  Duration duration(const Work& work) const override {
    Duration sum = base_.duration(as_theirs(work));
    if (const auto cast = cast_of(work)) sum += base_.duration(*cast);
    return slowed(sum);
  }
  Duration duration_on(Rank rank, const Work& work) const override {
    Duration sum = base_.duration_on(rank, as_theirs(work));
    if (const auto cast = cast_of(work)) sum += base_.duration_on(rank, *cast);
    return slowed(sum);
  }
  std::int32_t colour_of(Rank rank) const override { return base_.colour_of(rank); }
  Duration launch_cost() const override { return launch_cost_; }
  bool fuses(std::string_view kind) const override {
    const FusedKind* const fused = find_fused_kind(kind);
    if (fused != nullptr && fused->joins_gradients && software_.fusion != Software::Fusion::kAll)
      return false;  // theirs sum the gradients of weights in a pass of their own
    const bool has_product = kind.find("matmul") != std::string_view::npos;
    const bool is_addmm = kind == "matmul_bias";  // one call of cuBLAS
    switch (software_.fusion) {
      case Software::Fusion::kAll:
        return base_.fuses(kind);
      case Software::Fusion::kElementwise:
        return (!has_product || is_addmm) && base_.fuses(kind);
      case Software::Fusion::kNone:
        return is_addmm && base_.fuses(kind);
    }
    return false;
  }

 private:
  static bool is_attention(const Work& work) {
    return kernel_family(work.kernel).starts_with("attention");
  }
  // Under a name that the device has no rate for: their kernels are not ours.
  Work as_theirs(Work work) const {
    if (is_attention(work)) {
      work.flops /= attention_share_;
      work.kernel = "fused attention";
    } else if (const auto extents = matmul_extents(work.kernel)) {
      const double lost = extents->k > 0 ? products_.lost_extent / extents->k : 0;
      work.flops *= (1 + lost) / products_.share;
      if (is_eight_bit(*extents)) work.flops /= eight_bit_.use.speedup;
    }
    return work;
  }

  bool is_eight_bit(const MatmulExtents& extents) const {
    const double head = eight_bit_.classes;
    return eight_bit_.tokens > 0 && extents.m != head && extents.n != head && extents.k != head;
  }

  // Of a forward product or a gradient of its input, whose rows are tokens; the product of the
  // weight's gradient finds both operands in 8 bits.
  std::optional<Work> cast_of(const Work& work) const {
    const auto extents = matmul_extents(work.kernel);
    if (!extents || !is_eight_bit(*extents) || extents->m != eight_bit_.tokens) return std::nullopt;
    const double elements = extents->m * extents->k;
    return Work{0, Bytes(static_cast<std::int64_t>(elements * eight_bit_.use.cast_read)),
                Bytes(static_cast<std::int64_t>(elements * eight_bit_.use.cast_written)),
                "elementwise"};
  }

  Duration slowed(Duration duration) const {
    return slowdown_ == 1 ? duration : duration_from_seconds(to_seconds(duration) * slowdown_);
  }

  const CostModel& base_;
  const Software& software_;
  double attention_share_;
  Duration launch_cost_;
  double slowdown_;
  ProductUse products_;
  EightBitLayers eight_bit_;
};

// Communications of the optimizer phase: sums of gradients, gathers of updated parameters.
std::set<const Communication*> once_per_step(const PhysicalGraph& graph);

// Collectives of tensor parallelism, in a graph whose parameters are whole on each replica.
std::set<const Communication*> tensor_sums(const PhysicalGraph& graph);

// Another model in which some communications take no time.
class WithFree final : public NetworkModel {
 public:
  WithFree(const NetworkModel& base, std::set<const Communication*> free)
      : base_(base), free_(std::move(free)) {}

  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override;
  Duration duration(const CollectiveCost& cost) const override {
    return free_.contains(cost.communication) ? Duration() : base_.duration(cost);
  }
  bool completes_together() const override { return base_.completes_together(); }

 private:
  const NetworkModel& base_;
  std::set<const Communication*> free_;
};

// Another model in which some communications are parts of a flat one: bytes without latency.
// `sums_whole`: those that sum a part on each member sum all of it on all instead.
class WithFlat final : public NetworkModel {
 public:
  WithFlat(const NetworkModel& base, std::set<const Communication*> parts, bool sums_whole)
      : base_(base), parts_(std::move(parts)), sums_whole_(sums_whole) {}

  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override;
  Duration duration(const CollectiveCost& cost) const override;
  bool completes_together() const override { return true; }

 private:
  const NetworkModel& base_;
  std::set<const Communication*> parts_;
  bool sums_whole_;
};

// Longest time that a rank spends in `communications` during the step, each from the arrival of its
// last member.
Duration busiest(const PhysicalGraph& graph, const Timeline& timeline,
                 const std::set<const Communication*>& communications);

// Updates of parameters of the rank that has most.
std::int64_t updates_per_step(const PhysicalGraph& graph);

// Operators of forward and backward that the hosts launch in a step, per run of the issue order:
// runs of several operators are one launch for our devices and one per operator elsewhere. What
// follows backward acts on all tensors at once there.
double operators_per_run(const PhysicalGraph& graph);

// By how much forward and backward take longer than their kernels where the host waits for every
// transfer of a pipeline: it starts each act of a stage with nothing launched, and each operator
// costs it `launch_s`.
double host_slowdown(const PhysicalGraph& graph, const CostModel& cost, double launch_s);

}  // namespace sextant
