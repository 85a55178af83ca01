// A sliding maximum where steps are equal; else the recurrence itself, over tiles of members that
// stay in the first cache while many steps pass.

#include "simulator/costs/ring_recurrence.h"

#include "core/base/check.h"
#include "simulator/costs/vector_width.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sextant {

namespace {

void check_sizes([[maybe_unused]] std::size_t arrivals, [[maybe_unused]] std::size_t done,
                 [[maybe_unused]] std::int64_t steps) {
  SEXTANT_INVARIANT(arrivals == done, "{} arrivals, {} completions", arrivals, done);
  require(steps >= 0, ErrorCode::kUsage, "a ring of {} steps", steps);
}

// Both inputs are read at one place before it is written; `in[-1]` is the member behind.
SEXTANT_FOR_EACH_VECTOR_WIDTH
void step_once(const double* __restrict in, const double* __restrict hops, double* __restrict out,
               std::ptrdiff_t count) {
  for (std::ptrdiff_t i = 0; i < count; ++i)
    out[i] = (in[i] > in[i - 1] ? in[i] : in[i - 1]) + hops[i];
}

// Tiles of kTile members take up to kSteps steps at once, the members behind them that they depend
// on computed along: 6 % more work, and memory is passed once per kSteps.
constexpr std::size_t kTile = 1024, kSteps = 64;

class Tiles {
 public:
  Tiles(std::vector<double> start, std::vector<double> hops)
      : now_(std::move(start)), then_(now_.size()), hops_(std::move(hops)) {
    const std::size_t most = kTile + kSteps + 1;
    for (std::vector<double>* buffer : {&front_, &back_, &tile_hops_}) buffer->resize(most);
  }

  const std::vector<double>& run(std::int64_t steps) {
    for (std::int64_t left = steps; left > 0;) {
      const std::size_t count = std::min<std::size_t>(kSteps, static_cast<std::size_t>(left));
      for (std::size_t first = 0; first < now_.size(); first += kTile) advance(first, count);
      now_.swap(then_);
      left -= static_cast<std::int64_t>(count);
    }
    return now_;
  }

 private:
  // `steps` steps of the members from `first` on. Entry e of the buffers is member first - steps +
  // e; after s steps the entries from s on are right.
  void advance(std::size_t first, std::size_t steps) {
    const std::size_t n = now_.size();
    const std::size_t width = std::min(kTile, n - first) + steps;
    std::size_t member = (first + n - steps % n) % n;
    for (std::size_t entry = 0; entry < width; ++entry) {
      front_[entry] = now_[member];
      tile_hops_[entry] = hops_[member];
      member = member + 1 == n ? 0 : member + 1;
    }
    for (std::size_t step = 1; step <= steps; ++step) {
      step_once(front_.data() + step, tile_hops_.data() + step, back_.data() + step,
                static_cast<std::ptrdiff_t>(width - step));
      front_.swap(back_);
    }
    std::copy(front_.begin() + static_cast<std::ptrdiff_t>(steps),
              front_.begin() + static_cast<std::ptrdiff_t>(width),
              then_.begin() + static_cast<std::ptrdiff_t>(first));
  }

  std::vector<double> now_, then_, hops_, front_, back_, tile_hops_;
};

Time least(std::span<const Time> times) { return *std::min_element(times.begin(), times.end()); }
Time greatest(std::span<const Time> times) { return *std::max_element(times.begin(), times.end()); }

std::vector<double> relative(std::span<const Time> times, Time origin) {
  std::vector<double> result;
  for (const Time time : times) result.push_back(static_cast<double>((time - origin).value));
  return result;
}

}  // namespace

void ring_completions(std::span<const Time> arrivals, Duration step, std::int64_t steps,
                      std::span<Time> done) {
  check_sizes(arrivals.size(), done.size(), steps);
  const std::size_t n = arrivals.size();
  if (n == 0) return;
  const Duration all_steps = steps * step;
  if (steps >= static_cast<std::int64_t>(n) - 1) {
    std::fill(done.begin(), done.end(), greatest(arrivals) + all_steps);
    return;
  }
  // Candidates for the maximum of the last steps + 1 members, latest first to arrive at the front;
  // positions count on from one round to the next.
  const std::size_t window = static_cast<std::size_t>(steps) + 1;
  std::vector<std::size_t> queue(n + window);
  std::size_t head = 0, tail = 0;
  for (std::size_t position = n - window + 1; position < 2 * n; ++position) {
    const Time time = arrivals[position % n];
    while (tail > head && arrivals[queue[tail - 1] % n] <= time) --tail;
    queue[tail++] = position;
    if (queue[head] + window <= position) ++head;
    if (position >= n) done[position - n] = arrivals[queue[head] % n] + all_steps;
  }
}

void ring_completions_by_steps(std::span<const Time> arrivals, Duration step, std::int64_t steps,
                               std::span<Time> done) {
  const std::vector<Duration> hops(arrivals.size(), step);
  ring_completions_by_steps(arrivals, hops, steps, done);
}

void ring_completions(std::span<const Time> arrivals, std::span<const Duration> hops,
                      std::int64_t steps, std::span<Time> done) {
  check_sizes(arrivals.size(), done.size(), steps);
  SEXTANT_INVARIANT(hops.size() == done.size(), "{} hops, {} members", hops.size(), done.size());
  if (arrivals.empty()) return;
  constexpr double kExact = 9007199254740992;  // 2^53
  const Time origin = least(arrivals);
  const double last = static_cast<double>((greatest(arrivals) - origin).value) +
                      static_cast<double>(steps) * static_cast<double>(greatest(hops).value);
  require(last < kExact && least(hops) >= Duration(0), ErrorCode::kUsage,
          "a ring whose members differ by {} ps with {} steps of up to {} ps: too long to be exact",
          (greatest(arrivals) - origin).value, steps, greatest(hops).value);
  Tiles tiles(relative(arrivals, origin), relative(hops, Duration(0)));
  const std::vector<double>& result = tiles.run(steps);
  for (std::size_t i = 0; i < done.size(); ++i)
    done[i] = origin + Duration(static_cast<std::int64_t>(result[i]));
}

void ring_completions_by_steps(std::span<const Time> arrivals, std::span<const Duration> hops,
                               std::int64_t steps, std::span<Time> done) {
  check_sizes(arrivals.size(), done.size(), steps);
  const std::size_t n = arrivals.size();
  std::vector<Time> before(arrivals.begin(), arrivals.end());
  std::copy(arrivals.begin(), arrivals.end(), done.begin());
  for (std::int64_t step = 0; step < steps; ++step) {
    std::copy(done.begin(), done.end(), before.begin());
    for (std::size_t i = 0; i < n; ++i)
      done[i] = std::max(before[i], before[(i + n - 1) % n]) + hops[i];
  }
}

}  // namespace sextant
