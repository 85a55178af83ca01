// `sextant experiment accuracy`: predictions beside the measurements of a folder, as a sweep.
#include "cli/dry_run.h"
#include "cli/runs/experiment_run.h"
#include "cli/runs/over_processes.h"
#include "cli/runs/run_processes.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "core/text/json_reader.h"
#include "experiments/accuracy/accuracy_sweep.h"
#include "experiments/accuracy/collectives.h"
#include "experiments/accuracy/report.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

namespace sextant {
namespace {

struct AccuracyArguments {
  std::string data;   // folder of the measurements; empty: $SEXTANT_SHARED/data or ../shared/data
  std::string group;  // part of a name; empty: all
  SweepChoice choice;
};

using Json = nlohmann::ordered_json;

// Beside the tree by default, as tests find it.
std::string data_folder(const std::string& given) {
  if (!given.empty()) return given;
  const char* shared = std::getenv("SEXTANT_SHARED");
  return (shared != nullptr ? std::string(shared) : std::string("../shared")) + "/data";
}

using Reader = std::vector<Observation> (*)(std::string_view text, const std::string& file);

// The collections that are there; none is an error.
std::vector<Observation> read_collections(const std::string& folder) {
  constexpr std::pair<const char*, Reader> kFiles[] = {{"published_runs.csv", read_published},
                                                       {"vtrain_single_node.csv", read_single_node},
                                                       {"pytorch_h200.jsonl", read_pytorch}};
  std::vector<Observation> runs;
  bool found = false;
  for (const auto& [name, reader] : kFiles) {
    const std::string path = folder + "/" + name;
    if (!std::filesystem::exists(path)) continue;
    found = true;
    for (Observation& run : reader(read_text_file(path), name)) runs.push_back(std::move(run));
  }
  require(found, ErrorCode::kBadInput,
          "{} has none of published_runs.csv, vtrain_single_node.csv, pytorch_h200.jsonl: name the "
          "folder of the measurements with --data, or set SEXTANT_SHARED",
          folder);
  return runs;
}

std::vector<CollectiveRow> read_collective_rows(const std::string& folder) {
  using CollectiveReader = std::vector<CollectiveRow> (*)(std::string_view, const std::string&);
  constexpr std::pair<const char*, CollectiveReader> kFiles[] = {
      {"collective_refs.csv", read_collectives}, {"h200x4_sweep.csv", read_collective_sweep}};
  std::vector<CollectiveRow> rows;
  for (const auto& [name, reader] : kFiles) {
    const std::string path = folder + "/" + name;
    if (!std::filesystem::exists(path)) continue;
    for (CollectiveRow& row : reader(read_text_file(path), name)) rows.push_back(std::move(row));
  }
  return rows;
}

std::string collective_table(const std::vector<CollectiveErrors>& groups) {
  std::string text =
      "| collectives | rows | calibrate | excluded | mean | median | worst | geometric |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const CollectiveErrors& group : groups)
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", group.group, group.rows,
                        group.calibration, group.excluded, percent(group.mean),
                        percent(group.median), percent(group.worst), percent(group.geometric));
  return text;
}

std::string collective_lines(const std::vector<CollectiveRow>& rows) {
  std::string text;
  for (const CollectiveRow& row : rows) {
    const bool has_error = row.excluded.empty();
    text += Json{{"id", row.id},
                 {"group", row.group},
                 {"way", row.way},
                 {"bytes", row.bytes},
                 {"comparable", has_error},
                 {"reason", row.excluded},
                 {"calibration", row.is_calibration},
                 {"measured_s", row.measured_s},
                 {"predicted_s", row.predicted_s},
                 {"time_error", has_error ? Json(row.error()) : Json()}}
                .dump() +
            "\n";
  }
  return text;
}

void keep_group(std::vector<Observation>& runs, const std::string& group) {
  if (group.empty()) return;
  std::erase_if(runs,
                [&](const Observation& run) { return run.group.find(group) == std::string::npos; });
  require(!runs.empty(), ErrorCode::kUsage, "no row has a group with '{}' in its name", group);
}

Json group_json(const GroupReport& group) {
  const auto errors = [](const ErrorSummary& summary) {
    return Json{{"rows", summary.rows},
                {"mape", summary.mape},
                {"median", summary.median},
                {"bias", summary.bias},
                {"spearman", summary.spearman ? Json(*summary.spearman) : Json()}};
  };
  Json json = {{"group", group.name},
               {"rows", group.rows},
               {"comparable", group.comparable},
               {"calibration", group.calibration},
               {"time", errors(group.time)},
               {"worst_time", group.worst_time},
               {"worst_time_error", group.worst_time_error},
               {"naive", errors(group.naive)}};
  if (group.memory.rows > 0) {
    json["memory"] = errors(group.memory);
    json["worst_memory"] = group.worst_memory;
    json["most_underestimated_memory"] = group.most_underestimated_memory;
  }
  if (group.choices > 0)
    json["regret"] = {
        {"choices", group.choices}, {"mean", group.mean_regret}, {"worst", group.worst_regret}};
  return json;
}

void report_collectives(const std::string& folder, const CommonOptions& common,
                        const Console& console) {
  const std::vector<CollectiveRow> rows = read_collective_rows(folder);
  if (rows.empty()) return;
  const std::string table = collective_table(collective_errors(rows));
  console.say(table);
  if (common.out.empty()) return;
  write_file_whole(common.out + "/collectives.jsonl", collective_lines(rows));
  write_file_whole(common.out + "/collectives.md", table);
}

void say_accuracy(const AccuracyArguments& arguments, const CommonOptions& common,
                  const std::vector<Observation>& runs, const ExperimentRun& run,
                  Console& console) {
  const std::vector<GroupReport> groups = summarize_groups(compared_rows(runs, run.rows));
  if (!common.out.empty()) write_file_whole(common.out + "/accuracy.md", to_table(groups));
  if (arguments.group.empty() && arguments.choice.points.empty())
    report_collectives(data_folder(arguments.data), common, console);
  Json body = Json::parse(run.body);
  body["groups"] = Json::array();
  for (const GroupReport& group : groups) body["groups"].push_back(group_json(group));
  console.document("experiment_accuracy", body);
}

std::vector<std::string> results_of_accuracy(const Experiment& experiment) {
  std::vector<std::string> files = results_of(experiment);
  for (const char* name : {"accuracy.md", "collectives.jsonl", "collectives.md"})
    files.emplace_back(name);
  return files;
}

void accuracy_in(RunProcesses& processes, const AccuracyArguments& arguments,
                 const CommonOptions& common, Console& console) {
  std::vector<Observation> runs;
  std::optional<Experiment> experiment;
  processes.agree_after([&] {
    runs = read_collections(data_folder(arguments.data));
    keep_group(runs, arguments.group);
    experiment.emplace(accuracy_experiment(runs));
  });
  if (common.dry_run)
    return say_dry_run(
        "experiment_accuracy",
        fmt::format("compare with {}", counted(runs.size(), "published or measured run")),
        in_results(common, results_of_accuracy(*experiment)), console);
  const ExperimentRun run =
      run_experiment(processes, *experiment, arguments.choice, common.out, common, console);
  processes.agree_after([&] {
    if (run.failure) throw *run.failure;
    if (processes.is_first()) say_accuracy(arguments, common, runs, run, console);
  });
}

// All rows are as cheap as each other.
std::vector<Option> accuracy_options(AccuracyArguments& arguments) {
  std::vector<Option> options = sweep_options(arguments.choice);
  std::erase_if(options, [](const Option& option) { return option.key() == "quick"; });
  return joined({{"--data", &arguments.data,
                  "folder with the measurements ($SEXTANT_SHARED/data, ../shared/data)"},
                 {"--group", &arguments.group, "part of a group's name (all)"}},
                std::move(options));
}

void run_accuracy(const AccuracyArguments& arguments, const CommonOptions& common,
                  Console& console) {
  alone_or_over_processes(
      common, console,
      [&arguments](RunProcesses& processes, const CommonOptions& own, Console& own_console) {
        accuracy_in(processes, arguments, own, own_console);
      });
}

}  // namespace

Verb experiment_accuracy_verb() {
  const auto arguments = std::make_shared<AccuracyArguments>();
  return {.path = "experiment accuracy",
          .text = "Predicted against published and measured runs",
          .examples =
              "Examples:\n  sextant experiment accuracy --out accuracy\n"
              "  sextant experiment accuracy --data FOLDER --group vtrain-multi",
          .options = accuracy_options(*arguments),
          .action = [arguments](const CommonOptions& common,
                                Console& console) { run_accuracy(*arguments, common, console); },
          .writes_results = true,
          .has_dry_run = true,
          .shares_processes = true};
}

}  // namespace sextant
