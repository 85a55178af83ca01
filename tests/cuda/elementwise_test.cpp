// Element-wise kernels where values are odd: infinities, NaN, zeros of both signs, ties, ends of
// integer ranges, bytes of bool that are not 1; sums over rows; casts together; large tensors.
#include "backends/cpu/kernels/shared/maps.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/pointwise/strided_operands.h"
#include "tests/cuda/call_on_both.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace sextant::elementwise_test {
namespace {

using Numbers = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr DType kFloating[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

// Ties of `round`, ends of f16 and f32, halfway to the next bf16, subnormals.
const Numbers kSpecial = {0.0,     -0.0,    1.0,      -1.0,     kInfinity, -kInfinity, kNaN,
                          0.5,     1.5,     2.5,      -0.5,     -1.5,      -2.5,       65504.0,
                          65519.0, 65520.0, -65520.0, 3e38,     -3e38,     1e-7,       6e-8,
                          2e-8,    1e-40,   -1e-40,   1.001953, 1.005859,  0x1p-133,   12.0,
                          -12.0,   100.25,  -88.75,   1.0 / 3,  -20.0};

// All pairs of a list: the first member of each, the second of each.
std::array<Numbers, 2> pairs(const Numbers& values) {
  std::array<Numbers, 2> both;
  for (const double a : values)
    for (const double b : values) {
      both[0].push_back(a);
      both[1].push_back(b);
    }
  return both;
}

// Runs a call on both sides.
struct Twin {
  std::vector<std::unique_ptr<TwinTensor>> in;
  std::unique_ptr<TwinTensor> out;

  Twin(const std::string& kind, const Attributes& attributes,
       const std::vector<std::pair<TensorType, Numbers>>& inputs, const TensorType& output,
       bool accumulate = false, const Numbers& before = {}, std::size_t misalignment = 0) {
    CudaContext device(CudaOptions{});
    std::vector<TwinTensor*> pointers;
    for (const auto& [type, values] : inputs) {
      in.push_back(std::make_unique<TwinTensor>(type, values, misalignment));
      pointers.push_back(in.back().get());
    }
    const auto count = static_cast<std::size_t>(output.shape.elements());
    out = std::make_unique<TwinTensor>(output, before.empty() ? Numbers(count, 7.0) : before,
                                       misalignment);
    TwinCall call(kind, attributes, pointers, {out.get()}, accumulate);
    for (const auto& kernel : cuda_kernels().make_all(std::vector{call.for_device()}, device))
      kernel->enqueue(nullptr);
    call.run_reference();
  }
};

bool is_same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

Shape line(const Numbers& values) { return Shape{static_cast<std::int64_t>(values.size())}; }

struct Named {
  const char* kind;
  Attributes attributes = {};
};

// Functions whose f32 result is the correctly rounded one, so that nothing may differ.
const std::vector<Named> kExactOfOne = {{"abs"},
                                        {"neg"},
                                        {"sign"},
                                        {"square"},
                                        {"relu"},
                                        {"floor"},
                                        {"round"},
                                        {"sqrt"},
                                        {"reciprocal"},
                                        {"add_scalar", {{"value", 0.5}}},
                                        {"clamp", {{"min", -1.5}, {"max", 2.0}}},
                                        {"scale", {{"factor", -0.75}}}};
const std::vector<Named> kExactOfTwo = {
    {"add"},     {"sub"},     {"mul"},       {"div"},
    {"maximum"}, {"minimum"}, {"relu_grad"}, {"clamp_grad", {{"min", 1.0 / 3}, {"max", 12.0}}}};
const char* const kComparisons[] = {"equal",      "not_equal", "less",
                                    "less_equal", "greater",   "greater_equal"};
const std::vector<Named> kCurvesOfOne = {{"exp"},
                                         {"log"},
                                         {"rsqrt"},
                                         {"tanh"},
                                         {"sigmoid"},
                                         {"silu"},
                                         {"gelu", {{"approximate", "tanh"}}},
                                         {"gelu", {{"approximate", "none"}}},
                                         {"pow", {{"exponent", 3.0}}},
                                         {"pow", {{"exponent", -0.5}}},
                                         {"pow", {{"exponent", 1.5}}}};

// Close by 2^-18 of f32, a unit of 16 bits; infinities and NaN equal. In f64 the reference itself
// loses 1e-16 where 1 + tanh cancels.
bool is_close(double found, double wanted, DType dtype) {
  if (std::isnan(wanted) || std::isinf(wanted)) return is_same(found, wanted);
  const double unit = dtype == DType::kBF16  ? 0x1p-7
                      : dtype == DType::kF16 ? 0x1p-10
                      : dtype == DType::kF32 ? 0x1p-18
                                             : 0x1p-44;
  const double tiny = dtype == DType::kF16 ? 0x1p-23 : dtype == DType::kF64 ? 1e-14 : 0x1p-120;
  return std::abs(found - wanted) <= unit * std::abs(wanted) + tiny;
}

void check_all(const Twin& twin, const auto& agrees) {
  const Numbers found = twin.out->device_values(), wanted = twin.out->host_values();
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    for (const auto& in : twin.in) CAPTURE(in->host_values()[i % in->host_values().size()]);
    CHECK_MESSAGE(agrees(found[i], wanted[i]), "found ", found[i], ", wanted ", wanted[i]);
  }
}

}  // namespace

TEST_CASE("merged strides visit the elements that stretched operands repeat") {
  const std::vector<std::vector<Shape>> cases = {
      {{5, 2}, {5, 2}, {2}},          {{3, 4}, {3, 4}, {}},
      {{2, 3, 5}, {3, 1}, {2, 1, 5}}, {{2, 3, 4, 5}, {4, 5}, {3, 1, 1}},
      {{1, 1}, {1, 1}, {}},           {{}, {}, {}},
      {{2, 1, 3}, {2, 1, 1}, {1, 3}}, {{4, 1, 1, 2}, {2}, {4, 1, 1, 1}}};
  for (const std::vector<Shape>& shapes : cases) {
    const Shape& output = shapes[0];
    CAPTURE(to_string(output));
    std::vector<std::vector<std::int64_t>> strides;
    for (std::size_t i = 1; i < shapes.size(); ++i)
      strides.push_back(stretched_strides(shapes[i], output));
    const Strides merged = merged_strides(output, strides);
    for (std::size_t operand = 1; operand < shapes.size(); ++operand) {
      const StretchedIndex wanted(shapes[operand], output);
      for (std::int64_t i = 0; i < output.elements(); ++i) {
        std::int64_t rest = i, at = 0;
        for (int dim = 0; dim < merged.dims; ++dim) {
          at += rest % merged.extents[dim] * merged.strides[operand - 1][dim];
          rest /= merged.extents[dim];
        }
        CHECK(at == static_cast<std::int64_t>(wanted[static_cast<std::size_t>(i)]));
      }
    }
  }
  const std::vector<std::int64_t> row = stretched_strides({7}, {3, 5, 7});
  CHECK(merged_strides({3, 5, 7}, std::vector<std::vector<std::int64_t>>{row}).dims == 2);
  const std::vector<std::int64_t> all = stretched_strides({3, 5, 7}, {3, 5, 7});
  CHECK(merged_strides({3, 5, 7}, std::vector<std::vector<std::int64_t>>{all, all}).dims == 1);
}

TEST_CASE("element-wise kernels give the reference's special values, signs of zero included" *
          doctest::skip(!has_gpu())) {
  for (const DType dtype : kFloating) {
    CAPTURE(std::string(to_string(dtype)));
    for (const Named& function : kExactOfOne) {
      CAPTURE(function.kind);
      const TensorType type{line(kSpecial), dtype};
      check_all(Twin(function.kind, function.attributes, {{type, kSpecial}}, type), is_same);
    }
    const auto [a, b] = pairs(kSpecial);
    const TensorType type{line(a), dtype};
    for (const Named& function : kExactOfTwo) {
      CAPTURE(function.kind);
      check_all(Twin(function.kind, function.attributes, {{type, a}, {type, b}}, type), is_same);
    }
    for (const char* kind : kComparisons) {
      CAPTURE(kind);
      const TensorType flags{type.shape, DType::kBool};
      check_all(Twin(kind, {}, {{type, a}, {type, b}}, flags), is_same);
    }
    for (const char* kind : {"maximum_grad", "minimum_grad"})
      check_all(Twin(kind, {}, {{type, a}, {type, b}, {type, Numbers(a.size(), 3.0)}}, type),
                is_same);
  }
}

TEST_CASE("curved functions have the reference's limits" * doctest::skip(!has_gpu())) {
  for (const DType dtype : kFloating) {
    CAPTURE(std::string(to_string(dtype)));
    const auto close = [dtype](double a, double b) { return is_close(a, b, dtype); };
    const TensorType type{line(kSpecial), dtype};
    for (const Named& function : kCurvesOfOne) {
      CAPTURE(function.kind);
      check_all(Twin(function.kind, function.attributes, {{type, kSpecial}}, type), close);
    }
    for (const char* form : {"tanh", "none"}) {
      CAPTURE(form);
      // Where the slope crosses zero (x = -0.75) it is a difference of terms of its size; these x
      // are not near.
      check_all(Twin("gelu_grad", {{"approximate", form}},
                     {{type, kSpecial}, {type, Numbers(kSpecial.size(), 1.0)}}, type),
                close);
    }
    check_all(
        Twin("silu_grad", {}, {{type, kSpecial}, {type, Numbers(kSpecial.size(), 1.0)}}, type),
        close);
  }
}

TEST_CASE("integers are exact and saturate at the ends of their range" *
          doctest::skip(!has_gpu())) {
  __extension__ using Wide = __int128;
  const auto check = [](auto zero, DType dtype) {
    using Integer = decltype(zero);
    using Limits = std::numeric_limits<Integer>;
    std::vector<Integer> values = {0,
                                   1,
                                   -1,
                                   2,
                                   -2,
                                   7,
                                   -7,
                                   1000003,
                                   Limits::max(),
                                   Limits::lowest(),
                                   Limits::max() - 1,
                                   Limits::lowest() + 1};
    const auto count = static_cast<std::int64_t>(values.size() * values.size());
    const TensorType type{Shape{count}, dtype};
    const Numbers zeros(static_cast<std::size_t>(count), 0.0);
    TwinTensor a(type, zeros), b(type, zeros), out(type, zeros);
    std::vector<Integer> as, bs;
    for (const Integer x : values)
      for (const Integer y : values) {
        as.push_back(x);
        bs.push_back(y);
      }
    const std::size_t bytes = as.size() * sizeof(Integer);
    SEXTANT_CUDA(cudaMemcpy(a.on_device().data, as.data(), bytes, cudaMemcpyHostToDevice));
    SEXTANT_CUDA(cudaMemcpy(b.on_device().data, bs.data(), bytes, cudaMemcpyHostToDevice));
    CudaContext device(CudaOptions{});
    const auto run = [&](const char* kind, const std::vector<TwinTensor*>& in, const auto& oracle,
                         const Attributes& attributes = {}) {
      CAPTURE(kind);
      const TwinCall call(kind, attributes, in, {&out});
      cuda_kernels().make(call.for_device(), device)->enqueue(nullptr);
      const std::vector<std::byte> found = out.device_bytes();
      const auto* results = reinterpret_cast<const Integer*>(found.data());
      for (std::size_t i = 0; i < as.size(); ++i) {
        CAPTURE(as[i]);
        CAPTURE(bs[i]);
        const Wide wanted =
            std::clamp<Wide>(oracle(Wide{as[i]}, Wide{bs[i]}), Limits::lowest(), Limits::max());
        CHECK(results[i] == static_cast<Integer>(wanted));
      }
    };
    const Wide beyond = Wide{1} << 100;
    run("add", {&a, &b}, [](Wide x, Wide y) { return x + y; });
    run("sub", {&a, &b}, [](Wide x, Wide y) { return x - y; });
    run("mul", {&a, &b}, [](Wide x, Wide y) { return x * y; });
    run("div", {&a, &b}, [beyond](Wide x, Wide y) {
      return y != 0 ? x / y : x > 0 ? beyond : x < 0 ? -beyond : 0;
    });
    run("maximum", {&a, &b}, [](Wide x, Wide y) { return std::max(x, y); });
    run("minimum", {&a, &b}, [](Wide x, Wide y) { return std::min(x, y); });
    run("abs", {&a}, [](Wide x, Wide) { return x < 0 ? -x : x; });
    run("neg", {&a}, [](Wide x, Wide) { return -x; });
    run("sign", {&a}, [](Wide x, Wide) { return Wide{x > 0} - Wide{x < 0}; });
    run("square", {&a}, [](Wide x, Wide) { return x * x; });
    run("relu", {&a}, [](Wide x, Wide) { return x > 0 ? x : 0; });
    run("add_scalar", {&a}, [](Wide x, Wide) { return x - 5; }, {{"value", -5.0}});
    run("clamp", {&a}, [](Wide x, Wide) { return std::clamp<Wide>(x, -2, 1000); },
        {{"min", -2.0}, {"max", 1000.0}});
    run("clamp", {&a}, [](Wide x, Wide) { return std::max<Wide>(x, -2); }, {{"min", -2.0}});
  };
  check(std::int32_t{}, DType::kI32);
  check(std::int64_t{}, DType::kI64);
}

TEST_CASE("casts between all types give the reference's bits, overflow and NaN included" *
          doctest::skip(!has_gpu())) {
  Numbers values = kSpecial;
  for (const double value : {2147483647.0, -2147483648.0, 4e9, -4e9, 1e19, -1e19, 16777217.0, 257.0,
                             0x1p53, 123456789.0, 3.99, -3.99})
    values.push_back(value);
  for (const DType from : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64,
                           DType::kI32, DType::kBool})
    for (const DType to : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64,
                           DType::kI32, DType::kBool}) {
      CAPTURE(std::string(to_string(from)));
      CAPTURE(std::string(to_string(to)));
      for (const std::size_t misalignment : {std::size_t{0}, std::size_t{8}}) {
        const Twin twin("cast", {{"dtype", std::string(to_string(to))}},
                        {{{line(values), from}, values}}, {line(values), to}, false, {},
                        misalignment);
        check_all(twin, is_same);
      }
    }
}

// What compiler/memory/in_place.h lets an output do. By their bits: the kernel is the same.
TEST_CASE("element-wise kernels give over an input what they give beside it" *
          doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  const auto check = [&device](const Named& function, const std::vector<TensorType>& types,
                               std::size_t over) {
    CAPTURE(function.kind);
    CAPTURE(over);
    std::vector<std::unique_ptr<TwinTensor>> in;
    std::vector<TwinTensor*> pointers;
    for (const TensorType& type : types) {
      const Numbers values = digits(type.shape.elements(), in.size() + 1, 3.0);
      in.push_back(std::make_unique<TwinTensor>(type, values));
      pointers.push_back(in.back().get());
    }
    const auto run = [&](TwinTensor& out) {
      const TwinCall call(function.kind, function.attributes, pointers, {&out});
      cuda_kernels().make(call.for_device(), device)->enqueue(nullptr);
      return out.device_bytes();
    };
    const auto count = static_cast<std::size_t>(types[over].shape.elements());
    TwinTensor beside(types[over], Numbers(count, 7.0));
    const std::vector<std::byte> wanted = run(beside);
    CHECK(run(*in[over]) == wanted);
  };
  for (const DType dtype : kFloating) {
    CAPTURE(std::string(to_string(dtype)));
    const TensorType odd{Shape{100'003}, dtype}, rows{Shape{300, 64}, dtype}, row{Shape{64}, dtype};
    for (const auto* functions : {&kExactOfOne, &kCurvesOfOne})
      for (const Named& function : *functions) check(function, {odd}, 0);
    check({"dropout", {{"rate", 0.3}, {"stream", "s"}}}, {odd}, 0);
    for (const Named& function : kExactOfTwo)
      for (const std::size_t over : {0, 1}) check(function, {odd, odd}, over);
    for (const char* kind : {"maximum_grad", "minimum_grad"})
      for (const std::size_t over : {0, 1, 2}) check({kind}, {odd, odd, odd}, over);
    check({"bias_add"}, {rows, row}, 0);
    check({"mul"}, {row, rows}, 1);
  }
}

TEST_CASE("a byte of bool that is not zero is true, whichever it is" * doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  const TensorType flags{Shape{1000}, DType::kBool}, numbers{Shape{1000}, DType::kF32};
  const Numbers zeros(1000, 0.0), twos(1000, 2.0), ones(1000, 1.0);
  TwinTensor flag(flags, zeros), not_flag(flags, ones), number(numbers, zeros), a(numbers, ones),
      b(numbers, twos), chosen(numbers, zeros);
  SEXTANT_CUDA(cudaMemset(flag.on_device().data, 0x82, 1000));
  const auto run = [&](const char* kind, const Attributes& attributes,
                       const std::vector<TwinTensor*>& in, TwinTensor& out) {
    const TwinCall call(kind, attributes, in, {&out});
    cuda_kernels().make(call.for_device(), device)->enqueue(nullptr);
    return out.device_values();
  };
  CHECK(run("cast", {{"dtype", "f32"}}, {&flag}, number) == ones);
  CHECK(run("logical_not", {}, {&flag}, not_flag) == zeros);
  CHECK(run("where", {}, {&flag, &a, &b}, chosen) == ones);
}

TEST_CASE("consecutive casts are one launch with the bits of single ones" *
          doctest::skip(!has_gpu())) {
  for (const auto& [from, to] : {std::pair{DType::kF32, DType::kBF16},
                                 {DType::kBF16, DType::kF32},
                                 {DType::kF32, DType::kF16},
                                 {DType::kF64, DType::kF32}}) {
    CudaContext device(CudaOptions{});
    std::vector<std::unique_ptr<TwinTensor>> in, out;
    std::vector<std::unique_ptr<TwinCall>> twins;
    std::vector<KernelContext> calls;
    std::uint64_t salt = 1;
    for (const std::int64_t count : {5, 1, 0, 16384, 16385, 100'003, 8, 40'000}) {
      const Numbers values = digits(count, salt++, 3.0);
      const Numbers zeros(values.size(), 0.0);
      in.push_back(std::make_unique<TwinTensor>(TensorType{Shape{count}, from}, values));
      out.push_back(std::make_unique<TwinTensor>(TensorType{Shape{count}, to}, zeros));
      twins.push_back(
          std::make_unique<TwinCall>("cast", Attributes{{"dtype", std::string(to_string(to))}},
                                     std::vector{in.back().get()}, std::vector{out.back().get()}));
      calls.push_back(twins.back()->for_device());
      twins.back()->run_reference();
    }
    const auto kernels = cuda_kernels().make_all(calls, device);
    CHECK(kernels.size() == 1);
    for (const auto& kernel : kernels) kernel->enqueue(nullptr);
    for (const auto& tensor : out) CHECK(tensor->device_bytes() == tensor->host_bytes());
  }
}

TEST_CASE("a cast that reads what the one before wrote is not put beside it" *
          doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  const TensorType type{Shape{1000}, DType::kF32};
  TwinTensor a(type, Numbers(1000, 1.0)), b(type, Numbers(1000, 2.0)), c(type, Numbers(1000, 3.0));
  const TwinCall first("cast", {{"dtype", "f32"}}, {&a}, {&b});
  const TwinCall second("cast", {{"dtype", "f32"}}, {&b}, {&c});
  const auto kernels =
      cuda_kernels().make_all(std::vector{first.for_device(), second.for_device()}, device);
  CHECK(kernels.size() == 2);
  for (const auto& kernel : kernels) kernel->enqueue(nullptr);
  CHECK(c.device_values() == Numbers(1000, 1.0));
}

TEST_CASE("sums over rows of whole numbers are exact, for no rows, odd columns and accumulated" *
          doctest::skip(!has_gpu())) {
  for (const DType dtype : kFloating)
    for (const std::int64_t rows : {0, 1, 9, 31, 33, 1000, 2111, 20'000})
      for (const std::int64_t columns : {1, 3, 8, 200, 400, 840, 1024, 1031, 280'008}) {
        if (rows * columns > 3'000'000) continue;
        CAPTURE(std::string(to_string(dtype)));
        CAPTURE(rows);
        CAPTURE(columns);
        // 0, 1 and 2: a sum of rows is below 2^24.
        const TensorType dy{Shape{rows, columns}, dtype};
        const TensorType bias{Shape{columns}, dtype == DType::kF64 ? DType::kF64 : DType::kF32};
        const Numbers values = whole_numbers(rows * columns, 3, 3);
        for (const bool accumulate : {false, true}) {
          const Twin twin("reduce_to_bias", {}, {{dy, values}}, bias, accumulate);
          CHECK(twin.out->device_bytes() == twin.out->host_bytes());
        }
      }
}

TEST_CASE("sums over rows are the same bits in every launch of their kernel" *
          doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  // In clusters, and by the last blocks of tiles.
  for (const auto& [rows, columns] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{9000, 1600}, {4000, 3200}}) {
    CAPTURE(columns);
    TwinTensor dy({Shape{rows, columns}, DType::kBF16}, digits(rows * columns, 2, 1.0));
    TwinTensor bias({Shape{columns}, DType::kF32}, Numbers(static_cast<std::size_t>(columns), 0.0));
    const TwinCall call("reduce_to_bias", {}, {&dy}, {&bias});
    const auto kernel = cuda_kernels().make(call.for_device(), device);
    kernel->enqueue(nullptr);
    const std::vector<std::byte> first = bias.device_bytes();
    for (int launch = 0; launch < 20; ++launch) {
      kernel->enqueue(nullptr);
      CHECK(bias.device_bytes() == first);
    }
  }
}

TEST_CASE("tensors of more than 2^31 elements are written to their end" *
          doctest::skip(!has_gpu())) {
  constexpr std::int64_t kElements = (std::int64_t{1} << 31) + 12'345;
  std::size_t available = 0, total = 0;
  SEXTANT_CUDA(cudaMemGetInfo(&available, &total));
  if (available < static_cast<std::size_t>(kElements) * 5) {
    MESSAGE("skipped: too little memory");
    return;
  }
  CudaContext device(CudaOptions{});
  const auto run = [&](const char* kind, DType dtype, int value, int wanted) {
    const auto size = static_cast<std::size_t>(size_of(dtype).value);
    std::byte *in = nullptr, *out = nullptr;
    const std::size_t bytes = static_cast<std::size_t>(kElements) * size;
    SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&in), bytes));
    SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&out), bytes));
    SEXTANT_CUDA(cudaMemset(in, value, bytes));
    SEXTANT_CUDA(cudaMemset(out, 0x55, bytes));
    Actor actor;
    actor.kind = kind;
    KernelContext call;
    call.actor = &actor;
    call.in.resize(1);
    call.out.resize(1);
    call.in[0].data = in;
    call.out[0].data = out;
    call.in[0].local = call.out[0].local = {Shape{kElements}, dtype};
    call.accumulate = {false};
    cuda_kernels().make(call, device)->enqueue(nullptr);
    constexpr std::size_t kTail = 4096;
    for (const std::size_t at : {std::size_t{0}, bytes / 2, bytes - kTail}) {
      std::vector<unsigned char> found(kTail);
      SEXTANT_CUDA(cudaMemcpy(found.data(), out + at, kTail, cudaMemcpyDeviceToHost));
      CHECK(found == std::vector<unsigned char>(kTail, static_cast<unsigned char>(wanted)));
    }
    cudaFree(in);
    cudaFree(out);
  };
  run("logical_not", DType::kBool, 0, 1);
  run("abs", DType::kBF16, 0x42, 0x42);
}

}  // namespace sextant::elementwise_test
