// Daly's closed form, its best interval by golden section, and the random process that it is the
// mean of.

#include "simulator/reports/goodput.h"

#include "core/base/check.h"
#include "core/base/counter_rng.h"
#include "core/base/nearest.h"
#include "core/text/quantity_text.h"
#include "core/text/settings_text.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace sextant {

namespace {

constexpr double kSecondsPerDay = 86400;
constexpr double kMostFailures = 1e6, kMostSegments = 1e8;
constexpr double kLongestTime = 1e12;  // that is read, in s
// Free checkpoints would be taken all the time; a step is not shorter by much.
constexpr double kShortestInterval = 1.0;

void require_times(const Reliability& it) {
  const auto check = [](double value, const char* name) {
    require(std::isfinite(value) && value >= 0, ErrorCode::kUsage, "{} of {} s: zero or above",
            name, value);
  };
  require(std::isfinite(it.device_mtbf_s) && it.device_mtbf_s > 0, ErrorCode::kUsage,
          "a mean time between failures of {} s: above zero", it.device_mtbf_s);
  require(it.devices >= 1, ErrorCode::kUsage, "{} devices: at least 1", it.devices);
  check(it.checkpoint_s, "a checkpoint");
  check(it.restart_s, "a restart");
  check(it.interval_s, "an interval");
}

double mean_time(const Reliability& it) {
  return it.device_mtbf_s / static_cast<double>(it.devices);
}

// Expected wall time of one segment of work with its checkpoint.
double segment_s(const Reliability& it, double work_s) {
  const double mean = mean_time(it);
  return mean * std::exp(it.restart_s / mean) * std::expm1((work_s + it.checkpoint_s) / mean);
}

// The share is largest where Daly's estimate says, within factors; it has one maximum.
double best_interval(const Reliability& it) {
  const double mean = mean_time(it);
  const double guess = std::max(std::sqrt(2 * it.checkpoint_s * mean), kShortestInterval);
  constexpr double kGolden = 0.6180339887498949;
  double low = std::log(std::max(guess / 100, kShortestInterval)), high = std::log(guess * 100);
  const auto share = [&](double logarithm) {
    const double work = std::exp(logarithm);
    const double segment = segment_s(it, work);
    return std::isfinite(segment) ? work / segment : 0.0;
  };
  for (int i = 0; i < 100; ++i) {
    const double a = high - kGolden * (high - low), b = low + kGolden * (high - low);
    (share(a) < share(b) ? low : high) = share(a) < share(b) ? a : b;
  }
  return std::exp((low + high) / 2);
}

// Times between failures, one after the other.
class Failures {
 public:
  Failures(double mean, std::uint64_t seed, std::int64_t run)
      : mean_(mean), seed_(seed), run_(run) {}

  double next() {
    const auto run = static_cast<std::uint64_t>(run_), count = count_++;
    const PhiloxBlock bits =
        philox4x32({static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(count >> 32),
                    static_cast<std::uint32_t>(run), static_cast<std::uint32_t>(run >> 32)},
                   {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
    const std::uint64_t wide = (static_cast<std::uint64_t>(bits[0]) << 21) ^ (bits[1] >> 11);
    const double uniform =
        (static_cast<double>(wide & ((std::uint64_t{1} << 53) - 1)) + 0.5) / 9007199254740992.0;
    return -mean_ * std::log(uniform);
  }

 private:
  double mean_;
  std::uint64_t seed_;
  std::int64_t run_;
  std::uint64_t count_ = 0;
};

// Memoryless, so each attempt may draw anew.
double wall_time(const Reliability& it, double interval, double work_s, Failures& failures) {
  double wall = 0;
  for (double done = 0; done < work_s;) {
    const double work = std::min(interval, work_s - done);
    const bool last = done + work >= work_s;
    const double needed = work + (last ? 0 : it.checkpoint_s);
    double failure = failures.next();
    while (failure < needed) {
      wall += failure;
      // A restart that fails begins again.
      for (failure = failures.next(); failure < it.restart_s; failure = failures.next())
        wall += failure;
      wall += it.restart_s;
      failure = failures.next();
    }
    wall += needed;
    done += work;
  }
  return wall;
}

}  // namespace

Reliability parse_reliability(std::string_view text, std::int64_t devices) {
  Reliability it{0, devices, 60, 300, 0};
  const std::pair<std::string, double*> words[] = {{"mtbf", &it.device_mtbf_s},
                                                   {"checkpoint", &it.checkpoint_s},
                                                   {"restart", &it.restart_s},
                                                   {"every", &it.interval_s}};
  std::vector<std::string> names;
  for (const auto& [name, value] : words) names.push_back(name);
  for (const Setting& setting : parse_settings(text, " ", text)) {
    const auto* found = std::find_if(std::begin(words), std::end(words),
                                     [&](const auto& known) { return known.first == setting.key; });
    require(found != std::end(words), ErrorCode::kUsage, "'{}'{}; wanted KEY=TIME with keys {}",
            setting.key, did_you_mean(setting.key, names), comma_list(names));
    *found->second = parse_named(setting.key, setting.value, [](std::string_view value) {
      return parse_quantity(value, QuantityKind::kSeconds);
    });
    require(*found->second <= kLongestTime, ErrorCode::kUsage,
            "{}={}: at most {:g} s, 31,000 years", setting.key, setting.value, kLongestTime);
  }
  require(it.device_mtbf_s > 0, ErrorCode::kUsage,
          "'{}': wanted mtbf=50000h, the mean time between failures of one device, above zero",
          text);
  require_times(it);
  return it;
}

Goodput expected_goodput(const Reliability& reliability) {
  require_times(reliability);
  Goodput result;
  result.interval_s =
      reliability.interval_s > 0 ? reliability.interval_s : best_interval(reliability);
  const double mean = mean_time(reliability);
  const double segment = segment_s(reliability, result.interval_s);
  result.failures_per_day = kSecondsPerDay / mean;
  result.useful = result.interval_s / segment;
  result.checkpoints = reliability.checkpoint_s / segment;
  // Per failure of work, restarts take R in the end and what failed of them before.
  const double failed_attempts = std::expm1((result.interval_s + reliability.checkpoint_s) / mean);
  result.restarts = failed_attempts * mean * std::expm1(reliability.restart_s / mean) / segment;
  result.lost = std::max(0.0, 1 - result.useful - result.checkpoints - result.restarts);
  return result;
}

std::vector<double> simulate_failures(const Reliability& reliability, double work_s,
                                      std::int64_t runs, std::uint64_t seed) {
  require_times(reliability);
  require(std::isfinite(work_s) && work_s >= 0, ErrorCode::kUsage, "{} s of work", work_s);
  require(runs >= 1 && runs <= 1'000'000, ErrorCode::kUsage, "{} runs: 1 to 1000000", runs);
  const Goodput expected = expected_goodput(reliability);
  const double failures = work_s / expected.useful / mean_time(reliability);
  require(failures < kMostFailures, ErrorCode::kUsage,
          "a run of {:.3g} s of work expects {:.3g} failures; it would hardly end", work_s,
          failures);
  const double segments = work_s / expected.interval_s * static_cast<double>(runs);
  require(segments < kMostSegments, ErrorCode::kUsage,
          "{} runs of {:.3g} s of work with a checkpoint every {:.3g} s are {:.3g} checkpoints",
          runs, work_s, expected.interval_s, segments);
  std::vector<double> times;
  for (std::int64_t run = 0; run < runs; ++run) {
    Failures process(mean_time(reliability), seed, run);
    times.push_back(wall_time(reliability, expected.interval_s, work_s, process));
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace sextant
