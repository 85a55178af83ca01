// The exact search against trying every order, and the templates against the exact search.
#include "search/bounds/schedule_optimum.h"

#include "core/base/check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>

namespace sextant::schedule_optimum_test {
namespace {

// Every order of every stage: any cell may come next whose inputs are there, micro-batches in any
// order, as early as it can; nothing is cut but what is longer than the best already.
class EveryOrder {
 public:
  explicit EveryOrder(const PipelineProblem& problem)
      : problem_(problem),
        free_(static_cast<std::size_t>(problem.shape.stages), 0),
        alive_(free_.size(), 0) {
    try_all(0);
  }
  std::int64_t best() const { return best_; }

 private:
  using Key = std::tuple<CellKind, int, int>;  // kind, virtual stage, micro-batch

  int last() const { return problem_.shape.stages * problem_.shape.chunks - 1; }
  int stage(int v) const {
    const Schedule shape = problem_.v_shape ? Schedule::kZeroBubbleV : Schedule::kInterleaved;
    return stage_of_virtual(shape, problem_.shape.stages, v).stage;
  }

  // When the input of a cell is on its stage; less than 0: not yet made.
  std::int64_t ready(const Key& key) const {
    const auto [kind, v, i] = key;
    Key from;
    if (kind == CellKind::kForward && v == 0) return 0;
    if (kind == CellKind::kForward) from = {kind, v - 1, i};
    if (kind == CellKind::kBackward)
      from = v == last() ? Key{CellKind::kForward, v, i} : Key{kind, v + 1, i};
    if (kind == CellKind::kWeightGrad) from = {CellKind::kBackward, v, i};
    const auto made = end_.find(from);
    if (made == end_.end()) return -1;
    return made->second + (stage(std::get<1>(from)) == stage(v) ? 0 : problem_.transfer);
  }

  // Cells in order of their start, so that each set of orders is tried once or twice only.
  void try_all(std::int64_t since) {
    const int kinds = problem_.has_weight_grad() ? 3 : 2;
    const auto all = static_cast<std::size_t>((last() + 1) * kinds * problem_.shape.micro_batches);
    if (end_.size() == all) {
      best_ = std::min(best_, *std::max_element(free_.begin(), free_.end()));
      return;
    }
    for (int v = 0; v <= last(); ++v)
      for (int kind = 0; kind < kinds; ++kind)
        for (int i = 0; i < problem_.shape.micro_batches; ++i) {
          const Key key{static_cast<CellKind>(kind), v, i};
          if (!end_.contains(key) && ready(key) >= 0) try_cell(key, since);
        }
  }

  void try_cell(const Key& key, std::int64_t since) {
    const auto [kind, v, i] = key;
    const auto own = static_cast<std::size_t>(stage(v));
    const CellKind frees = problem_.has_weight_grad() ? CellKind::kWeightGrad : CellKind::kBackward;
    const std::int64_t start = std::max(free_[own], ready(key));
    const std::int64_t cost = kind == CellKind::kForward    ? problem_.forward
                              : kind == CellKind::kBackward ? problem_.backward
                                                            : problem_.weight_grad;
    if (start < since || start + cost >= best_) return;
    if (kind == CellKind::kForward && alive_[own] >= problem_.memory) return;
    const int change = (kind == CellKind::kForward ? 1 : 0) - (kind == frees ? 1 : 0);
    const std::int64_t before = free_[own];
    free_[own] = end_[key] = start + cost;
    alive_[own] += change;
    try_all(start);
    alive_[own] -= change;
    end_.erase(key);
    free_[own] = before;
  }

  const PipelineProblem& problem_;
  std::map<Key, std::int64_t> end_;
  std::vector<std::int64_t> free_;
  std::vector<int> alive_;
  std::int64_t best_ = std::numeric_limits<std::int64_t>::max();
};

std::string text_of(const PipelineProblem& problem) {
  return fmt::format("p={} m={} v={}{} F={} B={} W={} transfer={} memory={}", problem.shape.stages,
                     problem.shape.micro_batches, problem.shape.chunks,
                     problem.v_shape ? " back" : "", problem.forward, problem.backward,
                     problem.weight_grad, problem.transfer, problem.memory);
}

void check_order(const PipelineProblem& problem, const ScheduleOptimum& optimum) {
  REQUIRE(optimum.is_proven());
  CHECK(makespan_of(problem, optimum.order) == optimum.makespan);
  const std::size_t kinds = problem.has_weight_grad() ? 3 : 2;
  for (const std::vector<Cell>& cells : optimum.order) {
    CHECK(peak_of(problem, cells) <= problem.memory);
    CHECK(cells.size() ==
          kinds * static_cast<std::size_t>(problem.shape.micro_batches * problem.shape.chunks));
  }
}

struct Times {
  std::int64_t forward, backward, weight_grad, transfer;
};

TEST_CASE("the exact search finds what trying every order finds") {
  struct Shape {
    PipelineShape shape;
    bool v_shape, with_weight_grad;
  };
  const Shape shapes[] = {{{1, 3, 1}, false, true},  {{2, 2, 1}, false, true},
                          {{2, 3, 1}, false, false}, {{3, 2, 1}, false, false},
                          {{2, 2, 2}, false, false}, {{2, 2, 2}, true, false},
                          {{1, 2, 2}, true, true},   {{4, 1, 1}, false, true}};
  std::int64_t tried = 0;
  for (const Shape& shape : shapes)
    for (const Times& times :
         {Times{1, 1, 1, 0}, Times{2, 3, 1, 1}, Times{1, 3, 4, 2}, Times{3, 1, 2, 0}})
      for (std::int32_t memory = shape.shape.chunks; memory <= shape.shape.chunks + 2; ++memory) {
        const PipelineProblem problem{.shape = shape.shape,
                                      .v_shape = shape.v_shape,
                                      .forward = times.forward,
                                      .backward = times.backward,
                                      .weight_grad = shape.with_weight_grad ? times.weight_grad : 0,
                                      .transfer = times.transfer,
                                      .memory = memory};
        CAPTURE(text_of(problem));
        const ScheduleOptimum optimum = find_optimum(problem);
        check_order(problem, optimum);
        CHECK(optimum.makespan == EveryOrder(problem).best());
        ++tried;
      }
  CHECK(tried == 96);
}

PipelineProblem problem_of(Schedule schedule, const PipelineShape& shape, const Times& times) {
  PipelineProblem problem;
  problem.shape = shape;
  problem.v_shape = schedule == Schedule::kZeroBubbleV;
  problem.forward = times.forward;
  problem.backward = times.backward;
  if (splits_backward(schedule))
    problem.weight_grad = times.weight_grad;
  else
    problem.backward += times.weight_grad;
  problem.transfer = times.transfer;
  return problem;
}

// With the memory that the template takes on its worst stage.
struct Compared {
  std::int64_t found = 0, optimum = 0;
};
Compared compare(Schedule schedule, const PipelineShape& shape, const Times& times) {
  PipelineProblem problem = problem_of(schedule, shape, times);
  const PipelineOrder order = template_order(problem, schedule);
  problem.memory = 0;
  for (const auto& cells : order)
    problem.memory = std::max(problem.memory, peak_of(problem, cells));
  CAPTURE(text_of(problem));
  const ScheduleOptimum optimum = find_optimum(problem);
  check_order(problem, optimum);
  const std::int64_t found = makespan_of(problem, order).value_or(0);
  CHECK(found >= optimum.makespan);
  return {found, optimum.makespan};
}

TEST_CASE("with equal times and free transfers every template is as short as any order") {
  for (const std::int32_t p : {2, 3, 4})
    for (const std::int32_t m : {p, 2 * p}) {
      for (const Schedule schedule :
           {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1}) {
        const Compared one = compare(schedule, {p, m, 1}, {1, 1, 1, 0});
        CHECK(one.found == one.optimum);
      }
      const Compared interleaved = compare(Schedule::kInterleaved, {p, m, 2}, {1, 1, 1, 0});
      CHECK(interleaved.found == interleaved.optimum);
      if (m < 2 * p - 1) continue;
      const Compared v = compare(Schedule::kZeroBubbleV, {p, m, 2}, {1, 1, 1, 0});
      CHECK(v.found == v.optimum);
    }
}

TEST_CASE(
    "four stages and eight micro-batches are proven for every memory, more never being longer") {
  for (const Times& times : {Times{1, 1, 1, 0}, Times{2, 3, 1, 1}, Times{1, 2, 2, 0}})
    for (const bool parts : {false, true}) {
      std::int64_t before = std::numeric_limits<std::int64_t>::max();
      for (std::int32_t memory = 1; memory <= 8; ++memory) {
        PipelineProblem problem =
            problem_of(parts ? Schedule::kZeroBubbleH1 : Schedule::kOneFOneB, {4, 8, 1}, times);
        problem.memory = memory;
        CAPTURE(text_of(problem));
        const ScheduleOptimum optimum = find_optimum(problem);
        check_order(problem, optimum);
        CHECK(optimum.makespan <= before);
        before = optimum.makespan;
        // One activation on stage 0: a micro-batch has gone down and up before the next one comes.
        if (memory == 1 && !parts)
          CHECK(optimum.makespan ==
                8 * (4 * (problem.forward + problem.backward) + 6 * problem.transfer));
      }
    }
}

TEST_CASE("problems without meaning are refused") {
  PipelineProblem problem;
  problem.shape = {2, 4, 2};
  problem.memory = 1;
  CHECK_THROWS_AS(find_optimum(problem), Error);
  problem.memory = 2;
  problem.forward = 0;
  CHECK_THROWS_AS(find_optimum(problem), Error);
  problem.forward = 1;
  CHECK_THROWS_AS(template_order(problem, Schedule::kZeroBubbleV), Error);
}

}  // namespace
}  // namespace sextant::schedule_optimum_test
