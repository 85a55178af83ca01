// Order statistics by hand.
#include "core/base/quantile.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace sextant::quantile_test {
namespace {

TEST_CASE("a quantile lies between its neighbours in proportion") {
  const std::vector<double> four = {1, 2, 4, 8};
  CHECK(quantile(four, 0) == 1);
  CHECK(quantile(four, 1) == 8);
  CHECK(quantile(four, 0.5) == 3);                             // place 1.5: between 2 and 4
  CHECK(quantile(four, 0.25) == 1.75);                         // place 0.75
  CHECK(quantile(four, 0.9) == doctest::Approx(4 + 0.7 * 4));  // place 2.7
  const std::vector<double> one = {7};
  for (const double q : {0.0, 0.3, 1.0}) CHECK(quantile(one, q) == 7);
}

TEST_CASE("a median needs no order, and infinite neighbours are no difference") {
  CHECK(median({5, 1, 3}) == 3);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK(median({infinite, infinite}) == infinite);
}

TEST_CASE("quantiles never fall as q rises, and stay between least and most") {
  std::vector<double> values;
  for (int i = 0; i < 37; ++i) values.push_back(std::sqrt(static_cast<double>(i * i % 11)) + i);
  double before = values.front();
  for (double q = 0; q <= 1; q += 1.0 / 256) {
    const double now = quantile(values, q);
    CHECK(now >= before);
    CHECK(now <= values.back());
    before = now;
  }
}

TEST_CASE("a quantile of nothing, and one that is no share, are refused") {
  CHECK_THROWS_AS(quantile({}, 0.5), Error);
  CHECK_THROWS_AS(median({}), Error);
  const std::vector<double> one = {7};
  for (const double q : {-0.1, 1.1, std::nan("")}) CHECK_THROWS_AS(quantile(one, q), Error);
}

}  // namespace
}  // namespace sextant::quantile_test
