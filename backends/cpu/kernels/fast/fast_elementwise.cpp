// Element-wise f32 loops without calls, for the compiler to vectorise.
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <algorithm>
#include <cstddef>

namespace sextant {
namespace {

// An output may lie in the bytes of an input (compiler/memory/in_place.h). Then y[i] depends on
// x[i] alone, which `ivdep` tells a compiler that would else give up on vectors when addresses
// meet.

template <typename Function>
void map_unary(const KernelContext& context, const Function& function) {
  const float* x = input<float>(context, 0);
  float* y = output<float>(context, 0);
  const std::int64_t count = elements(context.out[0]);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) y[i] = function(x[i]);
}

template <typename Function>
void map_binary(const KernelContext& context, const Function& function) {
  const float* a = input<float>(context, 0);
  const float* b = input<float>(context, 1);
  float* y = output<float>(context, 0);
  const std::int64_t count = elements(context.out[0]);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) y[i] = function(a[i], b[i]);
}

// Nothing stretches, and the operands are f32 and not integers.
bool overwrites_equal_f32(const KernelContext& context) {
  const TensorType& type = context.out[0].local;
  const auto is_same = [&type](const KernelOperand& operand) { return operand.local == type; };
  return type.dtype == DType::kF32 && accumulates_none(context) &&
         std::all_of(context.in.begin(), context.in.end(), is_same);
}

void add(const KernelContext& context, Workspace&) {
  map_binary(context, [](float a, float b) { return a + b; });
}

void mul(const KernelContext& context, Workspace&) {
  map_binary(context, [](float a, float b) { return a * b; });
}

void scale(const KernelContext& context, Workspace&) {
  const auto factor = static_cast<float>(context.attributes().real("factor"));
  map_unary(context, [factor](float x) { return factor * x; });
}

constexpr float kGeluScale = 0.79788456080286535588F;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

bool is_f32_tanh_gelu(const KernelContext& context) {
  return overwrites_f32(context) && context.attributes().text("approximate") == "tanh";
}

void gelu(const KernelContext& context, Workspace&) {
  map_unary(context, [](float x) {
    return 0.5F * x * (1.0F + fast_tanh(kGeluScale * (x + kGeluCubic * x * x * x)));
  });
}

void gelu_grad(const KernelContext& context, Workspace&) {
  map_binary(context, [](float x, float dy) {
    const float t = fast_tanh(kGeluScale * (x + kGeluCubic * x * x * x));
    const float slope = kGeluScale * (1.0F + 3.0F * kGeluCubic * x * x);
    return dy * (0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * slope);
  });
}

void silu(const KernelContext& context, Workspace&) {
  map_unary(context, [](float x) { return x * fast_sigmoid(x); });
}

void silu_grad(const KernelContext& context, Workspace&) {
  map_binary(context, [](float x, float dy) {
    const float s = fast_sigmoid(x);
    return dy * s * (1.0F + x * (1.0F - s));
  });
}

void bias_add(const KernelContext& context, Workspace&) {
  const float* x = input<float>(context, 0);
  const float* bias = input<float>(context, 1);
  float* y = output<float>(context, 0);
  const std::int64_t length = elements(context.in[1]);
  for (std::int64_t row = 0; row < elements(context.out[0]); row += length)
#pragma GCC ivdep
    for (std::int64_t i = 0; i < length; ++i) y[row + i] = x[row + i] + bias[i];
}

// Sums row after row in f32 into the output; accumulation only leaves out the zeroes.
void reduce_to_bias(const KernelContext& context, Workspace&) {
  const float* dy = input<float>(context, 0);
  float* bias = output<float>(context, 0);
  const std::int64_t length = elements(context.out[0]);
  if (!context.accumulate[0]) std::fill(bias, bias + length, 0.0F);
  for (std::int64_t row = 0; row < elements(context.in[0]); row += length)
    for (std::int64_t i = 0; i < length; ++i) bias[i] += dy[row + i];
}

bool overwrites_same_type(const KernelContext& context) {
  return accumulates_none(context) && context.in[0].local.dtype == context.out[0].local.dtype;
}

void copy(const KernelContext& context, Workspace&) {
  const Bytes size = size_of(context.out[0].local);
  std::copy_n(context.in[0].data, size.value, context.out[0].data);
}

}  // namespace

void add_fast_elementwise_kernels(KernelTable& table) {
  table.add("add", add, overwrites_equal_f32);
  table.add("mul", mul, overwrites_equal_f32);
  table.add("scale", scale, overwrites_f32);
  table.add("gelu", gelu, is_f32_tanh_gelu);
  table.add("gelu_grad", gelu_grad, is_f32_tanh_gelu);
  table.add("silu", silu, overwrites_f32);
  table.add("silu_grad", silu_grad, overwrites_f32);
  table.add("bias_add", bias_add, overwrites_f32);
  table.add("reduce_to_bias", reduce_to_bias, is_f32);
  table.add("reshape", copy, overwrites_same_type);
}

}  // namespace sextant
