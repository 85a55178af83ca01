// Blocks of one stage, the schedule in modelled time, and its projection on every stage.
#include "tests/support/pipeline_graph.h"

#include "actor/protocol/dry_run.h"
#include "core/base/error.h"
#include "tests/support/graph_builder.h"
#include "tests/support/mix_kernel.h"
#include "tests/support/slot_planner.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sextant::testing {
namespace {

constexpr auto of_port = BlockBuilder::of_port;
constexpr auto of_register = BlockBuilder::of_register;

struct StageLayouts {
  LayoutId hidden, weight, partial, nothing;
};

// Where the runs of a stage are: (instance, first actor, number of actors); instance -1: none.
struct Piece {
  std::int32_t instance = -1;
  std::int32_t first = 0, count = 1;
};
struct StagePieces {
  Piece receive_forward, forward, send_forward;
  Piece receive_backward, input_grad, weight_grad, send_backward;
  Piece reduce, update;
};

struct Op {
  enum class Kind { kForward, kInputGrad, kWeightGrad };
  Kind kind = Kind::kForward;
  int micro_batch = 0;
};

// The compute operations of a stage in order.
std::vector<Op> stage_sequence(const PipelineSpec& spec, int stage) {
  const int m = spec.micro_batches;
  const int warm_up =
      spec.schedule == PipelineSchedule::kGPipe ? m : std::min(m, spec.stages - stage);
  std::vector<Op> sequence;
  int weight = 0;
  for (int f = 0; f < warm_up; ++f) sequence.push_back({Op::Kind::kForward, f});
  for (int b = 0; b < m; ++b) {
    sequence.push_back({Op::Kind::kInputGrad, b});
    // Zero bubble lets weight gradients lag by the stage's distance from the start of the pipeline.
    const bool lags = spec.schedule == PipelineSchedule::kZeroBubble && b < stage;
    if (!lags) sequence.push_back({Op::Kind::kWeightGrad, weight++});
    if (warm_up + b < m) sequence.push_back({Op::Kind::kForward, warm_up + b});
  }
  while (weight < m) sequence.push_back({Op::Kind::kWeightGrad, weight++});
  return sequence;
}

bool communicates(const PhysicalGraph& graph, const RankProgram& program, const Run& run) {
  return graph.block_of(program.instances[run.instance])
      .actors[static_cast<std::size_t>(run.first_actor)]
      .communication.has_value();
}

// Neighbours start together if the graph still runs.
void merge_neighbours(PhysicalGraph& graph) {
  fit_registers(graph);
  for (const ProgramId p : graph.programs.keys()) {
    LaunchGroupId next_group(0);
    std::vector<Run>& order = graph.programs[p].order.values();
    for (std::size_t r = 0; r + 1 < order.size(); ++r) {
      const bool both = communicates(graph, graph.programs[p], order[r]) &&
                        communicates(graph, graph.programs[p], order[r + 1]);
      if (!both || order[r].launch_group.is_valid()) continue;
      order[r].launch_group = order[r + 1].launch_group = next_group;
      try {
        fit_registers(graph);
        dry_run(graph);
        ++next_group;
      } catch (const Error&) {
        order[r].launch_group = order[r + 1].launch_group = {};
      }
    }
  }
}

// More than 200 lines: instances link to registers of those made before them, and the order to the
// pieces of all, which the builder keeps by stage.
class PipelineBuilder {
 public:
  explicit PipelineBuilder(const PipelineSpec& spec) : spec_(spec) {}

  PhysicalGraph build() {
    for (int stage = 0; stage < spec_.stages; ++stage) add_layouts(stage);
    for (int stage = 0; stage < spec_.stages; ++stage) add_stage(stage);
    add_groups();
    bind_ranks();
    project_order();
    PhysicalGraph graph = builder_.graph();
    if (spec_.launch_groups) merge_neighbours(graph);
    fit_registers(graph);
    if (spec_.share_slots) share_slots(graph);
    add_guards(graph);
    return graph;
  }

 private:
  bool first(int stage) const { return stage == 0; }
  bool last(int stage) const { return stage == spec_.stages - 1; }

  void add_layouts(int stage) {
    const PlacementId here =
        builder_.placement({{"dp", spec_.replicas}}, Rank(stage * spec_.replicas));
    placements_.push_back(here);
    StageLayouts layouts;
    layouts.hidden = builder_.layout(Shape{4 * spec_.replicas}, "S(0)", here, DType::kI64);
    layouts.weight = builder_.layout(Shape{3}, "B", here, DType::kI64);
    layouts.partial =
        builder_.layout(Shape{3}, spec_.replicas > 1 ? "P(sum)" : "B", here, DType::kI64);
    if (spec_.data_actors) layouts.nothing = builder_.layout(Shape{0}, "B", here, DType::kI64);
    layouts_.push_back(layouts);
  }

  // Roles of a stage's program, in this order, those that it has.
  GroupRole role(int stage, int which) const {
    GroupRole next = 0;
    for (int i = 0; i < which; ++i) next += has_role(stage, i) ? 1 : 0;
    return next;
  }
  // 0 forward in, 1 forward out, 2 backward in, 3 backward out, 4 data.
  bool has_role(int stage, int which) const {
    if (which == 0 || which == 3) return !first(stage);
    if (which == 1 || which == 2) return !last(stage);
    return spec_.replicas > 1;
  }

  Communication transfer(int stage, int which) const {
    Communication result;
    result.primitive = Primitive::kTransfer;
    result.side = which == 0 || which == 2 ? Side::kReceive : Side::kSend;
    result.group = role(stage, which);
    result.dtype = DType::kI64;
    const int sender = which == 0 ? stage - 1 : which == 2 ? stage + 1 : stage;
    const int receiver = which == 1 ? stage + 1 : which == 3 ? stage - 1 : stage;
    result.from = layouts_[static_cast<std::size_t>(sender)].hidden;
    result.to = layouts_[static_cast<std::size_t>(receiver)].hidden;
    return result;
  }

  void add_stage(int stage) {
    GroupRole roles = 0;
    for (int which = 0; which < 5; ++which) roles += has_role(stage, which) ? 1 : 0;
    program_ = builder_.program("stage" + std::to_string(stage),
                                placements_[static_cast<std::size_t>(stage)], roles);
    here_ = layouts_[static_cast<std::size_t>(stage)];
    StagePieces pieces;
    InstanceId loader;
    if (first(stage) && spec_.host_actors) loader = add_loader();
    const InstanceId forward = add_forward(stage, pieces);
    const InstanceId backward = add_backward(stage, pieces);
    const InstanceId optimizer = add_optimizer(stage, pieces);
    const int m = spec_.micro_batches;
    if (loader.is_valid()) builder_.link(program_, loader, 0, forward, 1);
    builder_.link(program_, optimizer, weight_register_, forward, 0, m);
    builder_.link(program_, optimizer, weight_register_, backward, 0, m);
    builder_.link(program_, forward, hidden_register_, backward, 1);
    builder_.link(program_, forward, output_register_, backward, 2);
    builder_.link(program_, backward, gradient_register_, optimizer, 0);
    if (last(stage) && spec_.host_actors) {
      const InstanceId reader = add_reader();
      builder_.link(program_, forward, loss_register_, reader, 0);
    }
    pieces_.push_back(pieces);
  }

  InstanceId add_loader() {
    BlockBuilder block(builder_, "loader", Phase::kData);
    std::vector<Operand> in;
    if (spec_.data_actors) in.push_back(of_port(block.port("samples", here_.nothing)));
    const std::int32_t out = block.reg("x", here_.hidden, block.frame());
    block.actor("load", QueueRole::kHost, std::move(in), {out});
    const InstanceId loader = builder_.instance(program_, block.finish(), "loader",
                                                spec_.micro_batches, {spec_.micro_batches});
    if (spec_.data_actors) builder_.link(program_, add_source(), 0, loader, 0);
    return loader;
  }

  InstanceId add_source() {
    BlockBuilder block(builder_, "source", Phase::kData);
    const std::int32_t out = block.reg("samples", here_.nothing, block.frame());
    block.actor("make", QueueRole::kHost, {}, {out});
    return builder_.instance(program_, block.finish(), "source", spec_.micro_batches, {2});
  }

  InstanceId add_reader() {
    BlockBuilder block(builder_, "reader", Phase::kData);
    const std::int32_t loss = block.port("loss", here_.hidden);
    block.actor("read", QueueRole::kHost, {of_port(loss)}, {});
    return builder_.instance(program_, block.finish(), "reader", spec_.micro_batches, {});
  }

  // receive? -> hidden -> output (+ loss on the last stage) -> send?
  InstanceId add_forward(int stage, StagePieces& pieces) {
    BlockBuilder block(builder_, "forward" + std::to_string(stage), Phase::kForward);
    const Operand weight = of_port(block.port("weight", here_.weight));
    std::vector<Operand> in{weight};
    std::vector<std::int32_t> counts;
    std::int32_t next = 0;
    const auto instance =
        static_cast<std::int32_t>(builder_.graph().programs[program_].instances.size());
    if (!first(stage)) {
      const std::int32_t arrived = block.reg("arrived", here_.hidden, block.frame());
      block.communication("receive", QueueRole::kTransferInForward, transfer(stage, 0), {},
                          {arrived});
      in.push_back(of_register(arrived));
      pieces.receive_forward = {instance, next++, 1};
    } else if (spec_.host_actors) {
      in.push_back(of_port(block.port("x", here_.hidden)));
    }
    const std::int32_t saved = block.frame();
    hidden_register_ = block.reg("hidden", here_.hidden, saved);
    output_register_ = block.reg("output", here_.hidden, saved);
    block.actor("f1", QueueRole::kCompute, in, {hidden_register_});
    block.actor("f2", QueueRole::kCompute, {of_register(hidden_register_), weight},
                {output_register_});
    pieces.forward = {instance, next, 2};
    next += 2;
    if (last(stage) && spec_.host_actors) {
      loss_register_ = block.reg("loss", here_.hidden, block.frame());
      block.actor("loss", QueueRole::kCompute, {of_register(output_register_)}, {loss_register_});
      ++pieces.forward.count;
    }
    if (!last(stage)) {
      block.communication("send", QueueRole::kTransferOutForward, transfer(stage, 1),
                          {of_register(output_register_)}, {});
      pieces.send_forward = {instance, next++, 1};
    }
    return add_instance(block, "forward", spec_.micro_batches);
  }

  // receive? or loss gradient -> input gradient -> weight gradient (accumulated) -> send?
  InstanceId add_backward(int stage, StagePieces& pieces) {
    BlockBuilder block(builder_, "backward" + std::to_string(stage), Phase::kInputGrad);
    const Operand weight = of_port(block.port("weight", here_.weight));
    const Operand hidden = of_port(block.port("hidden", here_.hidden));
    const Operand output = of_port(block.port("output", here_.hidden));
    const auto instance =
        static_cast<std::int32_t>(builder_.graph().programs[program_].instances.size());
    std::int32_t next = 0;
    const std::int32_t gy = block.reg("gy", here_.hidden, block.frame());
    if (last(stage)) {
      block.actor("loss_grad", QueueRole::kCompute, {output}, {gy});
      pieces.input_grad = {instance, next, 2};
    } else {
      block.communication("receive", QueueRole::kTransferInBackward, transfer(stage, 2), {}, {gy});
      pieces.receive_backward = {instance, next++, 1};
      pieces.input_grad = {instance, next, 1};
    }
    const std::int32_t gx = block.reg("gx", here_.hidden, block.frame());
    block.actor("b", QueueRole::kCompute, {of_register(gy), hidden, output, weight}, {gx});
    next += pieces.input_grad.count;
    BlockBuilder::FrameOptions accumulated;
    accumulated.memory = MemoryClass::kGradients;
    accumulated.acts_per_content = spec_.micro_batches;
    gradient_register_ = block.reg("gw", here_.partial, block.frame(accumulated));
    block.actor("w", QueueRole::kCompute, {of_register(gy), hidden}, {gradient_register_}).phase =
        Phase::kWeightGrad;
    pieces.weight_grad = {instance, next++, 1};
    if (!first(stage)) {
      block.communication("send", QueueRole::kTransferOutBackward, transfer(stage, 3),
                          {of_register(gx)}, {});
      pieces.send_backward = {instance, next++, 1};
    }
    return add_instance(block, "backward", spec_.micro_batches);
  }

  InstanceId add_optimizer(int stage, StagePieces& pieces) {
    BlockBuilder block(builder_, "optimizer" + std::to_string(stage), Phase::kOptimizer);
    const Operand gradient = of_port(block.port("gradient", here_.partial));
    const auto instance =
        static_cast<std::int32_t>(builder_.graph().programs[program_].instances.size());
    Operand total = gradient;
    std::int32_t next = 0;
    if (spec_.replicas > 1) {
      Communication sum;
      sum.primitive = Primitive::kAllReduce;
      sum.group = role(stage, 4);
      sum.dtype = DType::kI64;
      sum.from = here_.partial;
      sum.to = here_.weight;
      const std::int32_t reduced = block.reg("total", here_.weight, block.frame());
      block.communication("sum", QueueRole::kCollective, sum, {gradient}, {reduced});
      total = of_register(reduced);
      pieces.reduce = {instance, next++, 1};
    }
    BlockBuilder::FrameOptions state;
    state.memory = MemoryClass::kParameters;
    state.initially_full = true;
    const std::int32_t frame = block.frame(state);
    weight_register_ = block.reg("weight", here_.weight, frame);
    // A second state nobody else reads, in a frame of its own.
    BlockBuilder::FrameOptions moments = state;
    moments.memory = MemoryClass::kOptimizer;
    const std::int32_t moment = block.reg("moment", here_.weight, block.frame(moments));
    block.actor("update", QueueRole::kCompute, {total}, {weight_register_, moment})
        .attributes.set(kMixUpdates, true);
    pieces.update = {instance, next, 1};
    return add_instance(block, "optimizer", 1);
  }

  InstanceId add_instance(BlockBuilder& block, const std::string& name, int acts) {
    const BlockId id = block.finish();
    const std::vector<std::int32_t> counts(builder_.graph().blocks[id].frames.size(), 1);
    return builder_.instance(program_, id, name, acts, counts);
  }

  void add_groups() {
    for (int replica = 0; replica < spec_.replicas; ++replica) {
      for (int stage = 0; stage + 1 < spec_.stages; ++stage) {
        const Rank here(stage * spec_.replicas + replica);
        const Rank there(here.value + spec_.replicas);
        const std::string name = std::to_string(stage) + "[" + std::to_string(replica) + "]";
        forward_groups_.push_back(builder_.group("forward" + name, {here, there}));
        backward_groups_.push_back(builder_.group("backward" + name, {there, here}));
      }
    }
    for (int stage = 0; stage < spec_.stages && spec_.replicas > 1; ++stage) {
      std::vector<Rank> ranks;
      for (int r = 0; r < spec_.replicas; ++r) ranks.emplace_back(stage * spec_.replicas + r);
      data_groups_.push_back(builder_.group("data" + std::to_string(stage), std::move(ranks)));
    }
  }

  void bind_ranks() {
    for (int stage = 0; stage < spec_.stages; ++stage) {
      for (int replica = 0; replica < spec_.replicas; ++replica) {
        const auto edge = static_cast<std::size_t>(replica * (spec_.stages - 1) + stage);
        std::vector<GroupId> groups;
        if (has_role(stage, 0)) groups.push_back(forward_groups_[edge - 1]);
        if (has_role(stage, 1)) groups.push_back(forward_groups_[edge]);
        if (has_role(stage, 2)) groups.push_back(backward_groups_[edge]);
        if (has_role(stage, 3)) groups.push_back(backward_groups_[edge - 1]);
        if (has_role(stage, 4)) groups.push_back(data_groups_[static_cast<std::size_t>(stage)]);
        builder_.bind(ProgramId(stage), std::move(groups));
      }
    }
  }

  // One event of the global order: runs at a time, on one stage or on both sides of a transfer.
  struct Event {
    std::int64_t time = 0;
    int kind = 0;  // at equal times communications come first
    std::size_t number = 0;
    std::vector<std::pair<int, Piece>> runs;
    int act = 0;
  };

  StagePieces& pieces(int stage) { return pieces_[static_cast<std::size_t>(stage)]; }

  void emit(std::int64_t time, int kind, std::vector<std::pair<int, Piece>> runs, int act) {
    events_.push_back({time, kind, events_.size(), std::move(runs), act});
  }

  void project_order() {
    const auto stages = static_cast<std::size_t>(spec_.stages);
    const auto m = static_cast<std::size_t>(spec_.micro_batches);
    std::vector<std::vector<Op>> sequences;
    for (int s = 0; s < spec_.stages; ++s) sequences.push_back(stage_sequence(spec_, s));
    std::vector<std::size_t> next(stages, 0);
    std::vector<std::int64_t> free(stages, 0);
    std::vector<std::vector<std::int64_t>> forward_end(stages, std::vector<std::int64_t>(m, -1)),
        backward_end = forward_end;
    for (bool advanced = true; advanced;) {
      advanced = false;
      for (std::size_t s = 0; s < stages; ++s) {
        while (next[s] < sequences[s].size()) {
          const Op op = sequences[s][next[s]];
          const auto k = static_cast<std::size_t>(op.micro_batch);
          const bool forward = op.kind == Op::Kind::kForward;
          std::int64_t ready = 0;
          if (forward && s > 0) ready = forward_end[s - 1][k];
          if (op.kind == Op::Kind::kInputGrad && s + 1 < stages) ready = backward_end[s + 1][k];
          if (ready < 0) break;
          const std::int64_t begin = std::max(ready, free[s]);
          free[s] = begin + 2;
          if (forward) forward_end[s][k] = free[s];
          if (op.kind == Op::Kind::kInputGrad) backward_end[s][k] = free[s];
          emit_op(static_cast<int>(s), op, begin, free[s]);
          ++next[s];
          advanced = true;
        }
      }
    }
    for (int s = 0; s < spec_.stages; ++s) {
      const std::int64_t end = free[static_cast<std::size_t>(s)];
      if (spec_.replicas > 1) emit(end, 0, {{s, pieces(s).reduce}}, 0);
      emit(end, 1, {{s, pieces(s).update}}, 0);
    }
    std::sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return std::tie(a.time, a.kind, a.number) < std::tie(b.time, b.kind, b.number);
    });
    for (const Event& event : events_) {
      for (const auto& [stage, piece] : event.runs) {
        builder_.run(ProgramId(stage),
                     {InstanceId(piece.instance), piece.first, piece.count, event.act, {}});
      }
    }
  }

  void emit_op(int s, Op op, std::int64_t begin, std::int64_t end) {
    if (op.kind == Op::Kind::kForward) {
      emit(begin, 1, {{s, pieces(s).forward}}, op.micro_batch);
      if (!last(s)) {
        emit(end, 0, {{s, pieces(s).send_forward}, {s + 1, pieces(s + 1).receive_forward}},
             op.micro_batch);
      }
    } else if (op.kind == Op::Kind::kInputGrad) {
      emit(begin, 1, {{s, pieces(s).input_grad}}, op.micro_batch);
      if (!first(s)) {
        emit(end, 0, {{s, pieces(s).send_backward}, {s - 1, pieces(s - 1).receive_backward}},
             op.micro_batch);
      }
    } else {
      emit(begin, 1, {{s, pieces(s).weight_grad}}, op.micro_batch);
    }
  }

  PipelineSpec spec_;
  GraphBuilder builder_;
  ProgramId program_;
  StageLayouts here_;
  std::int32_t hidden_register_ = 0, output_register_ = 0, loss_register_ = 0;
  std::int32_t gradient_register_ = 0, weight_register_ = 0;
  std::vector<PlacementId> placements_;
  std::vector<StageLayouts> layouts_;
  std::vector<StagePieces> pieces_;
  std::vector<GroupId> forward_groups_, backward_groups_, data_groups_;
  std::vector<Event> events_;
};

}  // namespace

PhysicalGraph pipeline_graph(const PipelineSpec& spec) { return PipelineBuilder(spec).build(); }

}  // namespace sextant::testing
