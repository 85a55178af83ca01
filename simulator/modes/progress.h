// What takes time and disturbs others: communications that share links, and kernels beside them.
// Events in (time, sequence) order; knows no queue and no host.
#pragma once

#include "actor/tapes/tape.h"
#include "core/base/table.h"
#include "core/costs/cost_model.h"
#include "simulator/costs/overlap.h"
#include "simulator/links/event_queue.h"
#include "simulator/links/fluid.h"
#include "simulator/links/link_demand.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

// Told when something is over.
class Completions {
 public:
  virtual ~Completions() = default;
  virtual void completed(std::int32_t entry, Time end) = 0;
  virtual Time arrival_of(std::int32_t entry) const = 0;
};

// More than 200 lines: a communication that begins or ends changes shares of links and rates of
// kernels, which move the ends of others; all of that is one state between two events.
class Progress {
 public:
  // `shares` by place of the tape; empty: nobody slows anybody.
  Progress(const Tape& tape, const LinkDemands& demands, const NetworkModel& network,
           std::span<const OverlapShares> shares, Completions& completions);

  // Whether kernels of a place must be told to `begin_kernel`; else they last what they last.
  bool has_overlap(std::int32_t place) const {
    return !places_.empty() && places_[index(place)].shares != OverlapShares();
  }
  // A kernel of the place's compute queue. Times are never before the last event handled.
  void begin_kernel(std::int32_t entry, Time at, Duration duration);
  // All members of the meeting have arrived, the last at `at`.
  void begin_communication(MeetingId meeting, Time at);

  // Handles the next event, if there is one.
  bool advance();
  std::int64_t events() const { return events_; }

 private:
  enum class Kind : std::uint8_t { kBeginKernel, kKernel, kBeginCommunication, kCommunication };
  struct Payload {
    Kind kind = Kind::kKernel;
    std::int32_t id = 0;       // place or meeting
    std::int32_t version = 0;  // older ones are void
  };
  struct Ending {
    Duration after;
    std::int32_t entry = 0;
    auto operator<=>(const Ending&) const = default;
  };
  struct Communication {
    std::vector<Ending> endings;  // of the members, the first first
    std::size_t next = 0;         // of them
    Fluid fluid;
    std::int32_t version = 0;
    std::int32_t flow_class = -1;  // of the solver; -1: shares no links now
    bool awaits_flow = false;      // in its latency while others contend
    std::int32_t kernels = 0;      // of its members that run now
    double share = 1;              // of its rate, while there are any
    std::int32_t position = -1;    // in flowing_
  };
  struct Place {
    OverlapShares shares;
    std::int32_t kernel = -1;  // the entry that runs
    std::int32_t next_kernel = -1;
    Duration duration;  // of either
    Fluid fluid;
    std::int32_t version = 0;
    std::vector<MeetingId> meetings;  // in progress here
  };

  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  const LinkDemand& demand_of(MeetingId meeting) const {
    return demands_.distinct[index(demands_.of_meeting[meeting])];
  }

  bool is_void(const Payload& payload) const;
  void find_endings(MeetingId meeting, Time at);
  void start(MeetingId meeting);
  void go_on(MeetingId meeting);
  void leave_places(MeetingId meeting, std::int32_t entry);
  void expect(MeetingId meeting);

  void enter_links(MeetingId meeting);
  void leave_links(MeetingId meeting);
  void contend(MeetingId meeting);
  void join(MeetingId meeting);
  void leave_class(MeetingId meeting);
  void share_links();
  void take_share(MeetingId meeting);
  void set_share(MeetingId meeting);
  double alone(const Communication& communication) const {
    return communication.kernels > 0 ? communication.share : 1.0;
  }

  void start_kernel(std::int32_t place);
  void end_kernel(std::int32_t place);
  void set_kernel_rate(std::int32_t place);

  const Tape& tape_;
  const LinkDemands& demands_;
  const NetworkModel& network_;
  Completions& completions_;
  bool has_events_;  // something can disturb something
  Time now_;
  EventQueue<Payload> queue_;
  std::int64_t events_ = 0;

  Table<MeetingId, Communication> communications_;
  std::vector<Place> places_;                                  // empty without overlap
  Table<TapeCostId, std::optional<Duration>> known_duration_;  // where members end together
  std::vector<Time> arrivals_, done_;

  // Links.
  struct Use {
    double rate = 0;         // B/s, of all at their full rates
    std::int32_t users = 0;  // in progress
  };
  std::vector<Use> uses_;
  std::int64_t crowded_ = 0;        // links that cannot carry all full rates
  std::vector<MeetingId> flowing_;  // communications that load links
  MaxMin solver_;
  bool is_solved_ = true;
  std::vector<std::vector<MeetingId>> of_class_;  // communications
  std::vector<MeetingId> joined_;                 // since the last solution
};

}  // namespace sextant
