// How far each pipeline schedule of compiler/strategy/schedule.h is from the shortest one that any
// order gives within the same memory. Prints one row per template, shape and times of F, B and W.
//
//   ninja -C build experiments/schedules/schedule_distance &&
//   build/experiments/schedules/schedule_distance
#include "core/base/check.h"
#include "search/bounds/schedule_optimum.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace sextant {
namespace {

constexpr std::int64_t kMostNodes = 300'000;  // some ten seconds

struct Times {
  std::int64_t forward, backward, weight_grad, transfer;
};

PipelineProblem problem_of(Schedule schedule, const PipelineShape& shape, const Times& times) {
  const bool splits = splits_backward(schedule);
  return {.shape = shape,
          .v_shape = schedule == Schedule::kZeroBubbleV,
          .forward = times.forward,
          .backward = times.backward + (splits ? 0 : times.weight_grad),
          .weight_grad = splits ? times.weight_grad : 0,
          .transfer = times.transfer,
          .memory = 0};
}

void print_row(Schedule schedule, const PipelineShape& shape, const Times& times) {
  PipelineProblem problem = problem_of(schedule, shape, times);
  const PipelineOrder order = template_order(problem, schedule);
  for (const auto& cells : order)
    problem.memory = std::max(problem.memory, peak_of(problem, cells));
  const std::int64_t found = makespan_of(problem, order).value_or(0);
  const auto begin = std::chrono::steady_clock::now();
  const ScheduleOptimum optimum = find_optimum(problem, kMostNodes);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::int64_t best = optimum.is_proven() ? optimum.makespan : optimum.lower_bound;
  const double over = 100.0 * static_cast<double>(found - best) / static_cast<double>(best);
  fmt::print(
      "{:<11} {:>2} {:>2} {:>2}   {} {} {} {:>8}   {:>6}   {:>8} {:>4}{:<8} {:>5.1f} % {:>9} "
      "{:>8.3f}\n",
      to_string(schedule), shape.stages, shape.micro_batches, shape.chunks, times.forward,
      times.backward, times.weight_grad, times.transfer, problem.memory, found,
      optimum.is_proven() ? "" : ">= ", best, over, optimum.nodes, seconds);
  std::fflush(stdout);
}

void print_table() {
  fmt::print("{:<11} {:>2} {:>2} {:>2}   {} {} {} {:>8}   {:>6}   {:>8} {:>12} {:>7} {:>9} {:>8}\n",
             "schedule", "p", "m", "v", "F", "B", "W", "transfer", "memory", "template", "optimum",
             "over", "nodes", "s");
  for (const Times& times : {Times{1, 1, 1, 0}, Times{2, 2, 2, 1}, Times{2, 3, 1, 0},
                             Times{2, 3, 1, 1}, Times{1, 2, 2, 0}})
    for (const PipelineShape& shape : {PipelineShape{2, 8, 1}, {3, 6, 1}, {4, 4, 1}, {4, 8, 1}}) {
      for (const Schedule schedule :
           {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1})
        print_row(schedule, shape, times);
      const PipelineShape two_chunks{shape.stages, shape.micro_batches, 2};
      for (const Schedule schedule : {Schedule::kInterleaved, Schedule::kZeroBubbleV})
        print_row(schedule, two_chunks, times);
    }
}

}  // namespace
}  // namespace sextant

int main() { sextant::print_table(); }
