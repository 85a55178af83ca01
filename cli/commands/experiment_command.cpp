// `sextant experiment NAME`: sweeps that write results, a table and a picture.
#include "cli/dry_run.h"
#include "cli/runs/over_processes.h"
#include "cli/runs/prediction_exchange.h"
#include "cli/runs/run_processes.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "core/text/json_reader.h"
#include "experiments/accuracy/collectives.h"
#include "experiments/accuracy/report.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <memory>

namespace sextant {
namespace {

struct AccuracyArguments {
  std::string data;   // folder of the measurements; empty: $SEXTANT_SHARED/data or ../shared/data
  std::string group;  // part of a name; empty: all
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

void write_results(const std::string& folder, const std::vector<ComparedRow>& rows,
                   const std::string& table) {
  write_file_whole(folder + "/results.jsonl", to_jsonl(rows));
  write_file_whole(folder + "/accuracy.md", table);
  write_file_whole(folder + "/accuracy.svg", to_scatter_svg(rows));
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

// Of a whole run.
const std::vector<std::string> kResults = {"results.jsonl", "accuracy.md", "accuracy.svg",
                                           "collectives.jsonl", "collectives.md"};

void say_accuracy(const AccuracyArguments& arguments, const CommonOptions& common,
                  const std::vector<ComparedRow>& rows, Console& console) {
  const std::vector<GroupReport> groups = summarize_groups(rows);
  const std::string table = to_table(groups);
  console.say(table);
  if (!common.out.empty()) {
    write_results(common.out, rows, table);
    console.say(
        fmt::format("every row in {0}/results.jsonl, picture in {0}/accuracy.svg", common.out));
  }
  if (arguments.group.empty()) report_collectives(data_folder(arguments.data), common, console);
  Json body = {{"groups", Json::array()}};
  for (const GroupReport& group : groups) body["groups"].push_back(group_json(group));
  console.document("experiment_accuracy", body);
}

void accuracy_in(RunProcesses& processes, const AccuracyArguments& arguments,
                 const CommonOptions& common, Console& console) {
  std::vector<Observation> runs;
  processes.agree_after([&] {
    require_results_folder(common, kResults);
    runs = read_collections(data_folder(arguments.data));
    keep_group(runs, arguments.group);
  });
  const std::size_t total = runs.size();
  if (processes.are_several())
    processes.require_common({{"build", build_hash(), ErrorCode::kDevice},
                              {"number of rows", fmt::format("{}", total)}});
  if (common.dry_run)
    return say_dry_run("experiment_accuracy",
                       fmt::format("compare with {}", counted(total, "published or measured run")),
                       in_results(common, kResults), console);
  std::vector<ComparedRow> rows = compare(
      std::move(runs),
      [&](std::size_t done) { console.progress(fmt::format("{} of {} rows", done, total)); },
      [&processes](std::size_t row) { return is_own_row(processes, row); });
  gather_predictions(processes, rows);
  console.end_progress();
  processes.agree_after([&] {
    if (processes.is_first()) say_accuracy(arguments, common, rows, console);
  });
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
  AccuracyArguments& a = *arguments;
  return {.path = "experiment accuracy",
          .text = "Predicted against published and measured runs",
          .examples =
              "Examples:\n  sextant experiment accuracy --out accuracy\n"
              "  sextant experiment accuracy --data FOLDER --group vtrain-multi",
          .options =
              {
                  {"--data", &a.data,
                   "folder with the measurements ($SEXTANT_SHARED/data, ../shared/data)"},
                  {"--group", &a.group, "part of a group's name (all)"},
              },
          .action = [arguments](const CommonOptions& common,
                                Console& console) { run_accuracy(*arguments, common, console); },
          .writes_results = true,
          .has_dry_run = true,
          .shares_processes = true};
}

}  // namespace sextant
