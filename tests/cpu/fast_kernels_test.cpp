// Fast kernels against the reference, over shapes that fill no vector and no block evenly.
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/shared/kernel.h"
#include "tests/cpu/fast_agreement.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace sextant::fast_kernels_test {
namespace {

TEST_CASE("the fast exponential is within 3e-7 of the real one, and zero far below") {
  double worst = 0;
  for (float x = -86.0F; x < 87.0F; x += 0.0137F) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(fast_exp(x)) / exact - 1.0));
  }
  CHECK(worst < 3e-7);
  CHECK(fast_exp(0.0F) == 1.0F);
  CHECK(fast_exp(-100.0F) == 0.0F);
  CHECK(fast_exp(-INFINITY) == 0.0F);
}

TEST_CASE("fast matrix products agree, accumulating or not") {
  for (const std::int64_t m : {1, 7}) {
    for (const std::int64_t k : {1, 33}) {
      for (const std::int64_t n : {1, 19}) {
        for (const bool transposed : {false, true}) {
          const Shape w = transposed ? Shape{n, k} : Shape{k, n};
          const Attributes attributes{{"transpose_w", transposed}};
          check_agrees("matmul", attributes, k, [&](KernelCall& call) {
            call.input(f32({m, k}, 1)).input(f32(w, 2)).output(f32({m, n}, 3), transposed);
          });
          check_agrees("matmul_grad_weight", attributes, m, [&](KernelCall& call) {
            call.input(f32({m, k}, 1)).input(f32({m, n}, 2)).output(f32(w, 3), !transposed);
          });
        }
      }
    }
  }
}

TEST_CASE("fast element-wise kernels agree") {
  const Shape shape{3, 37};
  const Attributes tanh_form{{"approximate", "tanh"}};
  for (const char* kind : {"gelu", "silu"}) {
    check_agrees(kind, tanh_form, 30,
                 [&](KernelCall& call) { call.input(f32(shape, 1)).output(f32(shape, 2)); });
    check_agrees(std::string(kind) + "_grad", tanh_form, 30, [&](KernelCall& call) {
      call.input(f32(shape, 1)).input(f32(shape, 2)).output(f32(shape, 3));
    });
  }
  for (const char* kind : {"add", "mul", "relu_grad"})
    check_agrees(kind, {}, 1, [&](KernelCall& call) {
      call.input(f32(shape, 1)).input(f32(shape, 2)).output(f32(shape, 3));
    });
  check_agrees("relu", {}, 1,
               [&](KernelCall& call) { call.input(f32(shape, 1)).output(f32(shape, 2)); });
  check_agrees("scale", {{"factor", -1.5}}, 1,
               [&](KernelCall& call) { call.input(f32(shape, 1)).output(f32(shape, 2)); });
  check_agrees("bias_add", {}, 1, [&](KernelCall& call) {
    call.input(f32(shape, 1)).input(f32({37}, 2)).output(f32(shape, 3));
  });
  for (const bool accumulate : {false, true})
    check_agrees("reduce_to_bias", {{"rank", std::int64_t{1}}}, 3, [&](KernelCall& call) {
      call.input(f32(shape, 1)).output(f32({37}, 2), accumulate);
    });
}

// Statistics as the forward kernel leaves them.
std::vector<std::vector<double>> normalized(const char* kind, const Shape& shape) {
  const std::int64_t n = shape[shape.rank() - 1];
  KernelCall call(kind, {{"epsilon", 1e-5}});
  call.input(f32(shape, 1)).input(f32({n}, 2));
  if (std::string(kind) == "layer_norm") call.input(f32({n}, 3));
  call.output(f32(shape, 4)).output(f32({shape[0]}, 5));
  if (std::string(kind) == "layer_norm") call.output(f32({shape[0]}, 6));
  return call.run(reference_kernels());
}

TEST_CASE("fast normalisation agrees, forward and both gradients") {
  for (const std::int64_t n : {1, 16, 45}) {
    const Shape shape{5, n};
    const auto layer = normalized("layer_norm", shape);
    const auto rms = normalized("rms_norm", shape);
    const auto statistic = [](const std::vector<double>& values) {
      return TestOperand{{{5}, DType::kF32}, values, {}};
    };
    check_agrees("layer_norm", {{"epsilon", 1e-5}}, 20 * n, [&](KernelCall& call) {
      call.input(f32(shape, 1)).input(f32({n}, 2)).input(f32({n}, 3));
      call.output(f32(shape, 4)).output(f32({5}, 5)).output(f32({5}, 6));
    });
    check_agrees("rms_norm", {{"epsilon", 1e-5}}, 20 * n, [&](KernelCall& call) {
      call.input(f32(shape, 1)).input(f32({n}, 2)).output(f32(shape, 4)).output(f32({5}, 5));
    });
    // One element: x = mean, rstd = 316; every error is multiplied by it.
    if (n == 1) continue;
    check_agrees("layer_norm_grad_input", {}, 50 * n, [&](KernelCall& call) {
      call.input(f32(shape, 1)).input(f32({n}, 2)).input(statistic(layer[1]));
      call.input(statistic(layer[2])).input(f32(shape, 7)).output(f32(shape, 8));
    });
    check_agrees("rms_norm_grad_input", {}, 50 * n, [&](KernelCall& call) {
      call.input(f32(shape, 1)).input(f32({n}, 2)).input(statistic(rms[1]));
      call.input(f32(shape, 7)).output(f32(shape, 8));
    });
    for (const bool accumulate : {false, true}) {
      check_agrees("layer_norm_grad_weight", {}, 50, [&](KernelCall& call) {
        call.input(f32(shape, 1)).input(statistic(layer[1])).input(statistic(layer[2]));
        call.input(f32(shape, 7)).output(f32({n}, 8), accumulate).output(f32({n}, 9), accumulate);
      });
      check_agrees("rms_norm_grad_weight", {}, 50, [&](KernelCall& call) {
        call.input(f32(shape, 1)).input(statistic(rms[1])).input(f32(shape, 7));
        call.output(f32({n}, 8), accumulate);
      });
    }
  }
}

TEST_CASE("fast attention agrees across block borders and with shared key heads") {
  // 64 query rows are a block: one row, a full block, blocks and a rest.
  for (const std::int64_t sequence : {1, 64, 131}) {
    for (const std::int64_t kv_heads : {1, 3}) {
      // One of both with queries that see every key.
      const Attributes seen{{"causal", kv_heads == 1}};
      const Shape q{2, sequence, 3, 5}, kv{2, sequence, kv_heads, 5}, rows{2, sequence, 3};
      check_agrees("attention", seen, sequence, [&](KernelCall& call) {
        call.input(f32(q, 1)).input(f32(kv, 2)).input(f32(kv, 3));
        call.output(f32(q, 4)).output(f32(rows, 5));
      });
      KernelCall forward("attention", seen);
      forward.input(f32(q, 1)).input(f32(kv, 2)).input(f32(kv, 3));
      forward.output(f32(q, 4)).output(f32(rows, 5));
      const auto results = forward.run(reference_kernels());
      check_agrees("attention_grad", seen, 20 * sequence, [&](KernelCall& call) {
        call.input(f32(q, 1)).input(f32(kv, 2)).input(f32(kv, 3));
        call.input({{q, DType::kF32}, results[0], {}});
        call.input({{rows, DType::kF32}, results[1], {}});
        call.input(f32(q, 6)).output(f32(q, 7)).output(f32(kv, 8)).output(f32(kv, 9));
      });
    }
  }
}

TEST_CASE("fast rotary positions agree") {
  const Shape shape{2, 9, 3, 6};
  const Attributes plain = {{"theta", 10000.0}}, linear = {{"theta", 100.0}, {"factor", 3.0}};
  const Attributes llama = {{"theta", 100.0},
                            {"factor", 8.0},
                            {"low_turns", 1.0},
                            {"high_turns", 4.0},
                            {"original_length", std::int64_t{64}}};
  for (const Attributes& attributes : {plain, linear, llama})
    check_agrees("rope", attributes, 4, [&](KernelCall& call) {
      TestOperand x = f32(shape, 1);
      x.offsets = {0, 5, 0, 0};
      call.input(x).output(f32(shape, 2));
    });
}

TEST_CASE("fast loss kernels agree") {
  const Shape shape{4, 53};
  TestOperand max{{{4}, DType::kF32}, {3, 3.5, 4, 2.5}, {}};
  TestOperand sum{{{4}, DType::kF32}, {6, 7, 3, 9}, {}};
  const TestOperand labels{{{4}, DType::kI32}, {0, 60, -100, 20}, {}};
  const auto shard = [&] {
    TestOperand x = f32(shape, 1);
    x.offsets = {0, 10};
    x.global = Shape{4, 63};
    return x;
  };
  check_agrees("row_max", {}, 0,
               [&](KernelCall& call) { call.input(shard()).output(f32({4}, 2)); });
  check_agrees("row_sum_exp", {}, 53,
               [&](KernelCall& call) { call.input(shard()).input(max).output(f32({4}, 2)); });
  check_agrees("pick", {}, 0,
               [&](KernelCall& call) { call.input(shard()).input(labels).output(f32({4}, 2)); });
  check_agrees("cross_entropy_grad", {}, 10, [&](KernelCall& call) {
    call.input(shard()).input(max).input(sum).input(labels);
    call.input({{Shape{}, DType::kF32}, {2}, {}}).output(f32(shape, 2));
  });
}

TEST_CASE("fast embedding and optimizer agree") {
  const TestOperand ids{{{5}, DType::kI32}, {4, 2, 9, 4, 3}, {}};
  TestOperand table = f32({4, 7}, 1);
  table.offsets = {2, 0};
  table.global = Shape{10, 7};
  check_agrees("embedding", {}, 0, [&](KernelCall& call) {
    call.input(ids).input(table).output(f32({5, 7}, 2));
  });
  for (const bool accumulate : {false, true})
    check_agrees("embedding_grad", {}, 5, [&](KernelCall& call) {
      call.input(ids).input(f32({5, 7}, 3)).output(table, accumulate);
    });
  for (const bool nesterov : {false, true})
    check_agrees(
        "momentum",
        {{"learning_rate", 0.01}, {"momentum", 0.9}, {"weight_decay", 0.1}, {"nesterov", nesterov}},
        10, [&](KernelCall& call) {
          call.input(f32({37}, 1)).input({{{2}, DType::kF64}, {1.0 / 17.0, 1.0}, {}});
          call.output(f32({37}, 2)).output(f32({37}, 3));
          call.output({{Shape{}, DType::kI64}, {4}, {}});
        });
  check_agrees("sgd", {{"learning_rate", 0.01}, {"weight_decay", 0.1}}, 10, [&](KernelCall& call) {
    call.input(f32({37}, 1)).input({{{2}, DType::kF64}, {1.0 / 17.0, 1.0}, {}});
    call.output(f32({37}, 2)).output({{Shape{}, DType::kI64}, {4}, {}});
  });
  const Attributes attributes{{"learning_rate", 0.01}, {"beta1", 0.9},        {"beta2", 0.95},
                              {"epsilon", 1e-8},       {"weight_decay", 0.1}, {"parameter", "w"}};
  TestOperand second_moment = f32({37}, 4);
  for (double& value : second_moment.values) value = std::abs(value);
  for (const DType gradient : {DType::kF32, DType::kBF16, DType::kF16})
    check_agrees("adamw", attributes, 10, [&](KernelCall& call) {
      TestOperand g = f32({37}, 1);
      g.type.dtype = gradient;
      call.input(g).input({{{2}, DType::kF64}, {1.0 / 17.0, 1.0}, {}});
      call.output(f32({37}, 2)).output(f32({37}, 3)).output(second_moment);
      call.output({{Shape{}, DType::kI64}, {4}, {}});
    });
}

}  // namespace
}  // namespace sextant::fast_kernels_test
