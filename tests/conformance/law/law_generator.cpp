// Degrees first, then what fits them.
#include "tests/conformance/law/law_generator.h"

#include "core/base/counter_rng.h"
#include "core/base/error.h"
#include "tests/conformance/law/law_models.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kMostRanks = 8;

// A settings of this version, asked for once.
struct Features {
  bool zero2 = is_available("dp=2 zero=2"), zero3 = is_available("dp=2 zero=3");
  bool recompute = is_available("recompute=full");
  bool selective = is_available("recompute=selective");
  bool sequence_parallel = is_available("tp=2 sp=on");
  bool ring = is_available("cp=2 cp_mode=ring"), all_to_all = is_available("cp=2 cp_mode=a2a");
  bool experts = is_available("dp=2 ep=2");
  bool pieces = is_available("tp=2 pieces=2");
  bool interleaved = is_available("pp=2 virtual=2 schedule=interleaved");
  bool zero_bubble_v = is_available("pp=2 virtual=2 schedule=zb-v");
};

const Features& features() {
  static const Features available;
  return available;
}

// Draws of one plan, which no other plan shares.
class Draws {
 protected:
  Draws(std::uint64_t seed, std::uint64_t index) : random_(seed, "law"), first_draw_(index << 16) {}

  std::int64_t below(std::int64_t limit) {
    const auto draw = static_cast<std::int64_t>(random_.bits(first_draw_ + num_draws_++) >> 33);
    return draw % limit;
  }
  bool chance(double probability) {
    return random_.uniform(first_draw_ + num_draws_++) <= probability;
  }
  template <typename T>
  const T& pick(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(below(static_cast<std::int64_t>(choices.size())))];
  }

 private:
  CounterRng random_;
  std::uint64_t first_draw_, num_draws_ = 0;
};

class Generator : private Draws {
 public:
  Generator(std::uint64_t seed, std::uint64_t index)
      : Draws(seed, index), model_(pick(law_models())) {}

  LawPlan draw() {
    plan_.model = model_.name;
    plan_.optimizer = pick(law_optimizers()).name;
    draw_numbers();
    draw_options();
    draw_stages();
    draw_degrees();
    draw_batch();
    draw_memory();
    if (plan_.strategy.ranks() > 1 && chance(0.5)) draw_order();
    if (chance(0.25)) draw_pins();
    if (plan_.strategy.tp > 1 && features().pieces && chance(0.6)) draw_pieces();
    return plan_;
  }

 private:
  void draw_numbers() {
    plan_.dtype =
        pick(std::vector<DType>{DType::kF64, DType::kF64, DType::kF64, DType::kF64, DType::kF64,
                                DType::kF64, DType::kF64, DType::kF32, DType::kF32, DType::kBF16});
    // Rounding to 16 bits sends tokens to other experts: no bound holds across such a jump.
    if (model_.has_experts && plan_.dtype == DType::kBF16) plan_.dtype = DType::kF32;
    plan_.queues = pick(std::vector<CpuQueueKind>{
        CpuQueueKind::kInline, CpuQueueKind::kAsynchronous, CpuQueueKind::kStress});
    plan_.kernels = chance(0.5) ? CpuKernels::kFast : CpuKernels::kReference;
  }

  void draw_options() {
    plan_.buckets = pick(law_buckets());
    plan_.options.slot_lifetime = chance(0.5) ? SlotLifetime::kModelled : SlotLifetime::kIssueOrder;
    plan_.options.transfer_order = chance(0.5) ? TransferOrder::kEarly : TransferOrder::kLate;
    plan_.options.launch_groups = chance(0.5);
    plan_.options.plan_memory = !chance(0.1);
    plan_.options.join_runs = chance(0.7);
    plan_.options.fusion = chance(0.7);
    plan_.options.in_place = chance(0.7);
    plan_.options.symmetric = chance(0.7);
  }

  // Stages, chunks and the schedule that fits them.
  void draw_stages() {
    std::vector<Schedule> virtual_schedules;
    if (features().interleaved) virtual_schedules.push_back(Schedule::kInterleaved);
    if (features().zero_bubble_v) virtual_schedules.push_back(Schedule::kZeroBubbleV);
    Strategy& strategy = plan_.strategy;
    if (model_.blocks >= 4 && !virtual_schedules.empty() && chance(0.4)) {
      strategy.pp = strategy.virtual_stages = 2;
      strategy.schedule = pick(virtual_schedules);
      if (chance(0.5)) draw_layers();
      return;
    }
    strategy.pp = chance(0.6) ? 1 + below(std::min(4, model_.blocks)) : 1;
    strategy.schedule =
        pick(std::vector<Schedule>{Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1});
    if (strategy.pp > 1 && chance(0.5)) draw_layers();
  }

  // One block for every virtual stage, the others anywhere; sometimes a share instead of a number.
  void draw_layers() {
    Strategy& strategy = plan_.strategy;
    const std::int64_t stages = strategy.pp * strategy.virtual_stages;
    strategy.layers.assign(static_cast<std::size_t>(stages), 1);
    for (std::int64_t left = model_.blocks - stages; left > 0; --left)
      ++strategy.layers[static_cast<std::size_t>(below(stages))];
    if (chance(0.3)) strategy.layers[static_cast<std::size_t>(below(stages))] = kEvenShare;
  }

  void draw_order() {
    RankOrder& order = plan_.strategy.order;
    for (std::size_t last = order.size() - 1; last > 0; --last)
      std::swap(order[last],
                order[static_cast<std::size_t>(below(static_cast<std::int64_t>(last) + 1))]);
  }

  void draw_degrees() {
    Strategy& strategy = plan_.strategy;
    const std::vector<std::int64_t> degrees = {1, 1, 2, 2, 3, 4};
    const auto room = [&](std::int64_t degree) {
      return strategy.ranks() * degree <= kMostRanks ? degree : 1;
    };
    if (model_.has_attention && chance(0.25)) strategy.cp = room(chance(0.7) ? 2 : 3);
    strategy.dp = room(pick(degrees));
    strategy.tp = room(pick(degrees));
    if (!divides_heads(strategy.tp)) strategy.tp = 1;
    if (strategy.cp > 1) draw_context();
    if (strategy.tp > 1 && model_.has_attention && features().sequence_parallel)
      strategy.sequence_parallel = chance(0.5);
    if (model_.has_experts && features().experts && strategy.dp % 2 == 0 && chance(0.6))
      strategy.ep = strategy.dp == 4 && chance(0.5) ? 4 : 2;
  }

  // Whole groups of heads on every device, or several devices to a group.
  bool divides_heads(std::int64_t tp) const {
    return model_.groups % tp == 0 || (tp % model_.groups == 0 && model_.heads % tp == 0);
  }

  // A ring passes equal chunks on; all-to-all exchanges the sequence for whole groups of heads.
  void draw_context() {
    Strategy& strategy = plan_.strategy;
    std::vector<ContextMode> modes;
    if (features().ring && model_.sequence % strategy.cp == 0) modes.push_back(ContextMode::kRing);
    if (features().all_to_all && model_.groups % (strategy.cp * strategy.tp) == 0)
      modes.push_back(ContextMode::kAllToAll);
    if (modes.empty())
      strategy.cp = 1;
    else
      strategy.context = pick(modes);
  }

  // Few batches, so that references serve many plans.
  void draw_batch() {
    Strategy& strategy = plan_.strategy;
    // Interleaved chunks take micro-batches in rounds of one per stage.
    const std::int64_t micro_batches_by =
        strategy.schedule == Schedule::kInterleaved ? strategy.pp : 1;
    std::vector<std::int64_t> batches;
    for (const std::int64_t batch : {6, 8, 12})
      if (batch % (strategy.dp * micro_batches_by) == 0) batches.push_back(batch);
    plan_.global_batch = pick(batches);
    const std::int64_t replica = plan_.global_batch / strategy.dp;
    std::vector<std::int64_t> sizes;
    for (std::int64_t size = 1; size <= replica; ++size)
      if (replica % (size * micro_batches_by) == 0) sizes.push_back(size);
    strategy.micro_batch = pick(sizes);
  }

  void draw_memory() {
    Strategy& strategy = plan_.strategy;
    std::vector<int> stages = {0, 1};
    if (features().zero2) stages.push_back(2);
    if (features().zero3) stages.push_back(3);
    strategy.zero = pick(stages);
    std::vector<Recompute> recompute = {{}};
    if (features().recompute) {
      recompute.push_back({Recompute::Kind::kFull, 0});
      recompute.push_back({Recompute::Kind::kLayers, 1});
    }
    if (features().selective && model_.has_attention)
      recompute.push_back({Recompute::Kind::kSelective, 0});
    strategy.recompute = pick(recompute);
  }

  void draw_pins() {
    const Strategy& strategy = plan_.strategy;
    const LogicalGraph graph = model_.build(strategy.dp * strategy.micro_batch, plan_.dtype);
    for (std::int64_t count = 1 + below(2); count > 0; --count) {
      const auto index =
          static_cast<std::size_t>(below(static_cast<std::int64_t>(graph.ops().size())));
      const LogicalOp& op = graph.ops()[index];
      const bool is_input = !op.inputs.empty() && chance(0.5);
      const std::size_t position =
          is_input ? static_cast<std::size_t>(below(static_cast<std::int64_t>(op.inputs.size())))
                   : 0;
      const TensorId tensor = is_input ? op.inputs[position] : op.outputs[0];
      WordPin pin{.name = is_input ? op.name : graph.tensor(tensor).name,
                  .input = std::nullopt,
                  .words = draw_words(graph.tensor(tensor).type.shape)};
      if (is_input) pin.input = position;
      if (pin.name.starts_with("layer") && chance(0.3)) pin.name = "layer*" + pin.name.substr(6);
      const auto& drawn = plan_.strategy.pins;
      if (std::none_of(drawn.begin(), drawn.end(), [&](const WordPin& other) {
            return other.name == pin.name && other.input == pin.input;
          }))
        plan_.strategy.pins.push_back(pin);  // of one name there is one
    }
  }

  // Of every part of the sequence, where tp or cp cut it into equal ones; of the batch of a replica
  // where there is none. (Convolutions have no product to cut, a classifier split by classes one
  // in backward.)
  void draw_pieces() {
    Strategy& strategy = plan_.strategy;
    const std::int64_t parts = strategy.cp * (strategy.sequence_parallel ? strategy.tp : 1);
    std::int64_t most = 1;
    if (model_.has_attention && model_.sequence % parts == 0) most = model_.sequence / parts;
    if (model_.name.starts_with("wide")) most = strategy.micro_batch;
    if (most > 1) strategy.pieces = 2 + below(most - 1);
  }

  NdSbp draw_words(const Shape& shape) {
    NdSbp words;
    const auto rank = static_cast<std::int64_t>(shape.rank());
    for (std::size_t axis = 0; axis < axes_of(plan_.strategy).count; ++axis) {
      const std::int64_t draw = below(2 * rank + 3);
      if (draw < 2 * rank)
        words.push_back(Sbp::split(static_cast<std::size_t>(draw / 2)));
      else
        words.push_back(draw == 2 * rank ? Sbp::partial() : Sbp::broadcast());
    }
    return words;
  }

  const LawModel& model_;
  LawPlan plan_;
};

}  // namespace

bool is_available(const std::string& strategy) {
  try {
    parse_strategy(strategy);
    return true;
  } catch (const Error& error) {
    if (std::string_view(error.what()).find("not in this version") == std::string_view::npos) throw;
    return false;
  }
}

LawPlan draw_plan(std::uint64_t seed, std::uint64_t index) { return Generator(seed, index).draw(); }

}  // namespace sextant
