// Asks "is there a schedule that ends by T?" for rising T, depth first. A node places one cell
// more; it dies when a preemptive schedule of what is left on one stage, with the longest ways
// before and after each cell, ends after T (Jackson; Carlier and Pinson 1989), or when an equal set
// of placed cells was there before with nothing later (dominance).
#include "search/bounds/schedule_optimum.h"

#include "core/base/at.h"
#include "core/base/check.h"
#include "search/bounds/cell_graph.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// One question: can all end by T?
class Decision {
 public:
  Decision(const CellGraph& graph, std::int64_t target, std::int64_t max_nodes)
      : graph_(graph),
        target_(target),
        max_nodes_(max_nodes),
        next_(at(graph.num_virtual() * graph.num_kinds()), 0),
        end_(at(graph.num_cells()), kNever),
        heads_(at(graph.num_cells()), 0),
        free_(at(graph.problem().shape.stages), 0),
        alive_(free_.size(), 0),
        put_off_(next_.size(), 0),
        order_(free_.size()) {}

  // The bound of the root.
  std::int64_t root_bound() { return bound(); }
  bool solve() { return bound() <= target_ ? descend() : note(bound()); }
  bool is_cut_short() const { return nodes_ >= max_nodes_; }
  std::int64_t nodes() const { return nodes_; }
  // The least bound above the target that was met: no schedule ends between them.
  std::int64_t least_above() const { return least_above_; }
  const PipelineOrder& order() const { return order_; }

 private:
  struct Choice {
    std::int32_t cell = -1;
    std::int64_t start = 0, end = 0;
  };

  bool note(std::int64_t bound) {
    least_above_ = std::min(least_above_, bound);
    return false;
  }

  bool descend() {
    if (placed_ == graph_.num_cells()) return true;
    if (++nodes_ >= max_nodes_) return false;
    if (is_dominated()) return false;
    const std::vector<Choice> choices = conflict();
    if (choices.empty()) return false;  // everything left was put off
    struct Child {
      std::int64_t bound;
      Choice choice;
    };
    std::vector<Child> children;
    for (const Choice& choice : choices) {
      const Undo undo = place(choice);
      const std::int64_t own = bound();
      if (own <= target_)
        children.push_back({own, choice});
      else
        note(own);
      take_back(choice, undo);
    }
    std::stable_sort(children.begin(), children.end(), [&](const Child& a, const Child& b) {
      return std::pair(a.bound, eagerness(a.choice)) < std::pair(b.bound, eagerness(b.choice));
    });
    for (const Child& child : children) {
      const Undo undo = place(child.choice);
      if (descend()) return true;
      take_back(child.choice, undo);
      if (is_cut_short()) return false;
    }
    return put_off(choices.front());
  }

  // B first, which other stages wait for, W last, which nobody waits for; of F the later chunk.
  std::int32_t eagerness(const Choice& choice) const {
    const CellKind kind = graph_.kind_of(choice.cell);
    const std::int32_t v = graph_.virtual_of(choice.cell);
    const std::int32_t rank = kind == CellKind::kBackward ? 0 : kind == CellKind::kForward ? 1 : 2;
    return rank * graph_.num_virtual() + graph_.num_virtual() - v;
  }

  // Giffler and Thompson 1960: of the cell that can end first, and those that can start on its
  // stage before it ends, one comes next on this stage; if another did, the first would fit before
  // it. The first comes first.
  std::vector<Choice> conflict() const {
    std::vector<Choice> ready;
    for (std::size_t row = 0; row < next_.size(); ++row) {
      const auto index = static_cast<std::int32_t>(row);
      if (next_[row] == graph_.micro_batches() || put_off_[row] > 0) continue;
      const Choice choice = earliest(index * graph_.micro_batches() + next_[row]);
      if (choice.cell >= 0) ready.push_back(choice);
    }
    if (ready.empty()) return {};
    const auto first = std::min_element(
        ready.begin(), ready.end(), [](const Choice& a, const Choice& b) { return a.end < b.end; });
    const std::int32_t stage = stage_of(first->cell);
    std::vector<Choice> choices = {*first};
    for (const Choice& choice : ready)
      if (choice.cell != first->cell && stage_of(choice.cell) == stage && choice.start < first->end)
        choices.push_back(choice);
    return choices;
  }

  // With several chunks an F may take the room that an F of another chunk needs: then it does not
  // fit before what comes next, and leaving it out until its stage has run something else is one
  // more branch.
  bool put_off(const Choice& choice) {
    const std::int32_t stage = stage_of(choice.cell);
    const bool may_matter = graph_.problem().shape.chunks > 1 &&
                            graph_.kind_of(choice.cell) == CellKind::kForward && is_tight(stage);
    if (!may_matter) return false;
    std::int32_t& mark = put_off_[at(choice.cell / graph_.micro_batches())];
    ++mark;
    if (descend()) return true;
    --mark;
    return false;
  }
  bool is_tight(std::int32_t stage) const {
    std::int32_t to_come = 0;  // F
    for (std::int32_t v = 0; v < graph_.num_virtual(); ++v)
      if (graph_.stage_of(v) == stage)
        to_come += graph_.micro_batches() - next_[at(v * graph_.num_kinds())];
    return alive_[at(stage)] + to_come > graph_.problem().memory;
  }

  std::int32_t stage_of(std::int32_t cell) const {
    return graph_.stage_of(graph_.virtual_of(cell));
  }

  // Not ready: cell -1.
  Choice earliest(std::int32_t cell) const {
    const std::int32_t stage = stage_of(cell);
    const CellKind kind = graph_.kind_of(cell);
    if (kind == CellKind::kForward && alive_[at(stage)] >= graph_.problem().memory) return {};
    std::int64_t start = free_[at(stage)];
    const auto [from, way] = graph_.source(cell);
    if (from >= 0) {
      if (end_[at(from)] == kNever) return {};
      start = std::max(start, end_[at(from)] + way);
    }
    return {cell, start, start + graph_.duration(kind)};
  }

  struct Undo {
    std::int64_t free;
    std::vector<std::int32_t> put_off;
  };

  Undo place(const Choice& choice) {
    const std::int32_t stage = stage_of(choice.cell), v = graph_.virtual_of(choice.cell);
    const CellKind kind = graph_.kind_of(choice.cell);
    Undo undo{free_[at(stage)], put_off_};
    for (std::size_t row = 0; row < put_off_.size(); ++row)
      if (graph_.stage_of(static_cast<std::int32_t>(row) / graph_.num_kinds()) == stage)
        put_off_[row] = 0;
    free_[at(stage)] = end_[at(choice.cell)] = choice.end;
    ++next_[at(choice.cell / graph_.micro_batches())];
    if (kind == CellKind::kForward) ++alive_[at(stage)];
    if (kind == graph_.freeing_kind()) --alive_[at(stage)];
    order_[at(stage)].push_back({kind, graph_.micro_batch_of(choice.cell), graph_.chunk_of(v)});
    ++placed_;
    return undo;
  }
  void take_back(const Choice& choice, const Undo& undo) {
    const std::int32_t stage = stage_of(choice.cell);
    const CellKind kind = graph_.kind_of(choice.cell);
    put_off_ = undo.put_off;
    free_[at(stage)] = undo.free;
    end_[at(choice.cell)] = kNever;
    --next_[at(choice.cell / graph_.micro_batches())];
    if (kind == CellKind::kForward) --alive_[at(stage)];
    if (kind == graph_.freeing_kind()) ++alive_[at(stage)];
    order_[at(stage)].pop_back();
    --placed_;
  }

  // --- bounds ------------------------------------------------------------------------------------

  std::int64_t bound() {
    find_heads();
    std::int64_t worst = *std::max_element(free_.begin(), free_.end());
    for (std::int32_t stage = 0; stage < graph_.problem().shape.stages; ++stage)
      worst = std::max(worst, preemptive_end(stage));
    return worst;
  }

  // When each cell that is not placed can start at the earliest, its stage's other cells aside.
  void find_heads() {
    for (auto& open : open_) open.clear();
    open_.resize(free_.size());
    graph_.for_each_in_order([&](std::int32_t cell) {
      if (end_[at(cell)] != kNever) return;
      const std::int32_t stage = stage_of(cell);
      std::int64_t head = free_[at(stage)];
      const auto follow = [&](std::int32_t before, std::int64_t way) {
        if (before < 0) return;
        const std::int64_t end = end_[at(before)] != kNever
                                     ? end_[at(before)]
                                     : heads_[at(before)] + graph_.duration(graph_.kind_of(before));
        head = std::max(head, end + way);
      };
      const auto [from, way] = graph_.source(cell);
      follow(from, way);
      follow(graph_.room_for(cell), 0);
      if (graph_.micro_batch_of(cell) > 0) follow(cell - 1, 0);
      heads_[at(cell)] = head;
      open_[at(stage)].push_back(cell);
    });
  }

  // The stage always works on the cell with the longest tail, and may change its mind.
  std::int64_t preemptive_end(std::int32_t stage) {
    std::vector<std::int32_t>& cells = open_[at(stage)];
    std::sort(cells.begin(), cells.end(),
              [&](std::int32_t a, std::int32_t b) { return heads_[at(a)] < heads_[at(b)]; });
    using Waiting = std::pair<std::int64_t, std::int64_t>;  // tail, work left
    std::priority_queue<Waiting> waiting;
    std::int64_t now = 0, worst = 0;
    std::size_t next = 0;
    while (next < cells.size() || !waiting.empty()) {
      if (waiting.empty()) now = std::max(now, heads_[at(cells[next])]);
      for (; next < cells.size() && heads_[at(cells[next])] <= now; ++next)
        waiting.push({graph_.tail(cells[next]), graph_.duration(graph_.kind_of(cells[next]))});
      auto [tail, left] = waiting.top();
      waiting.pop();
      const std::int64_t until = next < cells.size() ? heads_[at(cells[next])] : kNever;
      const std::int64_t worked = std::min(left, until - now);
      now += worked;
      if (worked < left)
        waiting.push({tail, left - worked});
      else
        worst = std::max(worst, now + tail);
    }
    return worst;
  }

  // --- dominance ---------------------------------------------------------------------------------

  // Has the same set of cells been placed before with all that matters for the rest no later? Since
  // one question is asked and the first yes ends it, that one was a no.
  bool is_dominated() {
    std::string key;
    for (std::size_t row = 0; row < next_.size(); ++row) {
      key.push_back(static_cast<char>(next_[row]));
      key.push_back(static_cast<char>(put_off_[row]));
    }
    const std::vector<std::int64_t> times = times_that_matter();
    auto& known = seen_[key];
    const auto no_later = [](const std::vector<std::int64_t>& a,
                             const std::vector<std::int64_t>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), [](auto x, auto y) { return x <= y; });
    };
    for (const auto& other : known)
      if (no_later(other, times)) return true;
    std::erase_if(known, [&](const auto& other) { return no_later(times, other); });
    known.push_back(times);
    return false;
  }

  // When stages are free, and when what placed cells made reaches cells that are not placed.
  std::vector<std::int64_t> times_that_matter() const {
    std::vector<std::int64_t> times = free_;
    for (std::size_t row = 0; row < next_.size(); ++row)
      for (std::int32_t i = next_[row]; i < graph_.micro_batches(); ++i) {
        const std::int32_t cell = static_cast<std::int32_t>(row) * graph_.micro_batches() + i;
        const auto [from, way] = graph_.source(cell);
        if (from < 0 || end_[at(from)] == kNever) break;
        times.push_back(std::max(end_[at(from)] + way, free_[at(stage_of(cell))]));
      }
    return times;
  }

  const CellGraph& graph_;
  std::int64_t target_, max_nodes_;
  std::int64_t nodes_ = 0, least_above_ = kNever;
  std::int32_t placed_ = 0;
  std::vector<std::int32_t> next_;     // micro-batch by virtual stage and kind
  std::vector<std::int64_t> end_;      // by cell
  std::vector<std::int64_t> heads_;    // by cell, of those not placed
  std::vector<std::int64_t> free_;     // by stage
  std::vector<std::int32_t> alive_;    // by stage, chunk activations
  std::vector<std::int32_t> put_off_;  // by virtual stage and kind
  PipelineOrder order_;
  std::vector<std::vector<std::int32_t>> open_;  // by stage, cells not placed
  std::unordered_map<std::string, std::vector<std::vector<std::int64_t>>> seen_;
};

void require_meaning(const PipelineProblem& problem) {
  const PipelineShape& shape = problem.shape;
  require(shape.stages >= 1 && shape.micro_batches >= 1 && shape.chunks >= 1, ErrorCode::kUsage,
          "a pipeline of {} stages, {} micro-batches and {} chunks", shape.stages,
          shape.micro_batches, shape.chunks);
  require(shape.micro_batches <= 100, ErrorCode::kUsage,
          "{} micro-batches are too many for an exact search, wanted at most 100",
          shape.micro_batches);
  require(problem.forward >= 1 && problem.backward >= 1 && problem.weight_grad >= 0 &&
              problem.transfer >= 0,
          ErrorCode::kUsage, "cells of {}, {} and {} units, transfers of {}", problem.forward,
          problem.backward, problem.weight_grad, problem.transfer);
  // Every chunk of a micro-batch is alive before the last one goes backward.
  require(problem.memory >= shape.chunks, ErrorCode::kUsage,
          "{} activations per stage, but one micro-batch has {} chunks there", problem.memory,
          shape.chunks);
}

}  // namespace

PipelineOrder template_order(const PipelineProblem& problem, Schedule schedule) {
  require(splits_backward(schedule) == problem.has_weight_grad(), ErrorCode::kUsage,
          "schedule {} {} W from B, the problem does not", to_string(schedule),
          splits_backward(schedule) ? "parts" : "does not part");
  PipelineOrder order;
  for (std::int32_t stage = 0; stage < problem.shape.stages; ++stage)
    order.push_back(stage_cells(schedule, problem.shape, stage));
  return order;
}

std::optional<std::int64_t> makespan_of(const PipelineProblem& problem,
                                        const PipelineOrder& order) {
  const CellGraph graph(problem);
  std::vector<std::int64_t> end(at(graph.num_cells()), kNever);
  std::vector<std::int64_t> free(order.size(), 0);
  std::vector<std::size_t> next(order.size(), 0);
  std::vector<std::vector<std::int32_t>> virtual_of(order.size());  // by stage and chunk
  for (std::size_t stage = 0; stage < order.size(); ++stage) {
    virtual_of[stage].resize(at(problem.shape.chunks));
    for (std::int32_t v = 0; v < graph.num_virtual(); ++v)
      if (at(graph.stage_of(v)) == stage) virtual_of[stage][at(graph.chunk_of(v))] = v;
  }
  std::size_t left = 0;
  for (const auto& cells : order) left += cells.size();
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < order.size(); ++stage)
      for (; next[stage] < order[stage].size(); ++next[stage], --left, moved = true) {
        const Cell& own = order[stage][next[stage]];
        const std::int32_t cell =
            graph.cell(virtual_of[stage][at(own.chunk)], own.kind, own.micro_batch);
        const auto [from, way] = graph.source(cell);
        if (from >= 0 && end[at(from)] == kNever) break;
        const std::int64_t ready = from >= 0 ? end[at(from)] + way : 0;
        free[stage] = end[at(cell)] = std::max(free[stage], ready) + graph.duration(own.kind);
      }
  }
  if (left > 0) return std::nullopt;
  return *std::max_element(free.begin(), free.end());
}

std::int32_t peak_of(const PipelineProblem& problem, const std::vector<Cell>& cells) {
  const CellKind last = problem.has_weight_grad() ? CellKind::kWeightGrad : CellKind::kBackward;
  std::int32_t alive = 0, most = 0;
  for (const Cell& cell : cells) {
    if (cell.kind == CellKind::kForward) most = std::max(most, ++alive);
    if (cell.kind == last) --alive;
  }
  return most;
}

ScheduleOptimum find_optimum(const PipelineProblem& problem, std::int64_t max_nodes) {
  require_meaning(problem);
  const CellGraph graph(problem);
  ScheduleOptimum optimum;
  std::int64_t target = Decision(graph, 0, 1).root_bound();
  optimum.lower_bound = target;
  while (true) {
    Decision decision(graph, target, std::max<std::int64_t>(max_nodes - optimum.nodes, 1));
    const bool found = decision.solve();
    optimum.nodes += decision.nodes();
    if (found) {
      optimum.order = decision.order();
      optimum.makespan = makespan_of(problem, optimum.order).value_or(kNever);
      return optimum;
    }
    if (decision.is_cut_short()) {
      optimum.makespan = kNever;
      return optimum;
    }
    SEXTANT_INVARIANT(decision.least_above() > target && decision.least_above() < kNever,
                      "no schedule ends by {}, and none after it", target);
    optimum.lower_bound = target = decision.least_above();
  }
}

}  // namespace sextant
