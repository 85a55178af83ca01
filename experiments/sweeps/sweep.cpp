// One mutex guards file and counts; points themselves share nothing.
#include "experiments/sweeps/sweep.h"

#include "core/base/check.h"
#include "core/base/parallel.h"

#include <chrono>
#include <map>
#include <mutex>
#include <set>

namespace sextant {

namespace {

using Clock = std::chrono::steady_clock;

void require_unique(const std::vector<SweepPoint>& points) {
  std::set<std::string> names;
  for (const SweepPoint& point : points)
    require(names.insert(point.name).second, ErrorCode::kUsage, "two points are called '{}'",
            point.name);
}

// Finished rows by key; of equal keys the last.
std::map<std::string, const SweepRow*> finished_rows(const ResultsFile* file) {
  std::map<std::string, const SweepRow*> finished;
  if (file == nullptr) return finished;
  for (const SweepRow& row : file->kept())
    if (!row.error) finished[row.key] = &row;
  return finished;
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
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;  // a bug is nobody's result
    row.error = PointError{to_string(error.code()), error.what()};
  }
  row.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return row;
}

class Runner {
 public:
  Runner(const Sweep& sweep, const RowOrigin& origin, ResultsFile* file,
         const std::function<void(const SweepProgress&)>& progress)
      : sweep_(sweep), origin_(origin), file_(file), progress_(progress) {
    outcome_.rows.resize(sweep.points.size());
  }

  SweepOutcome run() {
    const std::vector<std::size_t> open = take_kept();
    done_ = sweep_.points.size() - open.size();
    outcome_.reused = done_;
    if (sweep_.is_parallel)
      for_each_in_parallel(open.size(), [&](std::size_t index) { run_point(open[index]); });
    else
      for (const std::size_t index : open) run_point(index);
    for (const SweepRow& row : outcome_.rows) outcome_.failed += row.error.has_value() ? 1 : 0;
    return std::move(outcome_);
  }

 private:
  // Which points nothing answers.
  std::vector<std::size_t> take_kept() {
    const auto finished = finished_rows(file_);
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
    return open;
  }

  void run_point(std::size_t index) {
    SweepRow row = computed(sweep_, sweep_.points[index], origin_);
    const std::lock_guard lock(mutex_);
    if (file_ != nullptr) file_->append(row);
    outcome_.rows[index] = std::move(row);
    ++done_;
    if (progress_) progress_({done_, sweep_.points.size(), sweep_.points[index].name});
  }

  const Sweep& sweep_;
  const RowOrigin& origin_;
  ResultsFile* file_;
  const std::function<void(const SweepProgress&)>& progress_;
  std::mutex mutex_;  // of outcome_, file_ and done_ while points run
  SweepOutcome outcome_;
  std::size_t done_ = 0;
};

}  // namespace

SweepOutcome run_sweep(const Sweep& sweep, const RowOrigin& origin, ResultsFile* file,
                       const std::function<void(const SweepProgress&)>& progress) {
  require_unique(sweep.points);
  return Runner(sweep, origin, file, progress).run();
}

}  // namespace sextant
