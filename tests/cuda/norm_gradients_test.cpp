// All gradients of a norm at once: for each length of a row, few rows and many, sums that add to
// what is there, beside a collective and alone, with the same bits every time.
#include "tests/cuda/both_calls.h"
#include "tests/cuda/call_on_both.h"
#include "tests/cuda/gpu.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant::norm_gradients_test {
namespace {

using Operand = ActorMember::Operand;
using Source = Operand::Source;
using Values = std::vector<std::vector<double>>;

Operand in(std::size_t index) { return {Source::kInput, static_cast<std::int32_t>(index)}; }
Operand out(std::size_t index) { return {Source::kOutput, static_cast<std::int32_t>(index)}; }
constexpr Operand kInner = {Source::kInner, 0};

TestOperand random(const TensorType& type, std::uint64_t salt, double range) {
  return {.type = type, .values = digits(type.shape.elements(), salt, range)};
}
TestOperand whole(const TensorType& type, std::uint64_t salt, std::int64_t below) {
  return {.type = type, .values = whole_numbers(type.shape.elements(), salt, below)};
}
TestOperand of_value(const TensorType& type, double value) {
  const auto count = static_cast<std::size_t>(type.shape.elements());
  return {.type = type, .values = std::vector<double>(count, value)};
}

double unit_of(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-7 : dtype == DType::kF16 ? 0x1p-10 : 0x1p-23;
}

struct Shape2 {
  std::int64_t rows = 0, length = 0;
  DType dtype = DType::kBF16;
};

// One call: x and dy whole numbers, mean 3 and rstd 0.5, so that sums of dy and dy h are exact in
// any order.
class Gradients {
 public:
  Gradients(const Shape2& shape, bool is_centred, bool adds_other, bool sums_dx)
      : is_centred_(is_centred),
        adds_other_(adds_other),
        sums_dx_(sums_dx),
        type_{Shape{shape.rows, shape.length}, shape.dtype},
        sums_{Shape{shape.length}, DType::kF32},
        x_(whole(type_, 1, 7)),
        dy_(whole(type_, 2, 7)),
        other_(random(type_, 3, 2)),
        gamma_(random({Shape{shape.length}, shape.dtype}, 4, 2)) {
    const TensorType row{Shape{shape.rows}, DType::kF32};
    if (is_centred) statistics_.push_back(of_value(row, 3));
    statistics_.push_back(of_value(row, 0.5));
    dx_ = exact_dx();
  }

  Values on_device(bool accumulate, bool in_company) const {
    DeviceCall call(kind(), {});
    call.input(x_).input(gamma_);
    std::vector<Operand> of_input = {in(0), in(1)}, of_weight = {in(0)}, weights;
    std::size_t count = 2;
    for (const TestOperand& statistic : statistics_) {
      call.input(statistic);
      of_input.push_back(in(count));
      of_weight.push_back(in(count++));
    }
    call.input(dy_);
    of_input.push_back(in(count));
    of_weight.push_back(in(count++));
    if (adds_other_) call.input(other_).inner(type_);
    call.output(of_value(type_, 77));
    for (std::size_t sum = 0; sum < num_sums(); ++sum)
      call.output(whole(sums_, 10 + sum, 9), accumulate);
    for (std::size_t i = 0; i < statistics_.size(); ++i) weights.push_back(out(1 + i));
    call.member(norm() + "_grad_input", {}, of_input, {adds_other_ ? kInner : out(0)});
    if (adds_other_) call.member("add", {}, {in(count), kInner}, {out(0)});
    call.member(norm() + "_grad_weight", {}, of_weight, weights);
    if (sums_dx_) call.member("reduce_to_bias", {}, {out(0)}, {out(num_sums())});
    CudaContext context{CudaOptions{}};
    context.set_in_company(in_company);
    const auto kernel =
        call.kernel([](const KernelContext& on,
                       CudaContext& device) { return cuda_kernels().make(on, device); },
                    context);
    REQUIRE(kernel != nullptr);
    kernel->enqueue(nullptr);
    CHECK(call.is_guarded());
    CHECK_FALSE(context.fault());
    return call.results();
  }

  void check(const Values& found, bool accumulate) const {
    KernelCall weights(norm() + "_grad_weight", {});
    weights.input(x_);
    for (const TestOperand& statistic : statistics_) weights.input(statistic);
    weights.input(dy_);
    for (std::size_t i = 0; i < statistics_.size(); ++i)
      weights.output(whole(sums_, 10 + i, 9), accumulate);
    // As tests/cuda/norm_test.cpp bounds a mean over a row.
    constexpr double kBound = 16 * 270 * 0x1p-24;
    check_close(found[0], dx_, kBound, kBound + unit_of(type_.dtype));
    const Values wanted = weights.run(reference_kernels());
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(found[1 + i] == wanted[i]);
    if (!sums_dx_) return;
    KernelCall sum("reduce_to_bias", {});
    sum.input({.type = type_, .values = found[0]});
    sum.output(whole(sums_, 10 + num_sums() - 1, 9), accumulate);
    // Some 60 additions of f32 one behind the other, of sums below 5 a row.
    const double rows = static_cast<double>(type_.shape[0]);
    check_close(found.back(), sum.run(reference_kernels())[0], 60 * 5 * rows * 0x1p-24, 1e-6);
  }

 private:
  // In f64, so that it is rounded once, with what is added.
  std::vector<double> exact_dx() const {
    KernelCall exact(norm() + "_grad_input", {});
    exact.input(x_).input(gamma_);
    for (const TestOperand& statistic : statistics_) exact.input(statistic);
    exact.input(dy_).output(of_value({type_.shape, DType::kF64}, 0));
    std::vector<double> dx = exact.run(reference_kernels())[0];
    if (!adds_other_) return dx;
    KernelCall rounded("add", {});  // what is added is exact in its type
    rounded.input(other_).input(of_value(type_, 0)).output(of_value(type_, 0));
    const std::vector<double> other = rounded.run(reference_kernels())[0];
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += other[i];
    return dx;
  }

  std::string norm() const { return is_centred_ ? "layer_norm" : "rms_norm"; }
  std::string kind() const {
    return norm() + "_grads" + (adds_other_ ? "_add" : "") + (sums_dx_ ? "_bias" : "");
  }
  std::size_t num_sums() const { return statistics_.size() + (sums_dx_ ? 1 : 0); }

  bool is_centred_, adds_other_, sums_dx_;
  TensorType type_, sums_;
  TestOperand x_, dy_, other_, gamma_;
  std::vector<TestOperand> statistics_;
  std::vector<double> dx_;
};

void check_shape(const Shape2& shape) {
  CAPTURE(shape.rows);
  CAPTURE(shape.length);
  CAPTURE(std::string(to_string(shape.dtype)));
  struct Variant {
    bool is_centred, adds_other, sums_dx;
  };
  for (const Variant& variant :
       {Variant{true, false, false}, Variant{true, true, false}, Variant{true, true, true},
        Variant{false, false, false}, Variant{false, true, false}}) {
    CAPTURE(variant.is_centred);
    CAPTURE(variant.adds_other);
    CAPTURE(variant.sums_dx);
    const Gradients gradients(shape, variant.is_centred, variant.adds_other, variant.sums_dx);
    const Values alone = gradients.on_device(false, false);
    gradients.check(alone, false);
    CHECK(gradients.on_device(false, false) == alone);
    gradients.check(gradients.on_device(true, true), true);
  }
}

}  // namespace

// More rows than groups of threads run at once on an H200, so that groups have a next row. 8,192 is
// the longest row of 16 bits that is held, with three sums 4,096; longer ones and those that no 16
// bytes divide go kernel by kernel.
TEST_CASE("gradients of a norm in one pass are those of its members, for each length of a row" *
          doctest::skip(!has_gpu())) {
  for (const Shape2& shape : std::vector<Shape2>{{2200, 64},
                                                 {2200, 256},
                                                 {2131, 264},
                                                 {1701, 512},
                                                 {1101, 1024},
                                                 {701, 1600},
                                                 {601, 2048},
                                                 {401, 3072},
                                                 {301, 4096},
                                                 {271, 8192},
                                                 {139, 12288},
                                                 {401, 1023}})
    check_shape(shape);
  for (const DType dtype : {DType::kF32, DType::kF16})
    for (const Shape2& shape : std::vector<Shape2>{{1101, 512}, {701, 1600}, {301, 4096}})
      check_shape({shape.rows, shape.length, dtype});
}

TEST_CASE("gradients of a norm of few rows leave the other groups without any" *
          doctest::skip(!has_gpu())) {
  for (const std::int64_t rows : {1, 2, 7, 133})
    for (const std::int64_t length : {8, 72, 1024, 1600, 3072, 4096, 8192})
      check_shape({rows, length});
}

TEST_CASE("gradients of a norm without rows are zero, or what was there" *
          doctest::skip(!has_gpu())) {
  for (const bool accumulate : {false, true}) {
    const Gradients gradients({0, 1024}, true, true, true);
    const Values found = gradients.on_device(accumulate, false);
    for (std::size_t sum = 1; sum < found.size(); ++sum)
      for (std::size_t i = 0; i < found[sum].size(); ++i)
        CHECK(found[sum][i] ==
              (accumulate ? whole({Shape{1024}, DType::kF32}, 9 + sum, 9).values[i] : 0.0));
  }
}

}  // namespace sextant::norm_gradients_test
