// What processes tell each other are lines of results.
#include "cli/runs/shared_sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace sextant {
namespace {

// Points of one process between two exchanges: what an end of all loses at most.
constexpr std::size_t kPointsOfRound = 8;

using Points = std::vector<SweepPoint>;

// Points that are computed between two exchanges; measured ones are the last round.
std::vector<Points> rounds_of(const Points& points, std::size_t processes) {
  const auto is_measured = [](const SweepPoint& point) {
    return point.way == ResultWay::kMeasured;
  };
  const std::size_t size = processes > 1 ? kPointsOfRound * processes : points.size();
  std::vector<Points> rounds;
  for (const SweepPoint& point : points) {
    if (is_measured(point)) continue;
    if (rounds.empty() || rounds.back().size() == size) rounds.emplace_back();
    rounds.back().push_back(point);
  }
  Points& measured = rounds.emplace_back();
  std::copy_if(points.begin(), points.end(), std::back_inserter(measured), is_measured);
  return rounds;
}

class SharedSweep {
 public:
  SharedSweep(RunProcesses& processes, const Sweep& sweep, const RowOrigin& origin,
              const std::vector<SweepRow>& kept, const std::function<void(const SweepRow&)>& keep,
              Console& console)
      : processes_(processes), sweep_(sweep), origin_(origin), keep_(keep), console_(console) {
    host_.kept = kept;
    host_.keep = [this](const SweepRow& row) { take(row); };
    host_.progress = [this](const SweepProgress& progress) { show(progress); };
    if (processes.are_several())
      host_.share = {processes.group().rank().index(), processes.group().size()};
    outcome_.rows.resize(sweep.points.size());
  }

  SweepOutcome run() {
    for (const Points& points : rounds_of(sweep_.points, host_.share.count)) run_round(points);
    return std::move(outcome_);
  }

 private:
  void run_round(const Points& points) {
    const Sweep round = {sweep_.experiment, points, sweep_.evaluate};
    own_.clear();
    SweepOutcome outcome;
    processes_.agree_after([&] { outcome = run_sweep(round, origin_, host_); });
    console_.end_progress();
    done_ += points.size();
    fill_in(outcome_, sweep_, with_values(outcome.rows));
    outcome_.reused += outcome.reused;
    if (processes_.are_several()) exchange();
  }

  void exchange() {
    const std::vector<std::string> told = processes_.gather(to_lines(own_));
    processes_.agree_after([&] {
      for (std::size_t process = 0; process < told.size(); ++process) {
        if (process == host_.share.index) continue;
        const auto rows = rows_from_lines(told[process], fmt::format("process {}", process));
        fill_in(outcome_, sweep_, rows);
        if (keep_)
          for (const SweepRow& row : rows) keep_(row);
      }
    });
  }

  // Those that this process has: kept or computed.
  static std::vector<SweepRow> with_values(std::vector<SweepRow> rows) {
    std::erase_if(rows, [](const SweepRow& row) { return row.key.empty(); });
    return rows;
  }

  void take(const SweepRow& row) {
    if (keep_) keep_(row);
    own_.push_back(row);
  }

  void show(const SweepProgress& progress) {
    console_.progress(fmt::format("{}: {} of {} points, last {}", sweep_.experiment,
                                  done_ + progress.done, sweep_.points.size(), progress.point));
  }

  RunProcesses& processes_;
  const Sweep& sweep_;
  const RowOrigin& origin_;
  const std::function<void(const SweepRow&)>& keep_;
  Console& console_;
  SweepHost host_;
  std::vector<SweepRow> own_;  // of this round
  SweepOutcome outcome_;
  std::size_t done_ = 0;
};

}  // namespace

SweepOutcome shared_sweep(RunProcesses& processes, const Sweep& sweep, const RowOrigin& origin,
                          const std::vector<SweepRow>& kept,
                          const std::function<void(const SweepRow&)>& keep, Console& console) {
  require_unique_points(sweep.points);
  return SharedSweep(processes, sweep, origin, kept, keep, console).run();
}

}  // namespace sextant
