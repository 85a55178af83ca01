// Matrix products through BLAS, f32 and f64; accumulation is the beta of the product.
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/gemm.h"
#include "backends/cpu/kernels/shared/batch_matmul_sizes.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "backends/cpu/kernels/shared/scaled_product.h"

namespace sextant {
namespace {

bool is_one_blas_type(const KernelContext& context) {
  const DType dtype = context.in[0].local.dtype;
  return (dtype == DType::kF32 || dtype == DType::kF64) && floats_are(context, dtype);
}

template <typename T>
void matmul_of(const KernelContext& context, Workspace& workspace) {
  const bool transposed = context.attributes().boolean_or("transpose_w", false);
  const Rows x = rows_of(context.in[0].local);
  const std::int64_t n = rows_of(context.out[0].local).length;
  const T beta = context.accumulate[0] ? T{1} : T{0};
  gemm<T>(workspace, x.count, n, x.length, {input<T>(context, 0), x.length, false},
          {input<T>(context, 1), transposed ? x.length : n, transposed}, beta,
          output<T>(context, 0), n);
}

template <typename T>
void grad_weight_of(const KernelContext& context, Workspace& workspace) {
  const Rows x = rows_of(context.in[0].local);
  const Rows dy = rows_of(context.in[1].local);
  const MatrixView<T> x_view{input<T>(context, 0), x.length, false};
  const MatrixView<T> dy_view{input<T>(context, 1), dy.length, false};
  const T beta = context.accumulate[0] ? T{1} : T{0};
  const bool transposed = context.attributes().boolean_or("transpose_w", false);
  const auto [left, right] = transposed ? std::pair(dy_view, x_view) : std::pair(x_view, dy_view);
  gemm<T>(workspace, left.leading, right.leading, x.count, {left.data, left.leading, true}, right,
          beta, output<T>(context, 0), right.leading);
}

template <typename T>
void batch_matmul_of(const KernelContext& context, Workspace& workspace) {
  const auto [count, m, n, k, x_transposed, w_transposed] = batch_matmul_sizes(context);
  const T beta = context.accumulate[0] ? T{1} : T{0};
  workspace.run(count, [&, m = m, n = n, k = k, x_transposed = x_transposed,
                        w_transposed = w_transposed](std::int64_t matrix, std::int64_t) {
    gemm(m, n, k, T{1}, {input<T>(context, 0) + matrix * m * k, x_transposed ? m : k, x_transposed},
         {input<T>(context, 1) + matrix * k * n, w_transposed ? k : n, w_transposed}, beta,
         output<T>(context, 0) + matrix * m * n, n);
  });
}

void batch_matmul(const KernelContext& context, Workspace& workspace) {
  if (context.in[0].local.dtype == DType::kF32)
    batch_matmul_of<float>(context, workspace);
  else
    batch_matmul_of<double>(context, workspace);
}

void matmul(const KernelContext& context, Workspace& workspace) {
  if (context.in[0].local.dtype == DType::kF32)
    matmul_of<float>(context, workspace);
  else
    matmul_of<double>(context, workspace);
}

void matmul_grad_weight(const KernelContext& context, Workspace& workspace) {
  if (context.in[0].local.dtype == DType::kF32)
    grad_weight_of<float>(context, workspace);
  else
    grad_weight_of<double>(context, workspace);
}

bool is_f32_out(const KernelContext& context) { return context.out[0].local.dtype == DType::kF32; }

std::int64_t widened_bytes(const KernelContext& context) {
  return Workspace::bytes_of<float>(num_elements(context.in[0])) +
         Workspace::bytes_of<float>(num_elements(context.in[1]));
}

std::span<float> widened(const KernelOperand& operand, Workspace& workspace) {
  const std::span<float> values = workspace.take<float>(num_elements(operand));
  visit_storage(operand.local.dtype, [&](auto zero) {
    const auto* from = reinterpret_cast<const decltype(zero)*>(operand.data);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(widen(from[i]));
  });
  return values;
}

// Values of 8 bits are exact in f32, and so are products of two of them.
void scaled_matmul(const KernelContext& context, Workspace& workspace) {
  const Rows y = rows_of(context.out[0].local);
  const std::int64_t k = scaled_inner_extent(context);
  const std::span<float> a = widened(context.in[0], workspace),
                         b = widened(context.in[1], workspace);
  gemm(y.count, y.length, k, static_cast<float>(scales_of(context)),
       MatrixView<float>{a.data(), k, false}, MatrixView<float>{b.data(), k, true},
       context.accumulate[0] ? 1.0F : 0.0F, output<float>(context, 0), y.length);
}

}  // namespace

void add_fast_matmul_kernels(KernelTable& table) {
  if (!has_gemm()) return;
  table.add("matmul", matmul, is_one_blas_type);
  table.add("matmul_grad_weight", matmul_grad_weight, is_one_blas_type);
  table.add("batch_matmul", batch_matmul, is_one_blas_type);
  table.add("scaled_matmul", scaled_matmul, is_f32_out, widened_bytes);
}

}  // namespace sextant
