// `sextant experiment NAME`, `list` and `all`: experiments as sweeps, resumable in their folder.
#include "cli/dry_run.h"
#include "cli/runs/experiment_run.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/text/counted_text.h"
#include "experiments/catalogue/catalogue.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

std::string folder_of(const Experiment& experiment, const CommonOptions& common) {
  return common.out.empty() ? "" : common.out + "/" + experiment.name;
}

void say_dry_all(const std::vector<Experiment>& experiments, bool quick,
                 const CommonOptions& common, const Console& console) {
  std::size_t points = 0;
  std::vector<std::string> files;
  for (const Experiment& experiment : experiments) {
    points += experiment.points(quick).size();
    if (common.out.empty()) continue;
    for (const std::string& file : results_of(experiment))
      files.push_back(folder_of(experiment, common) + "/" + file);
  }
  say_dry_run("experiment_all",
              fmt::format("run {} of {}", counted(points, "point"),
                          counted(experiments.size(), "experiment")),
              files, console);
}

void run_all(const SweepChoice& choice, const CommonOptions& common, Console& console) {
  const auto act = [&](RunProcesses& processes, const CommonOptions& own, Console& own_console) {
    const std::vector<Experiment> experiments = all_experiments();
    if (own.dry_run) return say_dry_all(experiments, choice.quick, own, own_console);
    Json body = {{"experiments", Json::array()}};
    std::optional<Error> failure;  // the first
    for (const Experiment& experiment : experiments) {
      ExperimentRun run = run_experiment(processes, experiment, choice, folder_of(experiment, own),
                                         own, own_console);
      body["experiments"].push_back(Json::parse(run.body));
      if (!failure) failure = std::move(run.failure);
    }
    processes.agree_after([&] {
      if (failure) throw *failure;
    });
    own_console.document("experiment_all", body);
  };
  alone_or_over_processes(common, console, act);
}

void run_list(const Console& console) {
  Json body = {{"experiments", Json::array()}};
  for (const Experiment& experiment : all_experiments()) {
    const std::size_t points = experiment.points(false).size();
    const std::size_t quick = experiment.points(true).size();
    console.say(
        fmt::format("{:<20} {:>3} points  {}", experiment.name, points, experiment.question));
    body["experiments"].push_back({{"name", experiment.name},
                                   {"question", experiment.question},
                                   {"expectation", experiment.expectation},
                                   {"baseline", experiment.baseline},
                                   {"points", points},
                                   {"quick_points", quick}});
  }
  // Of data, and of cards, that are not everywhere.
  console.say(fmt::format("{:<20}             How far are predictions from published measurements?",
                          "accuracy"));
  console.say(fmt::format(
      "{:<20}             How long are steps on GPUs beside PyTorch's on the same cards?",
      "pytorch"));
  console.document("experiment_list", body);
}

// With options of its own (experiment_data_pipeline_verb).
bool has_own_verb(const Experiment& experiment) { return experiment.name == "data-pipeline"; }

Verb verb_of(const Experiment& experiment) {
  const auto choice = std::make_shared<SweepChoice>();
  return {.path = "experiment " + experiment.name,
          .text = experiment.question,
          .examples = fmt::format("Examples:\n  sextant experiment {0} --quick\n"
                                  "  sextant experiment {0} --out {0}",
                                  experiment.name),
          .options = sweep_options(*choice),
          .action =
              [choice, experiment](const CommonOptions& common, Console& console) {
                run_experiment_verb(experiment, *choice, common, console);
              },
          .writes_results = true,
          .has_dry_run = true,
          .shares_processes = true};
}

// Names of points are those of one experiment.
std::vector<Option> without_points(std::vector<Option> options) {
  std::erase_if(options, [](const Option& option) { return option.key() == "point"; });
  return options;
}

Verb all_verb() {
  const auto choice = std::make_shared<SweepChoice>();
  return {.path = "experiment all",
          .text = "All experiments, each in a folder of its name",
          .examples =
              "Examples:\n  sextant experiment all --quick\n"
              "  sextant experiment all --out results",
          .options = without_points(sweep_options(*choice)),
          .action = [choice](const CommonOptions& common,
                             Console& console) { run_all(*choice, common, console); },
          .writes_results = true,
          .has_dry_run = true,
          .shares_processes = true};
}

Verb list_verb() {
  return {.path = "experiment list",
          .text = "The experiments there are",
          .examples = "Examples:\n  sextant experiment list\n  sextant experiment list --json",
          .options = {},
          .action = [](const CommonOptions&, Console& console) { run_list(console); }};
}

}  // namespace

std::vector<Verb> sweep_verbs() {
  std::vector<Verb> verbs = {list_verb(), all_verb()};
  for (const Experiment& experiment : all_experiments())
    if (!has_own_verb(experiment)) verbs.push_back(verb_of(experiment));
  return verbs;
}

}  // namespace sextant
