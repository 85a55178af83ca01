// One global order in modelled time (no transfer time), cut per stage, as the compiler does it.

#include "tests/simulator/toy_pipeline.h"

#include "tests/simulator/toy_graph.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace sextant {

namespace {

struct Cell {
  bool is_forward = true;
  std::int32_t micro_batch = 0;
};

struct TimedCell {
  Cell cell;
  std::int64_t begin = 0, end = 0;
};

// Entry of the global order.
struct Item {
  std::int64_t at = 0;
  bool computes = false;   // communication first: its producer is over
  std::int32_t stage = 0;  // of compute; the sender of a transfer
  std::string op;
  std::int32_t act = 0;
  std::int32_t rank_stage = 0;  // whose order it is in
};

std::size_t find_run(const std::vector<ToyRun>& order, const std::string& op, std::int32_t act) {
  return static_cast<std::size_t>(
      std::find_if(order.begin(), order.end(),
                   [&](const ToyRun& run) { return run.op == op && run.act == act; }) -
      order.begin());
}

void merge_exchanges(std::vector<ToyRun>& upper, std::vector<ToyRun>& lower) {
  for (std::size_t i = 0; i + 1 < upper.size(); ++i) {
    ToyRun& first = upper[i];
    ToyRun& second = upper[i + 1];
    if (first.launch_group.is_valid() || second.launch_group.is_valid()) continue;
    const bool sends_first = first.op == "send_forward" && second.op == "receive_backward";
    const bool sends_second = first.op == "receive_backward" && second.op == "send_forward";
    if (!sends_first && !sends_second) continue;
    const std::int32_t forward = sends_first ? first.act : second.act;
    const std::int32_t backward = sends_first ? second.act : first.act;
    const std::size_t receive = find_run(lower, "receive_forward", forward);
    const std::size_t send = find_run(lower, "send_backward", backward);
    if (receive + 1 != send && send + 1 != receive) continue;
    if (lower[receive].launch_group.is_valid() || lower[send].launch_group.is_valid()) continue;
    // Any numbers do, as long as neighbouring groups of one rank differ.
    const LaunchGroupId group(2 * i);
    first.launch_group = second.launch_group = group;
    lower[receive].launch_group = lower[send].launch_group = group.plus(1);
  }
}

std::string link_name(const char* direction, std::int32_t stage, std::int32_t replica) {
  return std::string(direction) + std::to_string(stage) + "." + std::to_string(replica);
}

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

class PipelineBuilder {
 public:
  explicit PipelineBuilder(const ToyPipeline& pipeline)
      : pipeline_(pipeline), stages_(static_cast<std::int32_t>(pipeline.forward.size())) {}

  PhysicalGraph build() {
    time_cells();
    std::vector<ToyProgram> programs;
    for (std::int32_t stage = 0; stage < stages_; ++stage)
      programs.push_back({"stage" + std::to_string(stage), ops_of(stage), order_of(stage)});
    if (pipeline_.launch_groups)
      for (std::int32_t stage = 0; stage + 1 < stages_; ++stage)
        merge_exchanges(programs[at(stage)].order, programs[at(stage + 1)].order);
    return make_toy_graph(programs, ranks(), groups());
  }

 private:
  std::vector<Cell> cells_of(std::int32_t stage) const {
    const std::int32_t m = pipeline_.micro_batches;
    const std::int32_t warm_up =
        pipeline_.schedule == ToySchedule::kGPipe ? m : std::min(m, stages_ - 1 - stage);
    std::vector<Cell> cells;
    std::int32_t forward = 0, backward = 0;
    while (forward < warm_up) cells.push_back({true, forward++});
    while (backward < m) {
      if (forward < m) cells.push_back({true, forward++});
      cells.push_back({false, backward++});
    }
    return cells;
  }

  std::int64_t end_of(std::int32_t stage, Cell cell) const {
    for (const TimedCell& timed : timed_[at(stage)])
      if (timed.cell.is_forward == cell.is_forward && timed.cell.micro_batch == cell.micro_batch)
        return timed.end;
    return 0;
  }

  // Relaxes until nothing moves: the longest paths of an acyclic graph.
  void time_cells() {
    timed_.resize(at(stages_));
    for (std::int32_t stage = 0; stage < stages_; ++stage)
      for (const Cell cell : cells_of(stage)) timed_[at(stage)].push_back({cell, 0, 0});
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int32_t stage = 0; stage < stages_; ++stage) {
        std::int64_t free = 0;
        for (TimedCell& timed : timed_[at(stage)]) {
          const Cell cell = timed.cell;
          std::int64_t begin = free;
          if (cell.is_forward && stage > 0) begin = std::max(begin, end_of(stage - 1, cell));
          if (!cell.is_forward && stage + 1 < stages_)
            begin = std::max(begin, end_of(stage + 1, cell));
          if (!cell.is_forward && stage + 1 == stages_)
            begin = std::max(begin, end_of(stage, {true, cell.micro_batch}));
          const auto& duration = cell.is_forward ? pipeline_.forward : pipeline_.backward;
          const std::int64_t end = begin + duration[at(stage)];
          moved = moved || begin != timed.begin || end != timed.end;
          timed.begin = begin;
          timed.end = free = end;
        }
      }
    }
  }

  std::vector<ToyOp> ops_of(std::int32_t stage) const {
    const std::int32_t m = pipeline_.micro_batches;
    const bool first = stage == 0, last = stage + 1 == stages_;
    std::vector<ToyOp> ops;
    const auto add = [&](ToyOp op, std::int32_t acts) {
      op.acts = acts;
      ops.push_back(std::move(op));
    };
    const auto transfer = [&](const char* name, QueueRole queue, Side side, const char* group,
                              std::vector<ToyRead> reads) {
      ToyOp op{name, queue, 0, std::move(reads),
               ToyCommunication{Primitive::kTransfer, side, group, 0}};
      op.writes = side == Side::kReceive;
      add(op, m);
    };
    if (!first)
      transfer("receive_forward", QueueRole::kTransferInForward, Side::kReceive, "forward_in", {});
    ToyOp forward{"forward", QueueRole::kCompute, pipeline_.forward[at(stage)], {{"parameter", m}}};
    forward.registers = std::min(pipeline_.activation_registers, m);
    if (!first) forward.reads.push_back({"receive_forward", 1});
    add(forward, m);
    if (!last)
      transfer("send_forward", QueueRole::kTransferOutForward, Side::kSend, "forward_out",
               {{"forward", 1}});
    if (!last)
      transfer("receive_backward", QueueRole::kTransferInBackward, Side::kReceive, "backward_in",
               {});
    ToyOp backward{
        "backward", QueueRole::kCompute, pipeline_.backward[at(stage)], {{"forward", 1}}};
    if (!last) backward.reads.push_back({"receive_backward", 1});
    add(backward, m);
    if (!first)
      transfer("send_backward", QueueRole::kTransferOutBackward, Side::kSend, "backward_out",
               {{"backward", 1}});
    // Beside the gradient that flows on, one that is accumulated over the step.
    ToyOp gradient{"gradient", QueueRole::kCompute, 0, {{"backward", 1}}};
    gradient.acts_per_content = m;
    add(gradient, m);
    std::string summed = "gradient";
    if (pipeline_.replicas > 1) {
      summed = "reduce";
      add({"reduce",
           QueueRole::kCollective,
           0,
           {{"gradient", 1}},
           ToyCommunication{Primitive::kAllReduce, Side::kBoth, "replicas",
                            pipeline_.gradient_bytes}},
          1);
    }
    ToyOp parameter{"parameter", QueueRole::kCompute, pipeline_.optimizer, {{summed, 1}}};
    parameter.state = true;
    parameter.phase = Phase::kOptimizer;
    add(parameter, 1);
    return ops;
  }

  std::vector<ToyRun> order_of(std::int32_t stage) const {
    std::vector<Item> items = global_order();
    std::vector<ToyRun> order;
    for (const Item& item : items)
      if (item.rank_stage == stage) order.push_back({item.op, item.act, {}});
    if (pipeline_.replicas > 1) order.push_back({"reduce", 0, {}});
    order.push_back({"parameter", 0, {}});
    return order;
  }

  // A forward send and a backward receive that are neighbours on both stages start together.
  std::vector<Item> global_order() const {
    std::vector<Item> items;
    for (std::int32_t stage = 0; stage < stages_; ++stage) {
      for (const TimedCell& timed : timed_[at(stage)]) {
        const std::int32_t act = timed.cell.micro_batch;
        if (timed.cell.is_forward) {
          items.push_back({timed.begin, true, stage, "forward", act, stage});
          if (stage + 1 == stages_) continue;
          items.push_back({timed.end, false, stage, "send_forward", act, stage});
          items.push_back({timed.end, false, stage, "receive_forward", act, stage + 1});
        } else {
          items.push_back({timed.begin, true, stage, "backward", act, stage});
          items.push_back({timed.begin, true, stage, "gradient", act, stage});
          if (stage == 0) continue;
          items.push_back({timed.end, false, stage, "send_backward", act, stage});
          items.push_back({timed.end, false, stage, "receive_backward", act, stage - 1});
        }
      }
    }
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return std::tie(a.at, a.computes, a.stage) < std::tie(b.at, b.computes, b.stage);
    });
    return items;
  }

  std::vector<ToyGroup> groups() const {
    std::vector<ToyGroup> groups;
    for (std::int32_t stage = 0; stage < stages_; ++stage) {
      ToyGroup replicas{"replicas" + std::to_string(stage), {}};
      for (std::int32_t replica = 0; replica < pipeline_.replicas; ++replica) {
        replicas.ranks.push_back(rank_of(stage, replica));
        if (stage + 1 == stages_) continue;
        groups.push_back({link_name("forward", stage, replica),
                          {rank_of(stage, replica), rank_of(stage + 1, replica)}});
        groups.push_back({link_name("backward", stage, replica),
                          {rank_of(stage + 1, replica), rank_of(stage, replica)}});
      }
      groups.push_back(replicas);
    }
    return groups;
  }

  std::vector<ToyRank> ranks() const {
    std::vector<ToyRank> ranks;
    for (std::int32_t stage = 0; stage < stages_; ++stage) {
      for (std::int32_t replica = 0; replica < pipeline_.replicas; ++replica) {
        ToyRank rank{stage, {{"replicas", "replicas" + std::to_string(stage)}}};
        if (stage > 0) {
          rank.groups.emplace_back("forward_in", link_name("forward", stage - 1, replica));
          rank.groups.emplace_back("backward_out", link_name("backward", stage - 1, replica));
        }
        if (stage + 1 < stages_) {
          rank.groups.emplace_back("forward_out", link_name("forward", stage, replica));
          rank.groups.emplace_back("backward_in", link_name("backward", stage, replica));
        }
        ranks.push_back(std::move(rank));
      }
    }
    return ranks;
  }

  int rank_of(std::int32_t stage, std::int32_t replica) const {
    return stage * pipeline_.replicas + replica;
  }

  const ToyPipeline& pipeline_;
  std::int32_t stages_;
  std::vector<std::vector<TimedCell>> timed_;  // by stage
};

}  // namespace

PhysicalGraph make_toy_pipeline(const ToyPipeline& pipeline) {
  return PipelineBuilder(pipeline).build();
}

}  // namespace sextant
