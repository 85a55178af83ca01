// `sextant search --sweep`: the best plan of each model, cluster and batch, as a sweep that goes on
// in its folder.
#include "cli/dry_run.h"
#include "cli/runs/experiment_run.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "core/text/quantity_text.h"
#include "experiments/planned/best_plan.h"
#include "experiments/planned/planned_step.h"
#include "search/search/search.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

SearchLimits limits_of(const SearchArguments& arguments) {
  SearchLimits limits;
  if (!arguments.memory.empty())
    limits.memory = parse_named("--memory", arguments.memory, parse_bytes);
  limits.fixed = arguments.fixed;
  limits.forbidden = arguments.forbidden;
  limits.patience = kPatience;
  limits.enough_gap = kEnoughGap;
  return limits;
}

// Before anything is searched; what --fix and --forbid say of a model, its search says.
void require_sweepable(const SearchArguments& arguments) {
  for (const auto& [option, is_given] :
       {std::pair("--pareto", arguments.pareto), std::pair("--sensitivity", arguments.sensitivity),
        std::pair("--time-limit", !arguments.time_limit.empty())})
    require(!is_given, ErrorCode::kUsage,
            "{} is of one search, and --sweep makes many; each ends at a gap of 1 %, or after {} "
            "plans in a row that are no better",
            option, kPatience);
  limits_of(arguments);
}

// What every search of the sweep has in common stands in its points, so that rows of other
// conditions are not taken for theirs.
std::vector<SweepPoint> points_of(const SearchArguments& arguments) {
  std::vector<SweepPoint> points = plan_sweep_points(arguments.sweep, arguments.job);
  for (SweepPoint& point : points) {
    if (!arguments.memory.empty()) point.parameters.emplace_back("memory", arguments.memory);
    for (std::size_t index = 0; index < arguments.fixed.size(); ++index)
      point.parameters.emplace_back(fmt::format("fix{}", index), arguments.fixed[index]);
    for (std::size_t index = 0; index < arguments.forbidden.size(); ++index)
      point.parameters.emplace_back(fmt::format("forbid{}", index), arguments.forbidden[index]);
  }
  return points;
}

PointResult found(const SearchArguments& arguments, const SweepPoint& point) {
  return best_plan(make_job(planned_step_from(point.parameters)), limits_of(arguments));
}

Experiment sweep_of(const SearchArguments& arguments) {
  return {.name = "search",
          .question = "What is the best plan of each model, cluster and batch?",
          .expectation = "none: a table to read",
          .baseline = "the plan of the row before",
          .columns = {{"step_s", "step", "s"},
                      {"samples_per_s", "samples", "1/s"},
                      {"mfu", "MFU", ""},
                      {"gap", "gap", ""},
                      {"memory_bytes", "memory", "B"},
                      {"strategy", "plan", ""}},
          .points = [arguments](bool) { return points_of(arguments); },
          .evaluate = [arguments](const SweepPoint& point) { return found(arguments, point); },
          .shapes = [](const ResultRows&) { return std::vector<ShapeClaim>(); }};
}

}  // namespace

void run_plan_sweep(const SearchArguments& arguments, const CommonOptions& common,
                    Console& console) {
  const auto act = [&](RunProcesses& processes, const CommonOptions& own, Console& own_console) {
    std::optional<Experiment> sweep;
    std::size_t points = 0;
    processes.agree_after([&] {
      require_sweepable(arguments);
      sweep.emplace(sweep_of(arguments));
      points = sweep->points(false).size();
    });
    if (own.dry_run)
      return say_dry_run("search", fmt::format("search {}", counted(points, "time")),
                         in_results(own, results_of(*sweep)), own_console);
    const ExperimentRun run = run_experiment(
        processes, *sweep, {.points = arguments.points, .point_limit = arguments.point_limit},
        own.out, own, own_console);
    processes.agree_after([&] {
      if (run.failure) throw *run.failure;
    });
    own_console.document("search_sweep", nlohmann::ordered_json::parse(run.body));
  };
  alone_or_over_processes(common, console, act);
}

}  // namespace sextant
