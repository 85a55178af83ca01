// What the yardstick counts, and a watch that takes it; times themselves are the machine's.
#include "backends/cpu/yardstick.h"

#include "backends/cpu/machine_load.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>

namespace sextant::yardstick_test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the yardstick is the processor time of the thread that takes it, and no more") {
  Yardstick yardstick;
  const double before = thread_seconds();
  const double least = yardstick.seconds();
  const double all = thread_seconds() - before;
  CHECK(least > 0);
  CHECK(least <= all / 2);  // of several products
}

TEST_CASE("a watch has a mean as soon as it is asked, and ends at once") {
  const auto begin = std::chrono::steady_clock::now();
  {
    const SpeedWatch watch(1h);
    CHECK(watch.mean_seconds() > 0);
    CHECK(std::isfinite(watch.mean_seconds()));
  }
  { const SpeedWatch ends_before_it_looks(1h); }
  CHECK(std::chrono::steady_clock::now() - begin < 1min);
}

}  // namespace
}  // namespace sextant::yardstick_test
