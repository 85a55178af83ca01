// Times come from the parts of a step (step_parts), of a row from those that a rank would have if
// it had no other communications.
#include "simulator/steps/communication_use.h"

#include "simulator/steps/run_facts.h"
#include "simulator/steps/step_parts.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

using Stretch = Intervals::Stretch;

bool is_computation(const TimedRun& run) { return run.queue == QueueRole::kCompute; }

// A sender may be over before its receiver has come.
Time arrival_of(const TimedRun& run) { return std::min(run.arrived, run.end); }

double seconds(std::int64_t time) { return to_seconds(Duration(time)); }

// How long communications of the stretches are in progress in [begin, end).
std::int64_t time_beside(const std::vector<Stretch>& apart, std::int64_t begin, std::int64_t end) {
  const auto is_over = [](const Stretch& one, std::int64_t at) { return one.end <= at; };
  std::int64_t sum = 0;
  for (auto next = std::lower_bound(apart.begin(), apart.end(), begin, is_over);
       next != apart.end() && next->begin < end; ++next)
    sum += std::min(end, next->end) - std::max(begin, next->begin);
  return sum;
}

// Launches that do the same work, weighted by the ranks they stand for.
class LikeLaunches {
 public:
  void add(std::int64_t time, std::int64_t beside, double weight) {
    // What only touches a communication is apart.
    constexpr double kTouches = 0.02;
    if (static_cast<double>(beside) <= kTouches * static_cast<double>(time)) {
      apart_ += weight;
      apart_s_ += weight * seconds(time);
    } else {
      met_ += weight;
      met_s_ += weight * seconds(time);
    }
    beside_s_ += weight * seconds(beside);
    if (static_cast<double>(beside) > kTouches * static_cast<double>(time))
      met_beside_s_ += weight * seconds(beside);
  }

  double beside_s() const { return beside_s_; }
  bool tells() const { return apart_ > 0 && met_ > 0; }
  double compared_s() const { return met_beside_s_; }
  // What those that met a communication did beside it, at the pace of those that did not: their
  // work less what they did alone.
  double alone_s() const { return met_ * apart_s_ / apart_ - (met_s_ - met_beside_s_); }

 private:
  double apart_ = 0, apart_s_ = 0, met_ = 0, met_s_ = 0, met_beside_s_ = 0, beside_s_ = 0;
};

using RowKey = std::pair<QueueRole, std::string>;

// Sums over ranks and steps.
class Sums {
 public:
  explicit Sums(const PhysicalGraph& graph, const WorkName& name) : graph_(graph), name_(name) {}

  void add(const RankTimeline& rank, Duration period) {
    const auto weight = static_cast<double>(rank.ranks);
    ranks_ += weight;
    std::map<RowKey, std::vector<const TimedRun*>> rows;
    std::vector<const TimedRun*> computation, communications;
    for (const TimedRun& run : rank.runs) {
      if (is_computation(run)) {
        computation.push_back(&run);
        continue;
      }
      const Actor& actor = first_actor_of(graph_, rank.rank, run.run);
      if (!actor.communication) continue;
      communications.push_back(&run);
      rows[{run.queue, actor.kind}].push_back(&run);
    }
    add_times(computation, communications, period, weight, all_);
    for (const auto& [key, runs] : rows) add_times(computation, runs, period, weight, rows_[key]);
    add_computation(rank.rank, computation, communications, weight);
  }

  CommunicationUse means() const {
    CommunicationUse use;
    if (ranks_ == 0) return use;
    use.all = mean(all_);
    for (const auto& [key, times] : rows_) use.rows.push_back({key.first, key.second, mean(times)});
    std::stable_sort(use.rows.begin(), use.rows.end(), [](const auto& a, const auto& b) {
      return a.times.in_progress_s > b.times.in_progress_s;
    });
    double alone_s = 0;
    for (const auto& [name, launches] : like_) {
      use.beside_s += launches.beside_s() / ranks_;
      if (!launches.tells()) continue;
      use.compared_s += launches.compared_s() / ranks_;
      alone_s += launches.alone_s() / ranks_;
    }
    if (alone_s > 0) use.slowdown = use.compared_s / alone_s;
    return use;
  }

 private:
  CommunicationTimes mean(const CommunicationTimes& sum) const {
    return {sum.launches / ranks_, sum.in_progress_s / ranks_, sum.exposed_s / ranks_,
            sum.waiting_s / ranks_};
  }

  static void add_times(const std::vector<const TimedRun*>& computation,
                        const std::vector<const TimedRun*>& communications, Duration period,
                        double weight, CommunicationTimes& sum) {
    RankActivity with, without;
    for (const TimedRun* run : computation)
      with.add(run->queue, run->optimizer, run->issued, run->begin, run->end);
    for (const TimedRun* run : communications) {
      for (RankActivity* activity : {&with, &without})
        activity->add(run->queue, false, run->issued, arrival_of(*run), run->end);
      sum.waiting_s += weight * to_seconds(arrival_of(*run) - run->begin);
    }
    const auto exposed = static_cast<std::size_t>(TimePart::kExposedCommunication);
    sum.launches += weight * static_cast<double>(communications.size());
    sum.in_progress_s += weight * to_seconds(without.parts(period)[exposed]);
    sum.exposed_s += weight * to_seconds(with.parts(period)[exposed]);
  }

  void add_computation(Rank rank, const std::vector<const TimedRun*>& computation,
                       const std::vector<const TimedRun*>& communications, double weight) {
    Intervals in_progress;
    std::vector<Stretch> stretches;
    for (const TimedRun* run : communications)
      stretches.push_back({arrival_of(*run).value, run->end.value});
    std::sort(stretches.begin(), stretches.end(),
              [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
    for (const Stretch& stretch : stretches) in_progress.add(stretch);
    const std::vector<Stretch>& apart = in_progress.apart();
    for (const TimedRun* run : computation)
      like_[name_(rank, run->run)].add((run->end - run->begin).value,
                                       time_beside(apart, run->begin.value, run->end.value),
                                       weight);
  }

  const PhysicalGraph& graph_;
  const WorkName& name_;
  double ranks_ = 0;
  CommunicationTimes all_;
  std::map<RowKey, CommunicationTimes> rows_;
  std::map<std::string, LikeLaunches> like_;
};

}  // namespace

CommunicationUse communication_use(const PhysicalGraph& graph, std::span<const Timeline> steps,
                                   const WorkName& name) {
  Sums sums(graph, name);
  for (const Timeline& step : steps)
    for (const RankTimeline& rank : step.ranks) sums.add(rank, step.step_time());
  return sums.means();
}

}  // namespace sextant
