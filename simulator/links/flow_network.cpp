// Bytes are counted per class of equal flows: a change of rate moves one event, however many flows
// the class has.

#include "simulator/links/flow_network.h"

#include "core/base/check.h"
#include "simulator/links/event_queue.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace sextant {

namespace {

// The flow `flow` is over when each flow of its class has moved `bytes` since the class began.
struct Target {
  double bytes = 0;
  std::int32_t flow = 0;
  auto operator<=>(const Target&) const = default;
};

// Counters of one class of the solver.
struct ClassProgress {
  double bytes = 0;  // that each flow has moved, at `since`
  Time since;
  double rate = 0;              // B/ps
  std::vector<Target> targets;  // heap, the least first
  std::int32_t version = 0;     // of its completion event; older ones are void
};

struct FlowEvent {
  std::int32_t flow = -1;        // that begins, or
  std::int32_t flow_class = -1;  // whose first target is reached, if its version is
  std::int32_t version = 0;
};

class FlowRun {
 public:
  FlowRun(std::span<const double> capacities, std::span<const FluidFlow> flows)
      : flows_(flows), solver_(per_picosecond(capacities)), ends_(flows.size()) {}

  std::vector<Time> run() {
    for (std::size_t f = 0; f < flows_.size(); ++f) {
      const FluidFlow& flow = flows_[f];
      require(flow.bytes >= 0 && flow.bytes < kNoLimit && flow.latency >= Duration(0),
              ErrorCode::kUsage, "flow {}: {} B after {} ps, both 0 or more", f, flow.bytes,
              flow.latency.value);
      queue_.push(flow.start + flow.latency, {static_cast<std::int32_t>(f), -1, 0});
    }
    while (!queue_.empty()) {
      now_ = queue_.top().time;
      while (!queue_.empty() && queue_.top().time == now_) handle(queue_.pop().payload);
      solver_.solve();
      for (const std::int32_t c : solver_.changed()) change_rate(c);
      for (const std::int32_t c : shortened_) expect(c);
      shortened_.clear();
    }
    return std::move(ends_);
  }

 private:
  static std::vector<double> per_picosecond(std::span<const double> capacities) {
    std::vector<double> result(capacities.begin(), capacities.end());
    for (double& capacity : result) capacity /= static_cast<double>(kPicosecondsPerSecond);
    return result;
  }

  ClassProgress& progress_of(std::int32_t c) {
    const auto index = static_cast<std::size_t>(c);
    if (index >= classes_.size()) classes_.resize(index + 1);
    return classes_[index];
  }

  void advance(ClassProgress& progress) {
    if (progress.since == now_) return;
    progress.bytes += progress.rate * static_cast<double>((now_ - progress.since).value);
    progress.since = now_;
  }

  void handle(const FlowEvent& event) {
    if (event.flow >= 0) {
      begin(event.flow);
    } else if (event.version == progress_of(event.flow_class).version) {
      end_first(event.flow_class);
    }
  }

  void begin(std::int32_t f) {
    const FluidFlow& flow = flows_[static_cast<std::size_t>(f)];
    if (flow.bytes == 0) {
      ends_[static_cast<std::size_t>(f)] = now_;
      return;
    }
    const std::int32_t c =
        solver_.add(flow.loads, flow.cap / static_cast<double>(kPicosecondsPerSecond));
    ClassProgress& progress = progress_of(c);
    if (progress.targets.empty()) {
      progress.bytes = 0;
      progress.rate = 0;
      progress.since = now_;
    }
    advance(progress);
    progress.targets.push_back({progress.bytes + flow.bytes, f});
    std::push_heap(progress.targets.begin(), progress.targets.end(), std::greater<>());
    shortened_.push_back(c);
  }

  void end_first(std::int32_t c) {
    ClassProgress& progress = progress_of(c);
    advance(progress);
    ends_[static_cast<std::size_t>(progress.targets.front().flow)] = now_;
    std::pop_heap(progress.targets.begin(), progress.targets.end(), std::greater<>());
    progress.targets.pop_back();
    ++progress.version;
    solver_.remove(c);
    shortened_.push_back(c);
  }

  void change_rate(std::int32_t c) {
    ClassProgress& progress = progress_of(c);
    advance(progress);
    progress.rate = solver_.rate(c);
    require(progress.rate < kNoLimit, ErrorCode::kUsage,
            "flow {} has bytes, but no link and no cap", progress.targets.front().flow);
    expect(c);
  }

  // When the next flow of the class will be over at its present rate.
  void expect(std::int32_t c) {
    ClassProgress& progress = progress_of(c);
    if (progress.targets.empty()) return;
    advance(progress);
    const double left = progress.targets.front().bytes - progress.bytes;
    queue_.push(now_ + Duration(picoseconds_up(left, progress.rate)), {-1, c, ++progress.version});
  }

  std::span<const FluidFlow> flows_;
  MaxMin solver_;
  std::vector<ClassProgress> classes_;
  std::vector<std::int32_t> shortened_;  // classes whose first target is another
  EventQueue<FlowEvent> queue_;
  std::vector<Time> ends_;
  Time now_;
};

}  // namespace

std::int64_t picoseconds_up(double amount, double rate) {
  const double picoseconds = std::max(0.0, amount) / rate;
  require(picoseconds < 9e18, ErrorCode::kUsage, "{} at {} per ps takes more than 106 days", amount,
          rate);
  return static_cast<std::int64_t>(std::ceil(picoseconds - picoseconds * 1e-12));
}

std::vector<Time> run_flows(std::span<const double> capacities, std::span<const FluidFlow> flows) {
  return FlowRun(capacities, flows).run();
}

}  // namespace sextant
