// Errors, ranks and regret, solved by hand.
#include "experiments/accuracy/statistics.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace sextant::statistics_test {
namespace {

using Pairs = std::vector<PredictedAndMeasured>;

// Errors +10 %, -20 %, 0 %: mean of absolutes 10 %, median 10 %, bias -3.33 %.
TEST_CASE("errors are summed up relative to what was measured") {
  const ErrorSummary summary = summarize(Pairs{{1.1, 1}, {1.6, 2}, {4, 4}});
  CHECK(summary.rows == 3);
  CHECK(summary.mape == doctest::Approx(0.1));
  CHECK(summary.median == doctest::Approx(0.1));
  CHECK(summary.bias == doctest::Approx(-0.1 / 3));
  CHECK(summary.worst == 1);
  CHECK(*summary.spearman == doctest::Approx(1));
}

TEST_CASE("nothing has no rows, no error and no rank correlation") {
  const ErrorSummary summary = summarize(Pairs{});
  CHECK(summary.rows == 0);
  CHECK(summary.mape == 0);
  CHECK_FALSE(summary.spearman);
}

// Predicted ranks 0 1 2 3, measured 1 0 3 2: 1 - 6 x 4 / (4 x 15) = 0.6.
TEST_CASE("rank correlation is Spearman's") {
  CHECK(*rank_correlation(Pairs{{1, 20}, {2, 10}, {3, 40}, {4, 30}}) == doctest::Approx(0.6));
  CHECK(*rank_correlation(Pairs{{1, 3}, {2, 2}, {3, 1}}) == doctest::Approx(-1));
}

// Ranks 0.5 0.5 2 and 0 1 2: covariance 1.5, variances 1.5 and 2.
TEST_CASE("ties have their mean rank") {
  CHECK(*rank_correlation(Pairs{{5, 1}, {5, 2}, {6, 3}}) ==
        doctest::Approx(1.5 / std::sqrt(1.5 * 2)));
  CHECK_FALSE(rank_correlation(Pairs{{5, 1}, {5, 2}, {5, 3}}));
}

TEST_CASE("regret is what the predicted best loses to the measured best") {
  CHECK(regret(Pairs{{3, 10}, {2, 11}, {4, 12}}) == doctest::Approx(0.1));
  CHECK(regret(Pairs{{1, 10}, {2, 11}}) == 0);
  CHECK(regret(Pairs{{1, 10}, {1, 15}}) == doctest::Approx(0.5));  // a tie may be broken badly
  CHECK_THROWS_AS(regret(Pairs{}), Error);
}

}  // namespace
}  // namespace sextant::statistics_test
