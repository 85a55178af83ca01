// One lock and one file per folder; the first of several processes has them.
#include "cli/runs/experiment_run.h"

#include "cli/build_commit.h"
#include "cli/dry_run.h"
#include "cli/runs/point_process.h"
#include "cli/runs/shared_sweep.h"
#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/text/counted_text.h"
#include "core/text/quantity_text.h"
#include "experiments/sweeps/results_file.h"
#include "experiments/sweeps/summary.h"
#include "experiments/sweeps/sweep.h"
#include "io/checkpoints/folder_lock.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kResultsFile = "results.jsonl";

// Nothing that is computed is by chance: measured steps draw their weights from seed 0.
RowOrigin row_origin() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {.machine = fmt::format("{}, {}", host.data(),
                                 counted(std::thread::hardware_concurrency(), "core")),
          .build = build_hash(),
          .commit = std::string(build_commit())};
}

// The rows that a folder has already, and where new ones go. What somebody else wrote there is
// refused unless it may be replaced.
class KeptResults {
 public:
  KeptResults(const std::string& folder, const Experiment& experiment,
              const CommonOptions& common) {
    if (folder.empty()) return;
    lock_.emplace(folder);
    const std::string path = folder + "/" + kResultsFile;
    std::error_code failed;
    if (common.overwrite) std::filesystem::remove(path, failed);
    require(!failed, ErrorCode::kBadInput, "{}: cannot be removed: {}", path, failed.message());
    if (!std::filesystem::exists(path, failed)) require_no_others(folder, experiment, common);
    file_.emplace(path, experiment.name);
  }

  const std::vector<SweepRow>& rows() const {
    static const std::vector<SweepRow> none;
    return file_ ? file_->kept() : none;
  }
  bool cut_a_line() const { return file_ && file_->cut_a_line(); }
  void append(const SweepRow& row) {
    if (file_) file_->append(row);
  }

 private:
  static void require_no_others(const std::string& folder, const Experiment& experiment,
                                const CommonOptions& common) {
    CommonOptions here = common;
    here.out = folder;
    require_results_folder(here, results_of(experiment));
  }

  std::optional<FolderLock> lock_;
  std::optional<ResultsFile> file_;
};

// Every process knows what the folder of the first has.
std::vector<SweepRow> kept_of_first(RunProcesses& processes, const KeptResults& kept) {
  if (!processes.are_several()) return kept.rows();
  return rows_from_lines(processes.gather(to_lines(kept.rows())).front(), "the first process");
}

std::vector<std::string> names_of(const std::vector<SweepPoint>& points) {
  std::vector<std::string> names;
  for (const SweepPoint& point : points) names.push_back(point.name);
  return names;
}

// Those that were named, or the cheap ones.
std::vector<std::string> wanted_points(const Experiment& experiment, const SweepChoice& choice) {
  if (choice.points.empty()) return names_of(experiment.points(true));
  const std::vector<std::string> all = names_of(experiment.points(false));
  for (const std::string& name : choice.points)
    require(std::find(all.begin(), all.end(), name) != all.end(), ErrorCode::kUsage,
            "--point '{}' is no point of {}{}", name, experiment.name, did_you_mean(name, all));
  return choice.points;
}

// The points that are wanted, and of the others those that earlier runs have answered: a summary
// does not shrink.
std::vector<SweepPoint> points_of(const Experiment& experiment, const SweepChoice& choice,
                                  const RowOrigin& origin, const std::vector<SweepRow>& kept) {
  if (!choice.quick && choice.points.empty()) return experiment.points(false);
  const std::vector<std::string> names = wanted_points(experiment, choice);
  const std::set<std::string> wanted(names.begin(), names.end());
  std::set<std::string> keys;
  for (const SweepRow& row : kept)
    if (!row.error || row.error->is_answer()) keys.insert(row.key);
  std::vector<SweepPoint> points = experiment.points(false);
  std::erase_if(points, [&](const SweepPoint& point) {
    return !wanted.contains(point.name) && !keys.contains(key_of(experiment.name, point, origin));
  });
  return points;
}

EvaluatePoint evaluate_of(const Experiment& experiment, const SweepChoice& choice,
                          const RunProcesses& processes) {
  if (is_point_process() || choice.point_limit.empty()) return experiment.evaluate;
  const Duration limit = parse_named("--point-limit", choice.point_limit, parse_duration);
  require(limit > Duration(), ErrorCode::kUsage, "--point-limit {}: wanted more than nothing",
          choice.point_limit);
  require(!processes.are_several(), ErrorCode::kUsage,
          "--point-limit needs a process of its own for every point, which a launcher's cannot "
          "have: leave out one of them");
  return in_own_process(experiment, limit);
}

// What all processes must mean the same by.
std::string points_text(const std::string& experiment, const std::vector<SweepPoint>& points,
                        const RowOrigin& origin) {
  std::string text;
  RowOrigin anywhere = origin;
  anywhere.machine.clear();
  for (const SweepPoint& point : points)
    text += fmt::format("{} {}\n", point.name, key_of(experiment, point, anywhere));
  return text;
}

void write_results(const std::string& folder, const Experiment& experiment,
                   const std::vector<SweepRow>& rows, const std::vector<ShapeClaim>& shapes) {
  if (folder.empty()) return;
  const std::vector<Figure> figures =
      experiment.figures ? experiment.figures(ResultRows(rows)) : std::vector<Figure>();
  for (const Figure& figure : figures) write_file_whole(folder + "/" + figure.name, figure.svg);
  write_file_whole(folder + "/table.md", summary_markdown(experiment, rows, shapes));
  write_file_whole(folder + "/summary.json", summary_json(experiment, rows, shapes, figures));
}

std::string table_text(const Experiment& experiment, const std::vector<SweepRow>& rows) {
  const std::vector<std::vector<std::string>> cells = table_of(experiment, rows);
  TextTable table(cells.front());
  for (std::size_t index = 1; index < cells.size(); ++index) table.add(cells[index]);
  return table.text();
}

void say_rows(const Experiment& experiment, const std::vector<SweepRow>& rows,
              const std::vector<ShapeClaim>& shapes, const Console& console) {
  console.say(experiment.question);
  console.say(experiment.said ? experiment.said(ResultRows(rows)) : table_text(experiment, rows));
  for (const ShapeClaim& shape : shapes)
    console.say(fmt::format("{}: {} ({})", verdict_of(shape), shape.statement, shape.detail));
}

void say_kept(const SweepOutcome& outcome, const std::string& folder, const Console& console) {
  if (outcome.reused > 0)
    console.say(fmt::format("{} of them were in {} already", outcome.reused, folder));
  if (!folder.empty())
    console.say(fmt::format("rows in {0}/{1}, table in {0}/table.md", folder, kResultsFile));
}

Json body_of(const Experiment& experiment, const SweepOutcome& outcome,
             const std::vector<ShapeClaim>& shapes) {
  Json body = Json::parse(summary_json(experiment, outcome.rows, shapes, {}));
  body.erase("schema");
  body.erase("figures");
  body["reused"] = outcome.reused;
  body["rows"] = Json::array();
  for (const SweepRow& row : outcome.rows) body["rows"].push_back(Json::parse(to_line(row)));
  return body;
}

ErrorCode code_of(const PointError& error) {
  for (const ErrorCode code :
       {ErrorCode::kUsage, ErrorCode::kBadInput, ErrorCode::kDevice, ErrorCode::kRankFailed,
        ErrorCode::kVerification, ErrorCode::kCheckpoint})
    if (error.code == to_string(code)) return code;
  return ErrorCode::kInfeasible;
}

// A bug, or nothing at all, is no result, whatever else was found and kept.
std::optional<Error> failure_of(const Experiment& experiment, const std::vector<SweepRow>& rows) {
  for (const SweepRow& row : rows)
    if (row.error && row.error->code == to_string(ErrorCode::kInternal))
      return Error(ErrorCode::kInternal, fmt::format("{}: point '{}': {}", experiment.name,
                                                     row.point.name, row.error->text));
  const bool has_values = std::any_of(rows.begin(), rows.end(),
                                      [](const SweepRow& row) { return !row.error.has_value(); });
  if (has_values || rows.empty()) return std::nullopt;
  const SweepRow& first = rows.front();
  return Error(code_of(*first.error),
               fmt::format("{}: none of {} has values; the first, '{}': {}", experiment.name,
                           counted(rows.size(), "point"), first.point.name, first.error->text));
}

// Without what a folder has.
std::size_t number_of_points(const Experiment& experiment, const SweepChoice& choice) {
  const bool is_whole = !choice.quick && choice.points.empty();
  return is_whole ? experiment.points(false).size() : wanted_points(experiment, choice).size();
}

}  // namespace

std::vector<std::string> results_of(const Experiment& experiment) {
  std::vector<std::string> files = {kResultsFile, "summary.json", "table.md"};
  const std::vector<SweepRow> no_rows;
  if (experiment.figures)
    for (const Figure& figure : experiment.figures(ResultRows(no_rows)))
      files.push_back(figure.name);
  return files;
}

std::vector<Option> sweep_options(SweepChoice& choice) {
  return {{"--quick", &choice.quick, "only the cheap points"},
          {"--point", &choice.points, "only this one, by its name; repeatable"},
          {"--point-limit", &choice.point_limit,
           "30s, 10min: a point that takes longer is ended and kept as failed"}};
}

ExperimentRun run_experiment(RunProcesses& processes, const Experiment& experiment,
                             const SweepChoice& choice, const std::string& folder,
                             const CommonOptions& common, Console& console) {
  std::optional<KeptResults> own;
  EvaluatePoint evaluate;
  processes.agree_after([&] {
    if (!choice.points.empty()) wanted_points(experiment, choice);
    evaluate = evaluate_of(experiment, choice, processes);
    own.emplace(folder, experiment, common);
  });
  if (own->cut_a_line())
    console.note(fmt::format("{}/{}: the last row was cut off, and is computed again", folder,
                             kResultsFile));
  const std::vector<SweepRow> kept = kept_of_first(processes, *own);
  const RowOrigin origin = row_origin();
  const Sweep sweep = {experiment.name, points_of(experiment, choice, origin, kept), evaluate};
  if (processes.are_several())
    processes.require_common(
        {{"build", origin.build, ErrorCode::kDevice},
         {"points", points_text(sweep.experiment, sweep.points, origin), ErrorCode::kUsage}});
  const SweepOutcome outcome = shared_sweep(
      processes, sweep, origin, kept, [&own](const SweepRow& row) { own->append(row); }, console);
  const std::vector<ShapeClaim> shapes = experiment.shapes(ResultRows(outcome.rows));
  processes.agree_after([&] { write_results(folder, experiment, outcome.rows, shapes); });
  std::optional<Error> failure = failure_of(experiment, outcome.rows);
  if (!failure) {
    say_rows(experiment, outcome.rows, shapes, console);
    say_kept(outcome, folder, console);
  }
  std::string body = body_of(experiment, outcome, shapes).dump();
  return {std::move(body), outcome.rows, std::move(failure)};
}

void run_experiment_verb(const Experiment& experiment, const SweepChoice& choice,
                         const CommonOptions& common, Console& console) {
  const auto act = [&](RunProcesses& processes, const CommonOptions& own, Console& own_console) {
    if (own.dry_run)
      return say_dry_run(
          "experiment",
          fmt::format("run {}", counted(number_of_points(experiment, choice), "point")),
          in_results(own, results_of(experiment)), own_console);
    const ExperimentRun run =
        run_experiment(processes, experiment, choice, own.out, own, own_console);
    processes.agree_after([&] {
      if (run.failure) throw *run.failure;
    });
    own_console.document("experiment", Json::parse(run.body));
  };
  alone_or_over_processes(common, console, act);
}

}  // namespace sextant
