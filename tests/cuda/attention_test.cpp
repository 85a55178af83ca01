// Attention on a GPU against the CPU's reference in f64 on the same rounded inputs, every kernel
// that serves it.
#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/kernels/attention/attention_call.h"
#include "backends/cuda/kernels/attention/attention_cudnn.h"
#include "backends/cuda/kernels/attention/attention_graphs.h"
#include "tests/cuda/device_call.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace sextant::attention_test {
namespace {

struct Path {
  const char* name;
  CudaKernelTable::Make forward, backward;
};

const std::vector<Path> kPaths = {
    {"general", make_general_attention, make_general_attention_grad},
    {"tensor", make_tensor_attention, make_tensor_attention_grad},
    {"cuDNN", make_cudnn_attention, make_cudnn_attention_grad},
};

struct Case {
  std::int64_t batch, queries, keys, heads, kv_heads, size, value_size;
  std::int64_t first_query = 0, first_key = 0;
  std::int64_t chunks = 0, chunk = 0, shift = 0;
  bool accumulate = false;
  bool causal = true;

  bool is_chunked() const { return chunk != 0; }
  std::int64_t group() const { return heads / kv_heads; }
  // Said as the operator says it, of global positions.
  bool sees(std::int64_t s, std::int64_t t) const {
    const std::int64_t query = first_query + s, key = first_key + t;
    if (!is_chunked()) return !causal || key <= query;
    if (query / chunk != key / chunk || (causal && query / chunk < shift)) return false;
    return !causal || shift > 0 || key <= query;
  }
  Attributes attributes() const {
    Attributes said;
    if (is_chunked()) said = {{"chunks", chunks}, {"chunk", chunk}, {"shift", shift}};
    if (!causal) said.set("causal", false);
    return said;
  }
};

// Half a unit in the last place, relative.
double roundoff(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kF32:
      return 0x1p-24;
    case DType::kF16:
      return 0x1p-11;
    default:
      return 0x1p-8;
  }
}

// What rounding takes from numbers below the normal ones.
double lost_below(DType dtype) { return dtype == DType::kF16 ? 0x1p-25 : 0; }

// Uniform in [-range, range), rounded to the dtype.
std::vector<double> values(std::int64_t count, DType dtype, std::uint64_t seed, double range = 1) {
  std::vector<double> result(static_cast<std::size_t>(count));
  std::uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (double& value : result) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    value = range * (static_cast<double>(state >> 11U) * 0x1p-52 - 1);
  }
  std::vector<std::byte> bytes(result.size() * static_cast<std::size_t>(size_of(dtype).value));
  store_from_double(dtype, result, bytes.data());
  load_as_double(dtype, bytes.data(), result);
  return result;
}

// Operands of a case; types of the device beside those of the oracle, which are f64.
struct Problem {
  Case shape;
  DType dtype, wide;
  Shape q_shape, k_shape, v_shape, o_shape, lse_shape;
  std::vector<double> q, k, v, o, lse, d_o, before_o, before_lse, before_dq, before_dk, before_dv;

  Problem(const Case& c, DType dtype)
      : shape(c),
        dtype(dtype),
        wide(dtype == DType::kF64 ? DType::kF64 : DType::kF32),
        q_shape{c.batch, c.queries, c.heads, c.size},
        k_shape{c.batch, c.keys, c.kv_heads, c.size},
        v_shape{c.batch, c.keys, c.kv_heads, c.value_size},
        o_shape{c.batch, c.queries, c.heads, c.value_size},
        lse_shape{c.batch, c.queries, c.heads} {
    // Scores of a few units, so that probabilities differ.
    q = values(q_shape.elements(), dtype, 1, 2);
    k = values(k_shape.elements(), dtype, 2, 2);
    v = values(v_shape.elements(), dtype, 3);
    d_o = values(o_shape.elements(), dtype, 4);
    if (c.accumulate) {
      before_o = values(o_shape.elements(), out_type(), 5);
      before_lse = values(lse_shape.elements(), wide, 6);
      before_dq = values(q_shape.elements(), out_type(), 7);
      before_dk = values(k_shape.elements(), out_type(), 8);
      before_dv = values(v_shape.elements(), out_type(), 9);
    }
    const auto forward = oracle_forward(false);
    o = rounded(forward[0], dtype);
    lse = rounded(forward[1], wide);
    // A whole that the chunks are part of has seen something in every row.
    for (double& value : lse)
      if (std::isinf(value)) value = 3;
  }

  DType out_type() const { return shape.is_chunked() ? wide : dtype; }

  static std::vector<double> rounded(std::vector<double> values, DType dtype) {
    std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_of(dtype).value));
    store_from_double(dtype, values, bytes.data());
    load_as_double(dtype, bytes.data(), values);
    return values;
  }

  template <typename Call>
  void give_forward(Call& call, DType in, DType out, DType lse_type, bool accumulate) const {
    const std::vector<std::int64_t> at_q{0, shape.first_query, 0, 0},
        at_k{0, shape.first_key, 0, 0};
    const std::vector<double> none;
    call.input({{q_shape, in}, q, at_q})
        .input({{k_shape, in}, k, at_k})
        .input({{v_shape, in}, v, at_k});
    call.output({{o_shape, out}, accumulate ? before_o : none}, accumulate);
    call.output({{lse_shape, lse_type}, accumulate ? before_lse : none}, accumulate);
  }
  template <typename Call>
  void give_backward(Call& call, DType in, DType out, DType lse_type, bool accumulate) const {
    const std::vector<std::int64_t> at_q{0, shape.first_query, 0, 0},
        at_k{0, shape.first_key, 0, 0};
    const std::vector<double> none;
    call.input({{q_shape, in}, q, at_q})
        .input({{k_shape, in}, k, at_k})
        .input({{v_shape, in}, v, at_k});
    call.input({{o_shape, in}, o}).input({{lse_shape, lse_type}, lse}).input({{o_shape, in}, d_o});
    call.output({{q_shape, out}, accumulate ? before_dq : none}, accumulate);
    call.output({{k_shape, out}, accumulate ? before_dk : none}, accumulate);
    call.output({{v_shape, out}, accumulate ? before_dv : none}, accumulate);
  }

  std::string kind() const { return shape.is_chunked() ? "attention_chunks" : "attention"; }

  std::vector<std::vector<double>> oracle_forward(bool accumulate) const {
    KernelCall call(kind(), shape.attributes());
    give_forward(call, DType::kF64, DType::kF64, DType::kF64, accumulate);
    return call.run(reference_kernels());
  }
  std::vector<std::vector<double>> oracle_backward() const {
    KernelCall call(kind() + "_grad", shape.attributes());
    give_backward(call, DType::kF64, DType::kF64, DType::kF64, shape.accumulate);
    return call.run(reference_kernels());
  }
};

// How far results may be from the oracle. Scores are sums of `size` products in f32 (f64), each
// with an error of at most (size + 3) u S where S is the sum of magnitudes; a probability is off by
// twice that, relatively, and by its own rounding when it meets the tensor cores in 16 bits. What
// is summed after that is a sum of magnitudes times the relative error of each, plus the rounding
// of the result and of one intermediate result (heads of a group), and in f16 what is lost below
// its normal numbers.
struct Bounds {
  std::vector<double> o, lse, dq, dk, dv;

  Bounds(const Problem& x, bool is_grad) {
    const Case& c = x.shape;
    const double wide = roundoff(x.wide), narrow = std::max(roundoff(x.dtype), 4 * wide);
    const double out = roundoff(x.out_type()), lost = lost_below(x.dtype);
    const double scale = 1 / std::sqrt(static_cast<double>(c.size));
    const auto at = [](std::int64_t index) { return static_cast<std::size_t>(index); };
    o.resize(x.o.size());
    lse.resize(x.lse.size());
    dq.resize(x.q.size());
    dk.resize(x.k.size());
    dv.resize(x.v.size());
    const double terms =
        static_cast<double>(c.size + c.value_size + c.keys + c.queries * c.group());
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t s = 0; s < c.queries; ++s)
        for (std::int64_t h = 0; h < c.heads; ++h) {
          const std::int64_t row = (b * c.queries + s) * c.heads + h, kv = h / c.group();
          double delta = 0, off = 0;
          for (std::int64_t d = 0; d < c.value_size; ++d)
            delta += std::abs(x.o[at(row * c.value_size + d)] * x.d_o[at(row * c.value_size + d)]);
          for (std::int64_t t = 0; t < c.keys; ++t) {
            if (!c.sees(s, t)) continue;
            const std::int64_t key = (b * c.keys + t) * c.kv_heads + kv;
            double score = 0, magnitude = 0, dp = 0;
            for (std::int64_t d = 0; d < c.size; ++d) {
              const double product = x.q[at(row * c.size + d)] * x.k[at(key * c.size + d)];
              score += scale * product;
              magnitude += scale * std::abs(product);
            }
            const double score_off = (static_cast<double>(c.size) + 3) * wide * magnitude +
                                     4 * wide * std::abs(x.lse[at(row)]);
            off = std::max(off, score_off);
            // Exponentials by the fast instruction are good to 2^-21.
            const double relative =
                2 * score_off + narrow + terms * wide + (x.wide == DType::kF32 ? 0x1p-21 : 0);
            const double p = std::exp(score - x.lse[at(row)]) * (relative + out) + lost;
            for (std::int64_t d = 0; d < c.value_size; ++d) {
              o[at(row * c.value_size + d)] += p * std::abs(x.v[at(key * c.value_size + d)]);
              if (!is_grad) continue;
              const double g = std::abs(x.d_o[at(row * c.value_size + d)]);
              dp += g * std::abs(x.v[at(key * c.value_size + d)]);
              dv[at(key * c.value_size + d)] += p * g;
            }
            if (!is_grad) continue;
            const double ds = scale * p * (dp + delta) + lost;
            for (std::int64_t d = 0; d < c.size; ++d) {
              dq[at(row * c.size + d)] += ds * std::abs(x.k[at(key * c.size + d)]);
              dk[at(key * c.size + d)] += ds * std::abs(x.q[at(row * c.size + d)]);
            }
          }
          lse[at(row)] = off + 8 * wide * (1 + std::abs(x.lse[at(row)])) +
                         (x.wide == DType::kF32 ? 0x1p-20 : 0);
        }
  }
};

// The largest excess over the bound; rounding of the result itself comes on top.
double worst(const std::vector<double>& got, const std::vector<double>& wanted,
             const std::vector<double>& bounds, DType dtype) {
  double worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::isinf(wanted[i]) && got[i] == wanted[i]) continue;
    const double bound =
        bounds[i] + 2 * roundoff(dtype) * std::abs(wanted[i]) + 2 * lost_below(dtype) + 1e-30;
    const double ratio = std::abs(got[i] - wanted[i]) / bound;
    worst = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : std::max(worst, ratio);
  }
  return worst;
}

// Returns whether the path serves the case.
bool check_forward(const Problem& x, const Path& path) {
  CudaContext device(CudaOptions{});
  DeviceCall call(x.kind(), x.shape.attributes());
  x.give_forward(call, x.dtype, x.out_type(), x.wide, x.shape.accumulate);
  const auto kernel = call.kernel(path.forward, device);
  if (kernel == nullptr) return false;
  kernel->enqueue(nullptr);
  const auto got = call.results();
  const auto wanted = x.oracle_forward(x.shape.accumulate);
  const Bounds bounds(x, false);
  CHECK(worst(got[0], wanted[0], bounds.o, x.out_type()) <= 1);
  CHECK(worst(got[1], wanted[1], bounds.lse, x.wide) <= 1);
  CHECK(call.is_guarded());
  return true;
}

bool check_backward(const Problem& x, const Path& path, bool deterministic) {
  CudaOptions options;
  options.deterministic = deterministic;
  CudaContext device(options);
  DeviceCall call(x.kind() + "_grad", x.shape.attributes());
  x.give_backward(call, x.dtype, x.out_type(), x.wide, x.shape.accumulate);
  const auto kernel = call.kernel(path.backward, device);
  if (kernel == nullptr) return false;
  kernel->enqueue(nullptr);
  const auto got = call.results();
  const auto wanted = x.oracle_backward();
  const Bounds bounds(x, true);
  const DType out = x.out_type();
  CHECK(worst(got[0], wanted[0], bounds.dq, out) <= 1);
  CHECK(worst(got[1], wanted[1], bounds.dk, out) <= 1);
  CHECK(worst(got[2], wanted[2], bounds.dv, out) <= 1);
  CHECK(call.is_guarded());
  return true;
}

const std::vector<Case> kCases = {
    {1, 1, 1, 1, 1, 64, 64},
    {2, 5, 5, 3, 3, 64, 64},
    {1, 64, 64, 2, 2, 64, 64},
    {2, 77, 77, 4, 2, 32, 32},
    {1, 127, 127, 6, 2, 72, 72},
    {1, 129, 129, 4, 1, 128, 128},
    {1, 300, 300, 2, 2, 96, 96},
    {1, 65, 65, 2, 1, 256, 256},
    {1, 33, 33, 2, 2, 160, 64},
    {1, 40, 40, 2, 2, 5, 3},  // nothing is a multiple of anything
    {1, 41, 41, 3, 3, 1, 7},
    {1, 37, 37, 2, 1, 300, 8},  // heads in chunks of columns
    {1, 37, 37, 2, 2, 8, 600},
    {1, 37, 37, 2, 1, 520, 264, 0, 0, 0, 0, 0, true},
    {2, 50, 170, 2, 2, 64, 64, 120},    // queries of the last of three parts
    {1, 64, 192, 4, 2, 128, 128, 64},   // of the second; keys that nobody sees
    {1, 130, 70, 2, 2, 64, 64, 0, 60},  // keys of the last part: many queries see none
    {1, 96, 96, 2, 2, 64, 64, 0, 0, 3, 32, 0},
    {1, 96, 96, 2, 1, 64, 64, 0, 0, 3, 32, 1},
    {1, 70, 70, 2, 1, 40, 24, 35, 35, 4, 35, 2},
    {1, 70, 70, 2, 2, 64, 64, 0, 0, 0, 0, 0, true},
    {1, 70, 70, 2, 1, 64, 64, 0, 0, 2, 35, 1, true},
    // Every key is seen: no tile whole, some whole, fewer keys than queries and more, parts of
    // both.
    {2, 1, 1, 2, 2, 64, 64, 0, 0, 0, 0, 0, false, false},
    {1, 63, 63, 4, 2, 64, 64, 0, 0, 0, 0, 0, false, false},
    {1, 100, 100, 2, 2, 40, 24, 0, 0, 0, 0, 0, false, false},
    {1, 50, 170, 2, 1, 64, 64, 0, 0, 0, 0, 0, false, false},
    {1, 130, 70, 2, 2, 128, 64, 0, 60, 0, 0, 0, false, false},
    {1, 256, 256, 2, 2, 64, 64, 0, 0, 0, 0, 0, true, false},
    {1, 96, 96, 2, 2, 64, 64, 0, 0, 3, 32, 0, false, false},
    {1, 96, 96, 2, 1, 64, 64, 0, 0, 3, 32, 2, false, false},
    {1, 70, 70, 2, 1, 40, 24, 35, 35, 4, 35, 2, true, false},
};

}  // namespace

TEST_CASE("attention equals the reference within its bound, by every kernel that serves it" *
          doctest::skip(!has_gpu())) {
  for (const Case& c : kCases)
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
      const Problem problem(c, dtype);
      for (const Path& path : kPaths) {
        const std::string text = fmt::format(
            "{}: {} [{}, {} from {}, {}, {}] over [{} from {}, {}, {}], chunks {} x {} by {}{}{}",
            path.name, to_string(dtype), c.batch, c.queries, c.first_query, c.heads, c.size, c.keys,
            c.first_key, c.kv_heads, c.value_size, c.chunks, c.chunk, c.shift,
            c.accumulate ? ", accumulated" : "", c.causal ? "" : ", all keys");
        CAPTURE(text);
        const bool serves = check_forward(problem, path);
        const bool serves_grad = check_backward(problem, path, false);
        if (check_backward(problem, path, true)) CHECK(serves_grad);
        if (&path == &kPaths[0]) CHECK((serves && serves_grad));
        if (&path == &kPaths[1] && roundoff(dtype) > 0x1p-24 &&
            c.size % 8 + c.value_size % 8 == 0 && std::max(c.size, c.value_size) <= kMostHeadSize)
          CHECK((serves && serves_grad));
      }
    }
}

TEST_CASE("cuDNN serves the attention of GPT-2, Llama and BERT where the build has it" *
          doctest::skip(!has_gpu())) {
#ifdef SEXTANT_HAS_CUDNN
  for (const Case& c : std::vector<Case>{{2, 128, 128, 4, 4, 64, 64},
                                         {1, 256, 256, 8, 2, 128, 128},
                                         {2, 128, 128, 4, 4, 64, 64, 0, 0, 0, 0, 0, false, false},
                                         {1, 512, 512, 2, 2, 64, 64, 0, 0, 0, 0, 0, false, false}})
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const Problem problem(c, dtype);
      CHECK(check_forward(problem, kPaths[2]));
      CHECK(check_backward(problem, kPaths[2], false));
      CHECK(check_backward(problem, kPaths[2], true));
    }
#endif
}

// By their bits: the kernels sum in other orders, and probabilities meet the tensor cores rounded.
TEST_CASE("attention in 16 bits that cuDNN does not serve runs on tensor cores, both ways" *
          doctest::skip(!has_gpu())) {
  const auto results = [](const Problem& x, CudaKernelTable::Make make, bool is_grad) {
    CudaContext device(CudaOptions{});
    DeviceCall call(x.kind() + (is_grad ? "_grad" : ""), x.shape.attributes());
    if (is_grad)
      x.give_backward(call, x.dtype, x.out_type(), x.wide, x.shape.accumulate);
    else
      x.give_forward(call, x.dtype, x.out_type(), x.wide, x.shape.accumulate);
    const auto kernel = call.kernel(make, device);
    REQUIRE(kernel != nullptr);
    kernel->enqueue(nullptr);
    return call.results();
  };
  const CudaKernelTable::Make preferred = [](const KernelContext& call, CudaContext& device) {
    return cuda_kernels().make(call, device);
  };
  for (const Case& c : std::vector<Case>{{2, 77, 77, 4, 2, 32, 32},  // short heads
                                         {1, 96, 96, 2, 1, 64, 64, 0, 0, 3, 32, 1},
                                         {1, 70, 70, 2, 2, 64, 64, 0, 0, 0, 0, 0, true}})
    for (const DType dtype : {DType::kBF16, DType::kF16})
      for (const bool is_grad : {false, true}) {
        const Problem problem(c, dtype);
        const auto found = results(problem, preferred, is_grad);
        const auto path = [&](const Path& of) { return is_grad ? of.backward : of.forward; };
        CHECK(found == results(problem, path(kPaths[1]), is_grad));
        CHECK(found != results(problem, path(kPaths[0]), is_grad));
      }
}

#ifdef SEXTANT_HAS_CUDNN
TEST_CASE("graphs of attention are made of operations that cuDNN accepts, without a GPU") {
  for (const cudnnDataType_t type : {CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF})
    for (const std::int64_t kv_heads : {8, 2, 1})
      for (const std::int64_t ahead : {0, 70}) {
        const bool causal = ahead == 0;  // else all keys are seen
        const AttentionProblem problem{
            type, 2, 77, 77 + ahead, 8, kv_heads, 128, 64, causal ? 0 : ahead, causal, 0.1F};
        CHECK_NOTHROW(AttentionForward(problem).graph.check());
        for (const bool sums_in_order : {false, true})
          CHECK_NOTHROW(AttentionBackward(problem, sums_in_order).graph.check());
      }
}
#endif

TEST_CASE("attention over nothing is zero, and its log-sum-exp minus infinity" *
          doctest::skip(!has_gpu())) {
  const Case c{1, 3, 0, 2, 2, 8, 8};
  const Problem problem(c, DType::kF32);
  CHECK(check_forward(problem, kPaths[0]));
  CHECK(check_backward(problem, kPaths[0], true));
  const Problem empty({0, 3, 3, 2, 2, 8, 8}, DType::kBF16);
  CHECK(check_forward(empty, kPaths[0]));
  CHECK(check_backward(empty, kPaths[0], true));
}

TEST_CASE("the gradient of attention has the same bits in every deterministic run" *
          doctest::skip(!has_gpu())) {
  const Problem x({2, 300, 300, 4, 2, 64, 64}, DType::kBF16);
  CudaOptions options;
  options.deterministic = true;
  for (const Path& path : kPaths) {
    CudaContext device(options);
    DeviceCall call("attention_grad", {});
    x.give_backward(call, x.dtype, x.dtype, x.wide, false);
    const auto kernel = call.kernel(path.backward, device);
    if (kernel == nullptr) continue;
    kernel->enqueue(nullptr);
    const auto first = call.results();
    for (int run = 0; run < 10; ++run) {
      kernel->enqueue(nullptr);
      CHECK(call.results() == first);
    }
  }
}

}  // namespace sextant::attention_test
