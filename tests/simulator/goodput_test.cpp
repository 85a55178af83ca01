// The closed form against the random process that it is the mean of, and against hand-made cases.

#include "simulator/reports/goodput.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

namespace sextant::goodput_test {
namespace {

Reliability cluster(double checkpoint_s, double restart_s) {
  // 1,024 devices of 50,000 hours: a failure every two days.
  return {50'000 * 3600.0, 1024, checkpoint_s, restart_s, 0};
}

double sum_of_shares(const Goodput& goodput) {
  return goodput.useful + goodput.checkpoints + goodput.lost + goodput.restarts;
}

}  // namespace

TEST_CASE("shares of the wall time add up, whatever the times are") {
  for (const double checkpoint : {0.0, 1.0, 600.0})
    for (const double restart : {0.0, 300.0, 20'000.0})
      for (const double interval : {0.0, 60.0, 7200.0}) {
        Reliability one = cluster(checkpoint, restart);
        one.interval_s = interval;
        const Goodput goodput = expected_goodput(one);
        CHECK(sum_of_shares(goodput) == doctest::Approx(1));
        CHECK(goodput.useful > 0);
        CHECK(goodput.useful <= 1);
      }
}

TEST_CASE("the best interval is Daly's square root where failures are rare, and none is better") {
  const Reliability one = cluster(60, 300);
  const Goodput best = expected_goodput(one);
  const double mean = 50'000 * 3600.0 / 1024;
  CHECK(best.interval_s == doctest::Approx(std::sqrt(2 * 60 * mean)).epsilon(0.03));
  CHECK(best.failures_per_day == doctest::Approx(86400 / mean));
  for (const double factor : {0.25, 0.8, 1.25, 4.0}) {
    Reliability other = one;
    other.interval_s = best.interval_s * factor;
    CHECK(expected_goodput(other).useful <= best.useful);
  }
}

TEST_CASE("expected shares are the means of simulated runs") {
  Reliability one{3600, 1, 60, 120, 600};  // a failure an hour
  const double work = 600 * 200;
  const std::vector<double> times = simulate_failures(one, work, 400, 7);
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / 400;
  // 400 runs of about 37 failures of about 8 minutes: the mean is good to half a percent.
  CHECK(work / mean == doctest::Approx(expected_goodput(one).useful).epsilon(0.01));
  CHECK(times == simulate_failures(one, work, 400, 7));
  CHECK(times != simulate_failures(one, work, 400, 8));
}

TEST_CASE("machines that never fail lose checkpoints only") {
  Reliability one{1e18, 1, 10, 100, 90};
  const Goodput goodput = expected_goodput(one);
  CHECK(goodput.useful == doctest::Approx(0.9));
  CHECK(goodput.checkpoints == doctest::Approx(0.1));
  CHECK(simulate_failures(one, 900, 1, 0)[0] == doctest::Approx(900 + 9 * 10));
}

TEST_CASE("times without sense are refused") {
  for (Reliability bad : {Reliability{0, 1, 1, 1, 1}, Reliability{-1, 1, 1, 1, 1},
                          Reliability{1, 0, 1, 1, 1}, Reliability{1, 1, -1, 1, 1},
                          Reliability{1, 1, 1, NAN, 1}, Reliability{1, 1, 1, 1, INFINITY}})
    CHECK_THROWS_AS(expected_goodput(bad), Error);
  // A restart of ten hours on machines that fail every minute.
  CHECK_THROWS_AS(simulate_failures({60, 1, 1, 36'000, 10}, 1e6, 1, 0), Error);
}

TEST_CASE("reliability is read from words, with defaults") {
  const Reliability one = parse_reliability("mtbf=50000h every=30min", 8);
  CHECK(one.device_mtbf_s == 1.8e8);
  CHECK(one.devices == 8);
  CHECK(one.checkpoint_s == 60);
  CHECK(one.restart_s == 300);
  CHECK(one.interval_s == 1800);
  CHECK(parse_reliability(" mtbf=2d  checkpoint=0s", 1).device_mtbf_s == 172800);
  for (const char* text : {"", "mtbf", "mtbf=", "mtbf=0h", "mtbf=-1h", "mtbf=3 h", "mtbf=1h x=2s",
                           "mtbf=1h restart=2", "checkpoint=1s", "mtbf=1h mtbf=2h",
                           "mtbf=1h every=", "mtbf=1h =2s", "mtbf=1e300h", "mtbf=1h restart=1e9d"})
    CHECK_THROWS_AS(parse_reliability(text, 1), Error);
  CHECK_THROWS_WITH_AS(parse_reliability("mtbf=1h restat=2s", 1),
                       doctest::Contains("did you mean 'restart'"), Error);
}

TEST_CASE("free checkpoints are taken every second, and endless runs of them refused") {
  CHECK(expected_goodput({3600, 1, 0, 10, 0}).interval_s == doctest::Approx(1).epsilon(0.01));
  CHECK_THROWS_WITH_AS(simulate_failures({1e9, 1, 0, 10, 1e-3}, 86400, 1000, 0),
                       doctest::Contains("checkpoints"), Error);
}

}  // namespace sextant::goodput_test
