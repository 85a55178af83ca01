// One mutex guards rows and counts; points themselves share nothing.
#include "experiments/sweeps/sweep.h"

#include "core/base/check.h"
#include "core/base/parallel.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

namespace {

using Clock = std::chrono::steady_clock;

// Finished rows by key; of equal keys the last.
std::map<std::string, const SweepRow*> finished_rows(const std::vector<SweepRow>& kept) {
  std::map<std::string, const SweepRow*> finished;
  for (const SweepRow& row : kept)
    if (!row.error || row.error->is_answer()) finished[row.key] = &row;
  return finished;
}

std::size_t failures_of(const std::vector<SweepRow>& rows) {
  std::size_t failed = 0;
  for (const SweepRow& row : rows) failed += row.error.has_value() ? 1 : 0;
  return failed;
}

SweepRow computed(const Sweep& sweep, const SweepPoint& point, const RowOrigin& origin) {
  SweepRow row;
  row.experiment = sweep.experiment;
  row.point = point;
  row.key = key_of(sweep.experiment, point, origin);
  row.origin = origin;
  const Clock::time_point begin = Clock::now();
  try {
    row.result = sweep.evaluate(point);
    to_line(row);  // refuses what is not finite
  } catch (const Error& error) {
    row.error = PointError{to_string(error.code()), error.what()};
  } catch (const std::exception& error) {
    row.error = PointError{to_string(ErrorCode::kInternal), error.what()};
  }
  if (row.error) row.result = {};
  row.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return row;
}

class Runner {
 public:
  Runner(const Sweep& sweep, const RowOrigin& origin, const SweepHost& host)
      : sweep_(sweep), origin_(origin), host_(host) {
    outcome_.rows.resize(sweep.points.size());
  }

  SweepOutcome run() {
    const std::vector<std::size_t> open = take_kept();
    const std::vector<std::size_t> beside = own_share(open), alone = measured(open);
    total_ = beside.size() + alone.size();
    for_each_in_parallel(beside.size(), [&](std::size_t index) { run_point(beside[index]); });
    for (const std::size_t index : alone) run_point(index);
    outcome_.failed = failures_of(outcome_.rows);
    return std::move(outcome_);
  }

 private:
  // Which points nothing answers.
  std::vector<std::size_t> take_kept() {
    const auto finished = finished_rows(host_.kept);
    std::vector<std::size_t> open;
    for (std::size_t index = 0; index < sweep_.points.size(); ++index) {
      const SweepPoint& point = sweep_.points[index];
      const auto kept = finished.find(key_of(sweep_.experiment, point, origin_));
      if (kept == finished.end()) {
        open.push_back(index);
        continue;
      }
      outcome_.rows[index] = *kept->second;
      // References are facts of the experiment, not of the row.
      outcome_.rows[index].point = point;
    }
    outcome_.reused = sweep_.points.size() - open.size();
    return open;
  }

  bool is_measured(std::size_t index) const {
    return sweep_.points[index].way == ResultWay::kMeasured;
  }

  std::vector<std::size_t> own_share(const std::vector<std::size_t>& open) const {
    std::vector<std::size_t> own;
    std::size_t dealt = 0;
    for (const std::size_t index : open)
      if (!is_measured(index) && dealt++ % host_.share.count == host_.share.index)
        own.push_back(index);
    return own;
  }

  std::vector<std::size_t> measured(const std::vector<std::size_t>& open) const {
    std::vector<std::size_t> own;
    if (host_.share.index != 0) return own;
    for (const std::size_t index : open)
      if (is_measured(index)) own.push_back(index);
    return own;
  }

  void run_point(std::size_t index) {
    if (is_stopped_) return;
    SweepRow row = computed(sweep_, sweep_.points[index], origin_);
    const std::lock_guard lock(mutex_);
    keep(row);
    outcome_.rows[index] = std::move(row);
    ++done_;
    if (host_.progress) host_.progress({done_, total_, sweep_.points[index].name});
  }

  void keep(const SweepRow& row) {
    if (!host_.keep) return;
    try {
      host_.keep(row);
    } catch (...) {
      is_stopped_ = true;
      throw;
    }
  }

  const Sweep& sweep_;
  const RowOrigin& origin_;
  const SweepHost& host_;
  std::atomic<bool> is_stopped_ = false;
  std::mutex mutex_;  // of outcome_ and done_ while points run
  SweepOutcome outcome_;
  std::size_t done_ = 0, total_ = 0;
};

}  // namespace

void require_unique_points(const std::vector<SweepPoint>& points) {
  std::set<std::string> names;
  for (const SweepPoint& point : points)
    require(names.insert(point.name).second, ErrorCode::kUsage, "two points are called '{}'",
            point.name);
}

SweepOutcome run_sweep(const Sweep& sweep, const RowOrigin& origin, const SweepHost& host) {
  require_unique_points(sweep.points);
  return Runner(sweep, origin, host).run();
}

void fill_in(SweepOutcome& outcome, const Sweep& sweep, const std::vector<SweepRow>& rows) {
  std::map<std::string, std::size_t> places;
  for (std::size_t index = 0; index < sweep.points.size(); ++index)
    places[sweep.points[index].name] = index;
  for (const SweepRow& row : rows) {
    const auto place = places.find(row.point.name);
    require(place != places.end(), ErrorCode::kInternal, "'{}' is no point of {}", row.point.name,
            sweep.experiment);
    outcome.rows[place->second] = row;
  }
  outcome.failed = failures_of(outcome.rows);
}

}  // namespace sextant
