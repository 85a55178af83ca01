// Attention on shards whose queries and keys are different parts of the global tensor, against
// numbers worked out by hand. Whole tensors: kernels_test.cpp.
#include "backends/cpu/kernels/shared/kernel.h"
#include "core/base/error.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace sextant::attention_kernels_test {
namespace {

using Numbers = std::vector<double>;

void check_near(const Numbers& found, const Numbers& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-6));
}

// Both tables, in the type that the fast kernels are for: they must leave these shards alone.
template <typename Check>
void in_both_tables(const Check& check) {
  check(reference_kernels());
  check(fast_kernels());
}

TestOperand f32(Shape shape, Numbers values, std::vector<std::int64_t> offsets = {}) {
  return {{std::move(shape), DType::kF32}, std::move(values), std::move(offsets)};
}

// S = 2, H = 2, KV = 1, D = 1, scale 1, k = [0, log 3], v = [4, 8]. Position 1, q = [1, 0]: head 0
// has weights 1 : 3, o = (4 + 24) / 4 = 7, lse = log 4; head 1 has 1 : 1, o = 6, lse = log 2.
const double kLog2 = std::log(2.0), kLog3 = std::log(3.0), kLog4 = std::log(4.0);

TEST_CASE("a shard of the queries sees the keys up to its global position") {
  in_both_tables([](const KernelTable& table) {
    const TestOperand k = f32({1, 2, 1, 1}, {0, kLog3}), v = f32({1, 2, 1, 1}, {4, 8});
    const TestOperand q = f32({1, 1, 2, 1}, {1, 0}, {0, 1, 0, 0});
    const auto results = KernelCall("attention", {})
                             .input(q)
                             .input(k)
                             .input(v)
                             .output(f32({1, 1, 2, 1}, {}, {0, 1, 0, 0}))
                             .output(f32({1, 1, 2}, {}, {0, 1, 0}))
                             .run(table);
    check_near(results[0], {7, 6});
    check_near(results[1], {kLog4, kLog2});
    // d_o = 1: ds = [-.75, .75] and [-1, 1]. The share of these queries in dk and dv.
    const auto grads = KernelCall("attention_grad", {})
                           .input(q)
                           .input(k)
                           .input(v)
                           .input(f32({1, 1, 2, 1}, {7, 6}, {0, 1, 0, 0}))
                           .input(f32({1, 1, 2}, {kLog4, kLog2}, {0, 1, 0}))
                           .input(f32({1, 1, 2, 1}, {1, 1}, {0, 1, 0, 0}))
                           .output(f32({1, 1, 2, 1}, {}, {0, 1, 0, 0}))
                           .output(f32({1, 2, 1, 1}, {}))
                           .output(f32({1, 2, 1, 1}, {}))
                           .run(table);
    check_near(grads[0], {0.75 * kLog3, kLog3});
    check_near(grads[1], {-0.75, 0.75});
    check_near(grads[2], {0.25 + 0.5, 0.75 + 0.5});
  });
}

TEST_CASE("a shard of the keys gives its share of the gradient to the queries that see it") {
  in_both_tables([](const KernelTable& table) {
    // Key 1 alone: position 0 does not see it.
    const auto grads = KernelCall("attention_grad", {})
                           .input(f32({1, 2, 2, 1}, {5, -2, 1, 0}))
                           .input(f32({1, 1, 1, 1}, {kLog3}, {0, 1, 0, 0}))
                           .input(f32({1, 1, 1, 1}, {8}, {0, 1, 0, 0}))
                           .input(f32({1, 2, 2, 1}, {4, 4, 7, 6}))
                           .input(f32({1, 2, 2}, {0, 0, kLog4, kLog2}))
                           .input(f32({1, 2, 2, 1}, {1, 1, 1, 1}))
                           .output(f32({1, 2, 2, 1}, {}))
                           .output(f32({1, 1, 1, 1}, {}, {0, 1, 0, 0}))
                           .output(f32({1, 1, 1, 1}, {}, {0, 1, 0, 0}))
                           .run(table);
    check_near(grads[0], {0, 0, 0.75 * kLog3, kLog3});
    check_near(grads[1], {0.75});
    check_near(grads[2], {1.25});
  });
}

TEST_CASE("a query head reads the key/value head of its global index") {
  in_both_tables([](const KernelTable& table) {
    // H = 4, KV = 2, D = Dv = 1: heads 1 and 2, the middle part of three, read heads 0 and 1.
    const auto call = [&](TestOperand k, TestOperand v) {
      return KernelCall("attention", {{"group", std::int64_t{2}}})
          .input(f32({1, 1, 2, 1}, {3, 5}, {0, 0, 1, 0}))
          .input(std::move(k))
          .input(std::move(v))
          .output(f32({1, 1, 2, 1}, {}, {0, 0, 1, 0}))
          .output(f32({1, 1, 2}, {}, {0, 0, 1}))
          .run(table);
    };
    const auto results = call(f32({1, 1, 2, 1}, {1, 2}), f32({1, 1, 2, 1}, {4, 8}));
    check_near(results[0], {4, 8});
    check_near(results[1], {3 * 1, 5 * 2});
    // The head that query head 2 reads lies elsewhere.
    CHECK_THROWS_AS(call(f32({1, 1, 1, 1}, {1}), f32({1, 1, 1, 1}, {4})), Error);
  });
}

TEST_CASE("without causal every query sees every key, wherever both lie") {
  in_both_tables([](const KernelTable& table) {
    const Attributes attributes{{"causal", false}};
    // Position 0 of two, which would see key 0 alone: weights 1 : 3 and 1 : 1 as above.
    const TestOperand k = f32({1, 2, 1, 1}, {0, kLog3}), v = f32({1, 2, 1, 1}, {4, 8});
    const TestOperand q = f32({1, 1, 2, 1}, {1, 0});
    const auto results = KernelCall("attention", attributes)
                             .input(q)
                             .input(k)
                             .input(v)
                             .output(f32({1, 1, 2, 1}, {}))
                             .output(f32({1, 1, 2}, {}))
                             .run(table);
    check_near(results[0], {7, 6});
    check_near(results[1], {kLog4, kLog2});
    // Key 1 alone gives its share to position 0.
    const auto grads = KernelCall("attention_grad", attributes)
                           .input(q)
                           .input(f32({1, 1, 1, 1}, {kLog3}, {0, 1, 0, 0}))
                           .input(f32({1, 1, 1, 1}, {8}, {0, 1, 0, 0}))
                           .input(f32({1, 1, 2, 1}, {7, 6}))
                           .input(f32({1, 1, 2}, {kLog4, kLog2}))
                           .input(f32({1, 1, 2, 1}, {1, 1}))
                           .output(f32({1, 1, 2, 1}, {}))
                           .output(f32({1, 1, 1, 1}, {}, {0, 1, 0, 0}))
                           .output(f32({1, 1, 1, 1}, {}, {0, 1, 0, 0}))
                           .run(table);
    check_near(grads[0], {0.75 * kLog3, kLog3});
    check_near(grads[1], {0.75});
    check_near(grads[2], {1.25});
  });
}

TEST_CASE("values may be wider than keys") {
  in_both_tables([](const KernelTable& table) {
    // Equal scores: the mean of the rows [1, 2, 3] and [3, 4, 5].
    const auto results = KernelCall("attention", {})
                             .input(f32({1, 2, 1, 1}, {0, 0}))
                             .input(f32({1, 2, 1, 1}, {0, 0}))
                             .input(f32({1, 2, 1, 3}, {1, 2, 3, 3, 4, 5}))
                             .output(f32({1, 2, 1, 3}, {}))
                             .output(f32({1, 2, 1}, {}))
                             .run(table);
    check_near(results[0], {1, 2, 3, 2, 3, 4});
    check_near(results[1], {0, kLog2});
  });
}

}  // namespace
}  // namespace sextant::attention_kernels_test
