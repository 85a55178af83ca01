// What is said of timed data actors.
#include "experiments/data_pipeline/data_times.h"

#include <doctest/doctest.h>

namespace sextant::data_times_test {

TEST_CASE("the busiest actor limits where samples hardly wait, and else the step") {
  DataTimes times{{{"images.read", 1e-3, 0.05},
                   {"images.decode", 8e-3, 0.7},
                   {"images.augment", 4e-3, 0.35},
                   {"images", 1e-4, 0.01}},
                  0.04};
  CHECK(verdict_of(times).limiting == 1U);
  CHECK(verdict_of(times).text.starts_with("images.decode limits"));
  times.wait = 0.6;
  CHECK(!verdict_of(times).limiting.has_value());
  CHECK(verdict_of(times).text.starts_with("the step limits: samples wait for it for 60 %"));
  CHECK(verdict_of(DataTimes{}).text.empty());
}

}  // namespace sextant::data_times_test
