// One lock and one file per folder; what processes tell each other are lines of results.
#include "cli/runs/experiment_run.h"

#include "cli/build_commit.h"
#include "cli/launched.h"
#include "cli/runs/over_processes.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "experiments/sweeps/results_file.h"
#include "experiments/sweeps/summary.h"
#include "experiments/sweeps/sweep.h"
#include "io/checkpoints/folder_lock.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <thread>

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

}  // namespace

std::vector<std::string> results_of(const Experiment& experiment) {
  std::vector<std::string> files = {kResultsFile, "summary.json", "table.md"};
  for (const Figure& figure :
       experiment.figures ? experiment.figures(ResultRows({})) : std::vector<Figure>())
    files.push_back(figure.name);
  return files;
}

nlohmann::ordered_json run_experiment(RunProcesses& processes, const Experiment& experiment,
                                      bool quick, const std::string& folder,
                                      const CommonOptions& common, Console& console) {
  std::optional<KeptResults> kept;
  processes.agree_after([&] { kept.emplace(folder, experiment, common.overwrite); });
  const Sweep sweep = {.experiment = experiment.name,
                       .points = experiment.points(quick),
                       .evaluate = experiment.evaluate};
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

void over_all_processes(const CommonOptions& common, Console& console, const ProcessWork& act) {
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

}  // namespace sextant
