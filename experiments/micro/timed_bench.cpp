// Timed mode without a compiler in front: layers of kernels and collectives on many ranks, written
// down as a tape. Items are launches. Smooth and with jitter per rank, for symmetric ranks hide a
// slow queue; alone on wide links, contending for narrow ones, and with kernels and collectives
// slowing each other. The baseline is the same tape in one pass.
#include "simulator/links/event_queue.h"
#include "simulator/modes/timed_evaluation.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <queue>
#include <random>

namespace sextant::timed_bench {
namespace {

constexpr std::int32_t kRanks = 256, kTensor = 8, kLayers = 50;

// One link out per device, and an up-link per 32 of them.
class BenchNetwork final : public NetworkModel {
 public:
  explicit BenchNetwork(bool is_narrow) {
    const double out = is_narrow ? 100e9 : 1000e9;
    for (std::int32_t rank = 0; rank < kRanks; ++rank) links_.push_back({"out", out});
    for (std::int32_t leaf = 0; leaf < kRanks / 32; ++leaf)
      links_.push_back({"up", is_narrow ? 8 * out : 32 * out});
  }
  Duration duration(const CollectiveCost& cost) const override {
    return kLatency + Duration(cost.global_bytes.value * 10);  // 100 GB/s
  }
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    std::fill(done.begin(), done.end(),
              *std::max_element(arrivals.begin(), arrivals.end()) + duration(cost));
  }
  bool completes_together() const override { return true; }
  std::span<const SharedLink> links() const override { return links_; }
  void demand(const CollectiveCost& cost, NetworkDemand& out) const override {
    out.latency = kLatency;
    out.loads.clear();
    const auto bytes = static_cast<double>(cost.global_bytes.value);
    std::vector<double> up(kRanks / 32);
    for (const Rank member : cost.members) {
      out.loads.push_back({member.value, bytes});
      up[static_cast<std::size_t>(member.value / 32)] += bytes;
    }
    if (cost.members.size() == kTensor) return;
    for (std::size_t leaf = 0; leaf < up.size(); ++leaf)
      if (up[leaf] > 0) out.loads.push_back({kRanks + static_cast<std::int32_t>(leaf), up[leaf]});
  }

 private:
  static constexpr Duration kLatency{5'000'000};
  std::vector<SharedLink> links_;
};

// Per layer and rank: a kernel, an all_reduce among 8 neighbours after it, another kernel after
// that, and on a queue of its own an all_reduce among the 32 that stand at the same place.
struct Workload {
  Tape tape;
  Table<TapeCostId, std::vector<Rank>> members;
  std::vector<Duration> durations;

  Workload() {
    for (std::int32_t rank = 0; rank < kRanks; ++rank) tape.ranks.emplace_back(rank);
    for (std::int32_t g = 0; g < kRanks / kTensor; ++g) add_cost(g * kTensor, 1, kTensor, 100'000);
    for (std::int32_t g = 0; g < kTensor; ++g) add_cost(g, kTensor, kRanks / kTensor, 200'000);
    for (const TapeCostId cost : members.keys()) tape.costs[cost].members = members[cost];
    for (std::int32_t layer = 0; layer < kLayers; ++layer) {
      const std::int32_t first = add_kernels(-1);
      const std::int32_t reduced = add_collectives(QueueRole::kCollective, 0, first);
      const std::int32_t second = add_kernels(reduced);
      add_collectives(QueueRole::kTransferOutForward, kRanks / kTensor, second);
    }
    durations.resize(tape.entries.size());
    std::mt19937 random(1);
    for (std::size_t e = 0; e < durations.size(); ++e)
      if (!tape.entries[e].meeting.is_valid()) durations[e] = Duration(8'000'000 + random() % 1000);
  }

 private:
  void add_cost(std::int32_t first, std::int32_t stride, std::int32_t count, std::int64_t bytes) {
    members.emplace_back();
    for (std::int32_t i = 0; i < count; ++i) members.back().emplace_back(first + i * stride);
    CollectiveCost cost;
    cost.global_bytes = Bytes(bytes);
    tape.costs.push_back(cost);
  }

  // Returns the entry of rank 0; those of others follow it in order.
  std::int32_t add_entries(QueueRole queue, std::int32_t waits_for) {
    const auto first = static_cast<std::int32_t>(tape.entries.size());
    for (std::int32_t rank = 0; rank < kRanks; ++rank) {
      TapeEntry entry;
      entry.rank = Rank(rank);
      entry.place = rank;
      entry.run = RunId(first / kRanks);
      entry.queue = queue;
      entry.first_wait = static_cast<std::int32_t>(tape.waits.size());
      if (waits_for >= 0) {
        tape.waits.push_back({waits_for + rank, 0});
        entry.num_waits = 1;
      }
      tape.entries.push_back(entry);
    }
    return first;
  }
  std::int32_t add_kernels(std::int32_t waits_for) {
    return add_entries(QueueRole::kCompute, waits_for);
  }

  std::int32_t add_collectives(QueueRole queue, std::int32_t first_cost, std::int32_t waits_for) {
    const std::int32_t first = add_entries(queue, waits_for);
    const bool is_tensor = first_cost == 0;
    const std::int32_t count = is_tensor ? kRanks / kTensor : kTensor;
    for (std::int32_t g = 0; g < count; ++g) {
      const TapeCostId cost(first_cost + g);
      const std::vector<Rank>& ranks = members[cost];
      TapeCall call{tape.meetings.next_key(), cost, static_cast<std::int32_t>(tape.members.size()),
                    static_cast<std::int32_t>(ranks.size())};
      TapeMeeting meeting{tape.calls.next_key(), 1,
                          static_cast<std::int32_t>(tape.meeting_entries.size()), call.num_members};
      for (std::int32_t i = 0; i < call.num_members; ++i) {
        const Rank rank = ranks[static_cast<std::size_t>(i)];
        TapeEntry& entry = tape.entries[static_cast<std::size_t>(first + rank.value)];
        entry.meeting = call.meeting;
        entry.call = meeting.first_call;
        entry.member = i;
        tape.members.push_back(i);
        tape.meeting_entries.push_back(first + rank.value);
      }
      tape.calls.push_back(call);
      tape.meetings.push_back(meeting);
    }
    return first;
  }
};

class FreeLaunches final : public CostModel {
 public:
  Duration duration(const Work&) const override { return {}; }
  Duration launch_cost() const override { return Duration(1'000'000); }
};

const Workload& workload() {
  static const Workload value;
  return value;
}

enum Case : std::int64_t { kWide, kContended, kOverlap };

void timed(benchmark::State& state) {
  const PhysicalGraph no_graph;
  const BenchNetwork network(state.range(0) == kContended);
  const LinkDemands demands = link_demands(no_graph, workload().tape, network, nullptr);
  const std::vector<OverlapShares> shares(state.range(0) == kOverlap ? kRanks : 0, {0.9, 0.8});
  TapeOptions options;
  options.jitter = static_cast<double>(state.range(1)) / 100;
  std::int64_t events = 0;
  for (auto _ : state)
    events = evaluate_timed(workload().tape, workload().durations, FreeLaunches(), network, demands,
                            shares, options)
                 .events;
  state.SetItemsProcessed(state.iterations() * options.steps *
                          static_cast<std::int64_t>(workload().tape.entries.size()));
  state.counters["events"] = static_cast<double>(events);
  const char* const labels[] = {"wide links", "contended links", "overlap slowdown"};
  state.SetLabel(labels[state.range(0)]);
}
BENCHMARK(timed)
    ->Name("timed/timed")
    ->ArgsProduct({{kWide, kContended, kOverlap}, {0, 10}})
    ->Unit(benchmark::kMillisecond);

void one_pass(benchmark::State& state) {
  const PhysicalGraph no_graph;
  const BenchNetwork network(false);
  TapeOptions options;
  options.jitter = static_cast<double>(state.range(0)) / 100;
  for (auto _ : state)
    benchmark::DoNotOptimize(evaluate(workload().tape, no_graph, workload().durations,
                                      FreeLaunches(), network, options));
  state.SetItemsProcessed(state.iterations() * options.steps *
                          static_cast<std::int64_t>(workload().tape.entries.size()));
}
BENCHMARK(one_pass)->Name("timed/one_pass")->Arg(0)->Arg(10)->Unit(benchmark::kMillisecond);

// ---------------------------------------------------------------- event queues

// A binary heap of the standard library, for comparison.
class BinaryHeap {
 public:
  void push(Time time, std::int64_t payload) { heap_.push({time, next_++, payload}); }
  Time pop() {
    const Time time = heap_.top().time;
    heap_.pop();
    return time;
  }

 private:
  struct Event {
    Time time;
    std::int64_t sequence, payload;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };
  std::priority_queue<Event> heap_;
  std::int64_t next_ = 0;
};

class FourHeap {
 public:
  void push(Time time, std::int64_t payload) { queue_.push(time, payload); }
  Time pop() { return queue_.pop().time; }

 private:
  EventQueue<std::int64_t> queue_;
};

// Days of a fixed length in a ring; a day is sorted when it comes (Brown, 1988, without resizing).
class Calendar {
 public:
  explicit Calendar(std::int64_t pending)
      : day_(std::max<std::int64_t>(1, 2 * kMeanHold / pending)), days_(kDays) {}
  void push(Time time, std::int64_t payload) {
    std::vector<Event>& day = days_[static_cast<std::size_t>(time.value / day_ % kDays)];
    day.push_back({time, next_++, payload});
    if (time.value / day_ == today_) std::sort(day.begin(), day.end(), later);
  }
  Time pop() {
    for (;;) {
      std::vector<Event>& day = days_[static_cast<std::size_t>(today_ % kDays)];
      if (!day.empty() && day.back().time.value / day_ == today_) {
        const Time time = day.back().time;
        day.pop_back();
        return time;
      }
      ++today_;
      std::vector<Event>& next = days_[static_cast<std::size_t>(today_ % kDays)];
      if (next.size() > 1) std::sort(next.begin(), next.end(), later);
    }
  }
  static constexpr std::int64_t kMeanHold = 1'000'000;

 private:
  struct Event {
    Time time;
    std::int64_t sequence, payload;
  };
  static bool later(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
  }
  static constexpr std::int64_t kDays = 1 << 20;
  std::int64_t day_, today_ = 0, next_ = 0;
  std::vector<std::vector<Event>> days_;
};

// The hold model: with a constant number pending, take the first and put in one that is later by a
// uniform time.
template <typename Queue>
void hold(benchmark::State& state, Queue queue) {
  std::mt19937 random(1);
  const auto later = [&] { return Duration(random() % (2 * Calendar::kMeanHold)); };
  for (std::int64_t i = 0; i < state.range(0); ++i) queue.push(later(), i);
  for (auto _ : state) queue.push(queue.pop() + later(), 0);
  state.SetItemsProcessed(state.iterations());
}
void four_heap(benchmark::State& state) { hold(state, FourHeap()); }
void binary_heap(benchmark::State& state) { hold(state, BinaryHeap()); }
void calendar(benchmark::State& state) { hold(state, Calendar(state.range(0))); }
BENCHMARK(four_heap)->Name("timed/four_heap")->Arg(1000)->Arg(100'000);
BENCHMARK(binary_heap)->Name("timed/binary_heap")->Arg(1000)->Arg(100'000);
BENCHMARK(calendar)->Name("timed/calendar")->Arg(1000)->Arg(100'000);

}  // namespace
}  // namespace sextant::timed_bench
