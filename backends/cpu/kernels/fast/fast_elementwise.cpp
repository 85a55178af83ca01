// Element-wise f32 loops without calls, for the compiler to vectorise.
#include "backends/cpu/kernels/fast/clones.h"
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/pieces.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <algorithm>
#include <cstddef>

namespace sextant {
namespace {

// An output may lie in the bytes of an input (compiler/memory/in_place.h). Then y[i] depends on
// x[i] alone, which `ivdep` tells a compiler that would else give up on vectors when addresses
// meet.

using UnaryLoop = void (*)(const float* x, float* y, std::int64_t count);
using BinaryLoop = void (*)(const float* a, const float* b, float* y, std::int64_t count);

template <UnaryLoop kLoop>
void map_unary(const KernelContext& context, Workspace& workspace) {
  in_pieces(workspace, elements(context.out[0]), [&](std::int64_t first, std::int64_t length) {
    kLoop(input<float>(context, 0) + first, output<float>(context, 0) + first, length);
  });
}

template <BinaryLoop kLoop>
void map_binary(const KernelContext& context, Workspace& workspace) {
  in_pieces(workspace, elements(context.out[0]), [&](std::int64_t first, std::int64_t length) {
    kLoop(input<float>(context, 0) + first, input<float>(context, 1) + first,
          output<float>(context, 0) + first, length);
  });
}

// Nothing stretches, and the operands are f32 and not integers.
bool overwrites_equal_f32(const KernelContext& context) {
  const TensorType& type = context.out[0].local;
  const auto is_same = [&type](const KernelOperand& operand) { return operand.local == type; };
  return type.dtype == DType::kF32 && accumulates_none(context) &&
         std::all_of(context.in.begin(), context.in.end(), is_same);
}

SEXTANT_CLONES void add_loop(const float* a, const float* b, float* y, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

SEXTANT_CLONES void mul_loop(const float* a, const float* b, float* y, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] * b[i];
}

SEXTANT_CLONES void scale_loop(const float* x, float factor, float* y, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) y[i] = factor * x[i];
}

void scale(const KernelContext& context, Workspace& workspace) {
  const auto factor = static_cast<float>(context.attributes().real("factor"));
  in_pieces(workspace, elements(context.out[0]), [&](std::int64_t first, std::int64_t length) {
    scale_loop(input<float>(context, 0) + first, factor, output<float>(context, 0) + first, length);
  });
}

constexpr float kGeluScale = 0.79788456080286535588F;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

bool is_f32_tanh_gelu(const KernelContext& context) {
  return overwrites_f32(context) && context.attributes().text("approximate") == "tanh";
}

SEXTANT_CLONES void gelu_loop(const float* x, float* y, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i)
    y[i] = 0.5F * x[i] * (1.0F + fast_tanh(kGeluScale * (x[i] + kGeluCubic * x[i] * x[i] * x[i])));
}

SEXTANT_CLONES void gelu_grad_loop(const float* x, const float* dy, float* dx, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const float t = fast_tanh(kGeluScale * (x[i] + kGeluCubic * x[i] * x[i] * x[i]));
    const float slope = kGeluScale * (1.0F + 3.0F * kGeluCubic * x[i] * x[i]);
    dx[i] = dy[i] * (0.5F * (1.0F + t) + 0.5F * x[i] * (1.0F - t * t) * slope);
  }
}

SEXTANT_CLONES void silu_loop(const float* x, float* y, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * fast_sigmoid(x[i]);
}

SEXTANT_CLONES void silu_grad_loop(const float* x, const float* dy, float* dx, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const float s = fast_sigmoid(x[i]);
    dx[i] = dy[i] * s * (1.0F + x[i] * (1.0F - s));
  }
}

// NaN stays NaN.
SEXTANT_CLONES void relu_loop(const float* x, float* y, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] <= 0.0F ? 0.0F : x[i];
}

SEXTANT_CLONES void relu_grad_loop(const float* y, const float* dy, float* dx, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const float slope = dy[i];
    dx[i] = y[i] > 0.0F ? slope : 0.0F;
  }
}

void bias_add(const KernelContext& context, Workspace& workspace) {
  const float* const bias = input<float>(context, 1);
  const std::int64_t length = elements(context.in[1]);
  if (length == 0) return;
  in_pieces(workspace, elements(context.out[0]) / length, length,
            [&](std::int64_t first, std::int64_t rows) {
              for (std::int64_t at = first * length; at < (first + rows) * length; at += length)
                add_loop(input<float>(context, 0) + at, bias, output<float>(context, 0) + at,
                         length);
            });
}

// Sums row after row in f32 into the output; accumulation only leaves out the zeroes.
void reduce_to_bias(const KernelContext& context, Workspace& workspace) {
  constexpr std::int64_t kColumns = 256;
  const float* const dy = input<float>(context, 0);
  float* const bias = output<float>(context, 0);
  const std::int64_t length = elements(context.out[0]);
  workspace.run((length + kColumns - 1) / kColumns, [&](std::int64_t piece, std::int64_t) {
    const std::int64_t first = piece * kColumns, columns = std::min(kColumns, length - first);
    if (!context.accumulate[0]) std::fill_n(bias + first, columns, 0.0F);
    for (std::int64_t row = 0; row < elements(context.in[0]); row += length)
      add_loop(bias + first, dy + row + first, bias + first, columns);
  });
}

bool overwrites_same_type(const KernelContext& context) {
  return accumulates_none(context) && context.in[0].local.dtype == context.out[0].local.dtype;
}

void copy(const KernelContext& context, Workspace& workspace) {
  constexpr std::int64_t kBytes = sizeof(float);
  const std::int64_t size = size_of(context.out[0].local).value;
  in_pieces(workspace, (size + kBytes - 1) / kBytes, [&](std::int64_t first, std::int64_t length) {
    const std::int64_t begin = first * kBytes;
    std::copy_n(context.in[0].data + begin, std::min(length * kBytes, size - begin),
                context.out[0].data + begin);
  });
}

}  // namespace

void add_fast_elementwise_kernels(KernelTable& table) {
  table.add("add", map_binary<add_loop>, overwrites_equal_f32);
  table.add("mul", map_binary<mul_loop>, overwrites_equal_f32);
  table.add("scale", scale, overwrites_f32);
  table.add("gelu", map_unary<gelu_loop>, is_f32_tanh_gelu);
  table.add("gelu_grad", map_binary<gelu_grad_loop>, is_f32_tanh_gelu);
  table.add("silu", map_unary<silu_loop>, overwrites_f32);
  table.add("silu_grad", map_binary<silu_grad_loop>, overwrites_f32);
  table.add("relu", map_unary<relu_loop>, overwrites_equal_f32);
  table.add("relu_grad", map_binary<relu_grad_loop>, overwrites_equal_f32);
  table.add("bias_add", bias_add, overwrites_f32);
  table.add("reduce_to_bias", reduce_to_bias, is_f32);
  table.add("reshape", copy, overwrites_same_type);
}

}  // namespace sextant
