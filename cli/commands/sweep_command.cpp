// `sextant experiment NAME`, `list` and `all`: experiments as sweeps, resumable in their folder.
#include "cli/build_commit.h"
#include "cli/dry_run.h"
#include "cli/launched.h"
#include "cli/runs/over_processes.h"
#include "cli/runs/run_processes.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "experiments/catalogue/catalogue.h"
#include "experiments/sweeps/results_file.h"
#include "experiments/sweeps/summary.h"
#include "experiments/sweeps/sweep.h"
#include "io/checkpoints/folder_lock.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kResultsFile = "results.jsonl";

RowOrigin row_origin(const CommonOptions& common) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {.machine = fmt::format("{}, {}", host.data(),
                                 counted(std::thread::hardware_concurrency(), "core")),
          .build = build_hash(),
          .commit = std::string(build_commit()),
          .seed = common.seed};
}

std::vector<std::string> results_of(const Experiment& experiment) {
  std::vector<std::string> files = {kResultsFile, "summary.json", "table.md"};
  for (const Figure& figure :
       experiment.figures ? experiment.figures(ResultRows({})) : std::vector<Figure>())
    files.push_back(figure.name);
  return files;
}

// The rows that a folder has already, and where new ones go. Others' results are refused.
class KeptResults {
 public:
  KeptResults(const std::string& folder, const Experiment& experiment, bool overwrites) {
    if (folder.empty()) return;
    lock_.emplace(folder);
    const std::string path = folder + "/" + kResultsFile;
    if (overwrites) std::filesystem::remove(path);
    file_.emplace(path);
    for (const SweepRow& row : file_->kept())
      require(row.experiment == experiment.name, ErrorCode::kUsage,
              "{} has results of {}: name another folder, or --overwrite", folder, row.experiment);
  }

  std::vector<SweepRow> rows() const { return file_ ? file_->kept() : std::vector<SweepRow>(); }
  void append(const SweepRow& row) {
    if (file_) file_->append(row);
  }

 private:
  std::optional<FolderLock> lock_;
  std::optional<ResultsFile> file_;
};

std::string to_lines(const std::vector<SweepRow>& rows) {
  std::string lines;
  for (const SweepRow& row : rows) lines += to_line(row) + "\n";
  return lines;
}

std::vector<SweepRow> rows_of(const std::string& lines) {
  std::vector<SweepRow> rows;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin);
    rows.push_back(row_from_line(lines.substr(begin, end - begin), "another process"));
    begin = end + 1;
  }
  return rows;
}

// Every process knows what the folder of the first has.
std::vector<SweepRow> kept_of_first(RunProcesses& processes, const KeptResults& kept) {
  if (!processes.are_several()) return kept.rows();
  return rows_of(processes.gather(to_lines(kept.rows())).front());
}

// Each process its share, then all get all; the first keeps what came of the others.
SweepOutcome shared_sweep(RunProcesses& processes, const Sweep& sweep, const RowOrigin& origin,
                          KeptResults& kept, Console& console) {
  std::vector<SweepRow> own;
  SweepHost host = {.kept = kept_of_first(processes, kept)};
  host.keep = [&](const SweepRow& row) {
    kept.append(row);
    own.push_back(row);
  };
  host.progress = [&](const SweepProgress& progress) {
    console.progress(fmt::format("{}: {} of {} points, last {}", sweep.experiment, progress.done,
                                 progress.total, progress.point));
  };
  if (processes.are_several())
    host.share = {processes.group().rank().index(), processes.group().size()};
  SweepOutcome outcome;
  processes.agree_after([&] { outcome = run_sweep(sweep, origin, host); });
  console.end_progress();
  if (!processes.are_several()) return outcome;
  const std::vector<std::string> told = processes.gather(to_lines(own));
  processes.agree_after([&] {
    for (std::size_t process = 0; process < told.size(); ++process) {
      if (process == host.share.index) continue;
      const std::vector<SweepRow> rows = rows_of(told[process]);
      fill_in(outcome, sweep, rows);
      for (const SweepRow& row : rows) kept.append(row);
    }
  });
  return outcome;
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

Json row_json(const SweepRow& row) { return Json::parse(to_line(row)); }

void say_rows(const Experiment& experiment, const std::vector<SweepRow>& rows,
              const std::vector<ShapeClaim>& shapes, const Console& console) {
  std::vector<std::vector<std::string>> cells = table_of(experiment, rows);
  Table table(cells.front());
  for (std::size_t index = 1; index < cells.size(); ++index) table.add(cells[index]);
  console.say(experiment.question);
  console.say(table.text());
  for (const ShapeClaim& shape : shapes)
    console.say(fmt::format("{}: {} ({})", verdict_of(shape), shape.statement, shape.detail));
}

Json run_experiment(RunProcesses& processes, const Experiment& experiment, bool quick,
                    const std::string& folder, const CommonOptions& common, Console& console) {
  std::optional<KeptResults> kept;
  processes.agree_after([&] { kept.emplace(folder, experiment, common.overwrite); });
  const Sweep sweep = {.experiment = experiment.name,
                       .points = experiment.points(quick),
                       .evaluate = experiment.evaluate,
                       .is_parallel = experiment.is_parallel};
  const SweepOutcome outcome = shared_sweep(processes, sweep, row_origin(common), *kept, console);
  const std::vector<ShapeClaim> shapes = experiment.shapes(ResultRows(outcome.rows));
  processes.agree_after([&] { write_results(folder, experiment, outcome.rows, shapes); });
  say_rows(experiment, outcome.rows, shapes, console);
  if (outcome.reused > 0)
    console.say(fmt::format("{} of them were in {} already", outcome.reused, folder));
  if (!folder.empty())
    console.say(fmt::format("rows in {0}/{1}, table in {0}/table.md", folder, kResultsFile));
  Json body = Json::parse(summary_json(experiment, outcome.rows, shapes, {}));
  body.erase("schema");
  body.erase("figures");
  body["reused"] = outcome.reused;
  body["rows"] = Json::array();
  for (const SweepRow& row : outcome.rows) body["rows"].push_back(row_json(row));
  return body;
}

// Alone, or in each process of a launcher; all are of one build.
void over_all_processes(
    const CommonOptions& common, Console& console,
    const std::function<void(RunProcesses&, const CommonOptions&, Console&)>& act) {
  constexpr double kTimeout_s = 60;
  const auto several = launched();
  if (!several) {
    RunProcesses alone;
    return act(alone, common, console);
  }
  run_over(*several, kTimeout_s, common, console,
           [&act](RunProcesses& processes, const CommonOptions& own, Console& own_console) {
             processes.require_common({{"build", build_hash(), ErrorCode::kDevice}});
             act(processes, own, own_console);
           });
}

struct SweepArguments {
  bool quick = false;
};

Option quick_option(SweepArguments& arguments) {
  return {"--quick", &arguments.quick, "only the cheap points"};
}

void run_one(const Experiment& experiment, const SweepArguments& arguments,
             const CommonOptions& common, Console& console) {
  if (common.dry_run)
    return say_dry_run(
        "experiment",
        fmt::format("run {}", counted(experiment.points(arguments.quick).size(), "point")),
        in_results(common, results_of(experiment)), console);
  over_all_processes(common, console,
                     [&](RunProcesses& processes, const CommonOptions& own, Console& own_console) {
                       const Json body = run_experiment(processes, experiment, arguments.quick,
                                                        own.out, own, own_console);
                       own_console.document("experiment", body);
                     });
}

void run_all(const SweepArguments& arguments, const CommonOptions& common, Console& console) {
  const std::vector<Experiment> experiments = all_experiments();
  if (common.dry_run) {
    std::size_t points = 0;
    for (const Experiment& experiment : experiments)
      points += experiment.points(arguments.quick).size();
    return say_dry_run("experiment_all",
                       fmt::format("run {} of {}", counted(points, "point"),
                                   counted(experiments.size(), "experiment")),
                       {}, console);
  }
  over_all_processes(
      common, console,
      [&](RunProcesses& processes, const CommonOptions& own, Console& own_console) {
        Json body = {{"experiments", Json::array()}};
        for (const Experiment& experiment : experiments)
          body["experiments"].push_back(run_experiment(
              processes, experiment, arguments.quick,
              own.out.empty() ? "" : own.out + "/" + experiment.name, own, own_console));
        own_console.document("experiment_all", body);
      });
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
  console.say(fmt::format("{:<20}             How far are predictions from published measurements?",
                          "accuracy"));
  console.document("experiment_list", body);
}

Verb verb_of(const Experiment& experiment) {
  const auto arguments = std::make_shared<SweepArguments>();
  return {.path = "experiment " + experiment.name,
          .text = experiment.question,
          .examples = fmt::format("Examples:\n  sextant experiment {0} --quick\n"
                                  "  sextant experiment {0} --out {0}",
                                  experiment.name),
          .options = {quick_option(*arguments)},
          .action = [arguments, experiment](
                        const CommonOptions& common,
                        Console& console) { run_one(experiment, *arguments, common, console); },
          .is_seeded = true,
          .writes_results = true,
          .has_dry_run = true,
          .shares_processes = true};
}

Verb all_verb() {
  const auto arguments = std::make_shared<SweepArguments>();
  return {.path = "experiment all",
          .text = "All experiments, each in a folder of its name",
          .examples =
              "Examples:\n  sextant experiment all --quick\n"
              "  sextant experiment all --out results",
          .options = {quick_option(*arguments)},
          .action = [arguments](const CommonOptions& common,
                                Console& console) { run_all(*arguments, common, console); },
          .is_seeded = true,
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
  for (const Experiment& experiment : all_experiments()) verbs.push_back(verb_of(experiment));
  return verbs;
}

}  // namespace sextant
