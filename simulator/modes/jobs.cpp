// One tape of all jobs: places, entries and meetings side by side, ranks as devices.

#include "simulator/modes/jobs.h"

#include "actor/protocol/proven_graph.h"
#include "actor/protocol/rank_classes.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "simulator/modes/tape_mode.h"
#include "simulator/modes/timed_evaluation.h"

#include <algorithm>
#include <deque>

namespace sextant {

namespace {

// What was before a job in the tape of all.
struct Offsets {
  std::int32_t place = 0, entry = 0, wait = 0, meeting = 0, call = 0, cost = 0, member = 0,
               arrival = 0;
};

class JoinedJobs {
 public:
  JoinedJobs(std::span<const Job> jobs, const CostModel& cost, const NetworkModel& network,
             const SimulateOptions& options)
      : jobs_(jobs), cost_(cost), network_(network), options_(options) {
    for (const Job& job : jobs) add(job);
  }

  std::vector<Timeline> run() {
    std::vector<OverlapShares> shares;
    for (const Rank device : joined_.ranks)
      if (!options_.overlap.empty()) shares.push_back(options_.overlap[device.index()]);
    TapeOptions options = tape_options(options_);
    TimedTimes all = evaluate_timed(joined_, durations_, cost_, network_, demands_, shares, options,
                                    options.run_ahead_steps);
    std::vector<Timeline> timelines;
    for (std::size_t j = 0; j < jobs_.size(); ++j) timelines.push_back(timeline(j, all));
    return timelines;
  }

 private:
  void add(const Job& job) {
    offsets_.push_back({size_of(joined_.ranks), size_of(joined_.entries), size_of(joined_.waits),
                        size_of(joined_.meetings), size_of(joined_.calls), size_of(joined_.costs),
                        size_of(joined_.members), size_of(joined_.meeting_entries)});
    tapes_.push_back(record(ProvenGraph(*job.graph), all_ranks(*job.graph)));
    const Tape& tape = tapes_.back();
    for (const Rank rank : tape.ranks) joined_.ranks.push_back(device_of(job, rank));
    add_entries(tape, offsets_.back());
    add_meetings(tape, offsets_.back());
    add_costs(job, tape);
    for (std::size_t e = 0; e < tape.entries.size(); ++e)
      durations_.push_back(!tape.entries[e].meeting.is_valid() ? duration(job, tape.entries[e])
                                                               : Duration());
    add_demands(*job.graph, tape, offsets_.back());
  }

  Rank device_of(const Job& job, Rank rank) const {
    const std::int32_t device = job.first_device + rank.value;
    require(job.first_device >= 0, ErrorCode::kUsage, "a job from device {} on", job.first_device);
    require(options_.overlap.empty() || static_cast<std::size_t>(device) < options_.overlap.size(),
            ErrorCode::kUsage, "device {} of a job, overlap shares of {}", device,
            options_.overlap.size());
    return Rank(device);
  }

  // Entries keep the rank of their own graph, which jitter is drawn by.
  void add_entries(const Tape& tape, const Offsets& from) {
    for (TapeEntry entry : tape.entries) {
      entry.place += from.place;
      entry.first_wait += from.wait;
      if (entry.meeting.is_valid()) entry.meeting = entry.meeting.plus(from.meeting);
      if (entry.call.is_valid()) entry.call = entry.call.plus(from.call);
      if (entry.launch_group >= 0) entry.launch_group += from.entry;
      joined_.entries.push_back(entry);
    }
    for (TapeWait wait : tape.waits) {
      wait.entry += from.entry;
      joined_.waits.push_back(wait);
    }
  }

  void add_meetings(const Tape& tape, const Offsets& from) {
    for (TapeMeeting meeting : tape.meetings) {
      meeting.first_call = meeting.first_call.plus(from.call);
      meeting.first_entry += from.arrival;
      joined_.meetings.push_back(meeting);
    }
    for (TapeCall call : tape.calls) {
      call.meeting = call.meeting.plus(from.meeting);
      call.cost = call.cost.plus(from.cost);
      call.first_member += from.member;
      joined_.calls.push_back(call);
    }
    joined_.members.insert(joined_.members.end(), tape.members.begin(), tape.members.end());
    for (const std::int32_t entry : tape.meeting_entries)
      joined_.meeting_entries.push_back(entry + from.entry);
  }

  void add_costs(const Job& job, const Tape& tape) {
    for (CollectiveCost cost : tape.costs) {
      std::vector<Rank>& devices = devices_.emplace_back();
      for (const Rank rank : cost.members) devices.push_back(device_of(job, rank));
      cost.members = devices;
      joined_.costs.push_back(cost);
    }
  }

  Duration duration(const Job& job, const TapeEntry& entry) const {
    const RankProgram& program = job.graph->program_of(entry.rank);
    const Run& run = program.order[entry.run];
    const Block& block = job.graph->block_of(program.instances[run.instance]);
    Duration total;
    for (std::int32_t a = run.first_actor; a < run.first_actor + run.num_actors; ++a)
      total += cost_.duration_on(device_of(job, entry.rank),
                                 block.actors[static_cast<std::size_t>(a)].work);
    return total;
  }

  // Of the job's meetings, with the devices as members.
  void add_demands(const PhysicalGraph& graph, const Tape& tape, const Offsets& from) {
    Tape on_devices = tape;
    for (const TapeCostId cost : tape.costs.keys())
      on_devices.costs[cost] = joined_.costs[cost.plus(from.cost)];
    LinkDemands demands = link_demands(graph, on_devices, network_, nullptr);
    const std::int32_t first = size_of(demands_.distinct);
    demands_.capacities = std::move(demands.capacities);
    for (LinkDemand& demand : demands.distinct) demands_.distinct.push_back(std::move(demand));
    for (const std::int32_t of_meeting : demands.of_meeting)
      demands_.of_meeting.push_back(first + of_meeting);
  }

  Timeline timeline(std::size_t j, const TimedTimes& all) const {
    const Tape& tape = tapes_[j];
    const auto first = static_cast<std::ptrdiff_t>(offsets_[j].entry);
    const auto last = first + static_cast<std::ptrdiff_t>(tape.entries.size());
    const auto part = [&](const std::vector<Time>& times) {
      return std::vector<Time>(times.begin() + first, times.begin() + last);
    };
    TapeTimes times{part(all.times.begin), part(all.times.end), part(all.times.issued), {}};
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      Time end;
      for (std::size_t place = 0; place < tape.ranks.size(); ++place)
        end = std::max(end, all.place_end[static_cast<std::size_t>(step) * joined_.ranks.size() +
                                          static_cast<std::size_t>(offsets_[j].place) + place]);
      times.step_end.push_back(end);
    }
    return timeline_of(*jobs_[j].graph, tape, times, all_ranks(*jobs_[j].graph), options_);
  }

  std::span<const Job> jobs_;
  const CostModel& cost_;
  const NetworkModel& network_;
  const SimulateOptions& options_;
  std::vector<Tape> tapes_;
  std::vector<Offsets> offsets_;  // by job
  Tape joined_;
  std::deque<std::vector<Rank>> devices_;  // that costs refer to
  std::vector<Duration> durations_;
  LinkDemands demands_;
};

}  // namespace

std::vector<Timeline> simulate_jobs(std::span<const Job> jobs, const CostModel& cost,
                                    const NetworkModel& network, const SimulateOptions& options) {
  require(!jobs.empty(), ErrorCode::kUsage, "no jobs to simulate");
  require(options.mode == SimulationMode::kTimed && !options.keep_traffic, ErrorCode::kUsage,
          "several jobs: in timed mode only, and without traffic");
  return JoinedJobs(jobs, cost, network, options).run();
}

}  // namespace sextant
