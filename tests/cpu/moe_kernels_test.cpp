// Routing of tokens to experts, and descent with momentum, against numbers worked out by hand.
#include "backends/cpu/kernels/shared/kernel.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace sextant::moe_kernels_test {
namespace {

using Numbers = std::vector<double>;
using Integers = std::vector<std::int64_t>;

TestOperand f64(Shape shape, Numbers values, Integers offsets = {}) {
  return {{std::move(shape), DType::kF64}, std::move(values), std::move(offsets)};
}
TestOperand i32(Shape shape, Numbers values) {
  return {{std::move(shape), DType::kI32}, values, {}};
}

TEST_CASE("the k largest come largest first, of equal ones the first, and NaN before all") {
  const double nan = std::nan("");
  const auto results = KernelCall("top_k", {{"k", std::int64_t{2}}})
                           .input(f64({3, 4}, {1, 7, 3, 5, 2, 2, 2, 2, 1, nan, 9, nan}))
                           .output(f64({3, 2}, {}))
                           .output(i32({3, 2}, {}))
                           .run(reference_kernels());
  CHECK(results[1] == Numbers{1, 3, 0, 1, 1, 3});
  CHECK(Numbers(results[0].begin(), results[0].begin() + 4) == Numbers{7, 5, 2, 2});
  CHECK(std::isnan(results[0][4]));
  CHECK(KernelCall("top_k_grad", {{"classes", std::int64_t{4}}})
            .input(i32({2, 2}, {1, 3, 0, 1}))
            .input(f64({2, 2}, {10, 20, 30, 40}))
            .output(f64({2, 4}, {}))
            .run(reference_kernels())[0] == Numbers{0, 10, 0, 20, 30, 40, 0, 0});
}

TEST_CASE("places of an expert go to tokens in order, group by group") {
  // Two groups of three tokens with two choices.
  CHECK(KernelCall("expert_position", {{"experts", std::int64_t{3}}})
            .input(i32({2, 3, 2}, {0, 1, 0, 2, 1, 0, 2, 0, 2, 2, 7, -1}))
            .output(i32({2, 3, 2}, {}))
            .run(reference_kernels())[0] == Numbers{0, 0, 1, 0, 1, 2, 0, 0, 1, 2, -1, -1});
}

// One group of three tokens of two numbers; expert 0 has one place, so the second choice of it is
// dropped. Weights .5 and .25, 1 and 2, 3 and 4.
const Numbers kTokens{1, 2, 3, 4, 5, 6}, kExperts{0, 1, 0, 1, 1, 1}, kPlaces{0, 0, 1, 1, 2, -1},
    kWeights{0.5, 0.25, 1, 2, 3, 4};

TEST_CASE("dispatch puts tokens in their places and drops what has none") {
  KernelCall call("moe_dispatch", {{"experts", std::int64_t{2}}, {"capacity", std::int64_t{2}}});
  call.input(f64({1, 3, 2}, kTokens)).input(i32({1, 3, 2}, kExperts));
  call.input(i32({1, 3, 2}, kPlaces)).output(f64({2, 1, 2, 2}, {}));
  // Expert 0: token 0 at place 0, token 1 at place 1; expert 1: token 0, token 1; place 2 is none.
  CHECK(call.run(reference_kernels())[0] == Numbers{1, 2, 3, 4, 1, 2, 3, 4});
  call.input(f64({1, 3, 2}, kWeights));
  CHECK(call.run(reference_kernels())[0] == Numbers{0.5, 1, 3, 4, 0.25, 0.5, 6, 8});
}

TEST_CASE("combine gives each token the weighted sum of its places, dropped ones nothing") {
  const TestOperand y = f64({2, 1, 2, 2}, {10, 20, 30, 40, 50, 60, 70, 80});
  KernelCall call("moe_combine", {});
  call.input(y).input(i32({1, 3, 2}, kExperts)).input(i32({1, 3, 2}, kPlaces));
  call.output(f64({1, 3, 2}, {}));
  CHECK(call.run(reference_kernels())[0] == Numbers{60, 80, 100, 120, 0, 0});
  call.input(f64({1, 3, 2}, kWeights));
  CHECK(call.run(reference_kernels())[0] == Numbers{17.5, 25, 170, 200, 0, 0});
  // The experts from 1 on: their share.
  CHECK(KernelCall("moe_combine", {})
            .input(f64({1, 1, 2, 2}, {50, 60, 70, 80}, {1, 0, 0, 0}))
            .input(i32({1, 3, 2}, kExperts))
            .input(i32({1, 3, 2}, kPlaces))
            .output(f64({1, 3, 2}, {}))
            .run(reference_kernels())[0] == Numbers{50, 60, 70, 80, 0, 0});
  // Gradient of the weights: token . place.
  CHECK(KernelCall("moe_weight_grad", {})
            .input(y)
            .input(f64({1, 3, 2}, kTokens))
            .input(i32({1, 3, 2}, kExperts))
            .input(i32({1, 3, 2}, kPlaces))
            .output(f64({1, 3, 2}, {}))
            .run(reference_kernels())[0] == Numbers{10 + 40, 50 + 120, 90 + 160, 210 + 320, 0, 0});
}

TEST_CASE("descent with momentum keeps a running direction") {
  for (const KernelTable& table : {reference_kernels(), fast_kernels()}) {
    // p = 2, gradient sum 8 times 1 / 4: g = 2 + .5 * 2 = 3, m = 3, p = 2 - .1 * 3 = 1.7.
    // Again: g = 2 + .85 = 2.85, m = .5 * 3 + 2.85 = 4.35, p = 1.7 - .435 = 1.265.
    const auto make = [](bool nesterov, double updates) {
      auto call = std::make_unique<KernelCall>("momentum", Attributes{{"learning_rate", 0.1},
                                                                      {"momentum", 0.5},
                                                                      {"weight_decay", 0.5},
                                                                      {"nesterov", nesterov}});
      call->input(f64({1}, {8})).input(f64({2}, {0.25, updates}));
      call->output(f64({1}, {2})).output(f64({1}, {})).output({{Shape{}, DType::kI64}, {7}, {}});
      return call;
    };
    const auto plain = make(false, 1);
    CHECK(plain->run(table)[0][0] == doctest::Approx(1.7).epsilon(1e-14));
    CHECK(plain->run(table)[0][0] == doctest::Approx(1.265).epsilon(1e-14));
    // Looks ahead: g + .5 m = 3 + 1.5, p = 2 - .45.
    CHECK(make(true, 1)->run(table)[0][0] == doctest::Approx(1.55).epsilon(1e-14));
    CHECK(make(true, 1)->run(table)[2][0] == 8);
    CHECK(make(false, 0)->run(table) == std::vector<Numbers>{{2}, {0}, {7}});
  }
}

}  // namespace
}  // namespace sextant::moe_kernels_test
