// `sextant search --words-problem FILE.lp`: which words every operator takes on a mesh that is
// fixed, written for solvers outside, and what our own solver makes of it.
#include "cli/dry_run.h"
#include "cli/verbs.h"
#include "cli/work_watch.h"
#include "core/base/check.h"
#include "core/text/quantity_text.h"
#include "search/min_sum/min_sum_search.h"
#include "search/words/word_pins.h"
#include "search/words/words_problem.h"
#include "simulator/costs/models.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOption = "--words-problem";
constexpr std::string_view kUsualLimit = "10s";

std::string fixed_text(const SearchArguments& arguments) {
  std::string text;
  for (const std::string& fixed : arguments.fixed)
    text += fmt::format("{}--fix {}", text.empty() ? "" : " ", fixed);
  return text.empty() ? "no --fix" : text;
}

void refuse_without_effect(const SearchArguments& arguments, const CommonOptions& common) {
  const auto refuse = [](bool is_given, const std::string& option, const std::string& value) {
    require(!is_given, ErrorCode::kUsage,
            "{} {}: {} writes the problem of one mesh and no plans; leave it out", option, value,
            kOption);
  };
  refuse(!arguments.forbidden.empty(), "--forbid",
         arguments.forbidden.empty() ? "" : arguments.forbidden.front());
  refuse(!arguments.memory.empty(), "--memory", arguments.memory);
  refuse(!common.out.empty(), "--out", common.out);
}

// The mesh and all else that the problem is asked for, from --fix alone.
Strategy fixed_strategy(const Job& job, const SearchArguments& arguments) {
  std::string text;
  for (const std::string& fixed : arguments.fixed) text += fixed + " ";
  const std::string given = fixed_text(arguments);
  return parse_named(given, text, [&](std::string_view settings) {
    Strategy strategy = parse_strategy(settings);
    require_words_settings(strategy);
    const std::int64_t devices = job.cluster.num_devices();
    require(strategy.ranks() == devices, ErrorCode::kUsage,
            "{} wants one mesh of all {} devices, and dp={} tp={} pp={} are {}: fix others, "
            "--fix dp={}",
            kOption, devices, strategy.dp, strategy.tp, strategy.pp, strategy.ranks(), devices);
    const std::vector<WordPin> of_file = search_problem(job).pins;
    strategy.pins.insert(strategy.pins.begin(), of_file.begin(), of_file.end());
    return strategy;
  });
}

MinSumOptions options_of(const SearchArguments& arguments) {
  const std::string limit =
      arguments.time_limit.empty() ? std::string(kUsualLimit) : arguments.time_limit;
  const double end =
      wall_seconds() + to_seconds(parse_named("--time-limit", limit, parse_duration));
  MinSumOptions options;
  options.stop = [end] { return was_interrupted() || wall_seconds() >= end; };
  return options;
}

double gap_of(const MinSumSolution& solution) {
  if (solution.cost == 0) return 0;
  return 1 - static_cast<double>(solution.lower_bound) / static_cast<double>(solution.cost);
}

void say_solution(const LogicalGraph& training, const WordsProblem& problem,
                  const MinSumSolution& solution, Console& console, Json& body) {
  if (!solution.labels) {
    console.say("no assignment of words was found in the time limit");
    return;
  }
  const PinnedWords found = pin_words(training, problem, *solution.labels);
  std::string compared;
  if (const auto own = own_labels(training, problem)) {
    const Duration cost(cost_of(problem.problem(), *own));
    compared =
        fmt::format("; the words of {} sum up to {}", to_string(problem.strategy()), to_text(cost));
    body["own_sum_s"] = to_seconds(cost);
  }
  console.say(fmt::format("the least sum is {} a step, none is below {} (gap {}){}",
                          to_text(Duration(solution.cost)), to_text(Duration(solution.lower_bound)),
                          percent(gap_of(solution)), compared));
  console.say(found.pins.empty() ? "it needs no pins" : "words as pins of the strategy:");
  Json pins = Json::array();
  for (const WordPin& pin : found.pins) {
    console.say("  " + to_string(pin));
    pins.push_back(to_string(pin));
  }
  body["sum_s"] = to_seconds(Duration(solution.cost));
  body["lower_bound_s"] = to_seconds(Duration(solution.lower_bound));
  body["gap"] = gap_of(solution);
  body["pins"] = pins;
}

}  // namespace

void run_words_problem(const SearchArguments& arguments, const CommonOptions& common,
                       Console& console) {
  refuse_without_effect(arguments, common);
  require_different_files({{"the model", arguments.job.plan_or_model},
                           {"-c", arguments.job.cluster},
                           {std::string(kOption), arguments.words_problem}});
  require_writable(std::string(kOption), arguments.words_problem);
  const MinSumOptions options = options_of(arguments);
  const Job job = make_job(arguments.job);
  const Strategy strategy = fixed_strategy(job, arguments);
  const std::int64_t micro_batches = num_micro_batches(strategy, job.global_batch);
  if (common.dry_run)
    return say_dry_run("words_problem", "state the problem of words and solve it",
                       {arguments.words_problem}, console);
  const LogicalGraph training = training_graph(job, strategy);
  const TimingModels models = make_timing_models(job.cluster, job.dtype);
  const WordsProblem problem =
      make_words_problem(training, strategy, micro_batches, *models.network, *models.cost);
  write_file_whole(arguments.words_problem, problem.lp_text());
  const MinSumProblem& sums = problem.problem();
  console.say(fmt::format(
      "{}: {} operators, {} variables, {} tables, in picoseconds a step; "
      "cbc, glpsol, highs and scip read it",
      arguments.words_problem, training.ops().size(), sums.num_variables(), sums.tables.size()));
  Json body = {{"file", arguments.words_problem},
               {"strategy", to_string(strategy)},
               {"operators", training.ops().size()},
               {"variables", sums.num_variables()},
               {"tables", sums.tables.size()}};
  const WorkWatch watch({.show = {}, .ask_to_end = {}, .last_words = {}});
  say_solution(training, problem, solve_words(training, problem, options), console, body);
  console.document("words_problem", body);
}

}  // namespace sextant
