// Reference matrix products: three nested loops.
#include "backends/cpu/kernels/batch_matmul_sizes.h"
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/reference.h"

namespace sextant {
namespace {

void matmul(const KernelContext& context, Workspace& workspace) {
  const bool transposed = context.attributes().boolean_or("transpose_w", false);
  const Rows x_rows = rows_of(context.in[0].local);
  const std::int64_t k = x_rows.length;
  const std::int64_t n = rows_of(context.out[0].local).length;
  const Values x = load_input(context, 0, workspace);
  const Values w = load_input(context, 1, workspace);
  const auto y = make_output(context, 0, workspace);
  for (std::int64_t row = 0; row < x_rows.count; ++row) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t at = transposed ? j * k + i : i * n + j;
        sum += x[static_cast<std::size_t>(row * k + i)] * w[static_cast<std::size_t>(at)];
      }
      y[static_cast<std::size_t>(row * n + j)] = sum;
    }
  }
  store_output(context, 0, y, workspace);
}

void matmul_grad_weight(const KernelContext& context, Workspace& workspace) {
  const bool transposed = context.attributes().boolean_or("transpose_w", false);
  const Rows x_rows = rows_of(context.in[0].local);
  const std::int64_t k = x_rows.length;
  const std::int64_t n = rows_of(context.in[1].local).length;
  const Values x = load_input(context, 0, workspace);
  const Values dy = load_input(context, 1, workspace);
  const auto dw = make_output(context, 0, workspace);
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (std::int64_t row = 0; row < x_rows.count; ++row)
        sum += x[static_cast<std::size_t>(row * k + i)] * dy[static_cast<std::size_t>(row * n + j)];
      dw[static_cast<std::size_t>(transposed ? j * k + i : i * n + j)] = sum;
    }
  }
  store_output(context, 0, dw, workspace);
}

// Element (row, column) of a matrix as it is multiplied, in one as it is stored.
struct Stored {
  std::int64_t rows = 0, columns = 0;  // as multiplied
  bool transposed = false;
  std::size_t at(std::int64_t matrix, std::int64_t row, std::int64_t column) const {
    const std::int64_t in_matrix = transposed ? column * rows + row : row * columns + column;
    return static_cast<std::size_t>(matrix * rows * columns + in_matrix);
  }
};

void batch_matmul(const KernelContext& context, Workspace& workspace) {
  const auto [count, m, n, k, x_transposed, w_transposed] = batch_matmul_sizes(context);
  const Stored x_at{m, k, x_transposed}, w_at{k, n, w_transposed}, y_at{m, n, false};
  const Values x = load_input(context, 0, workspace);
  const Values w = load_input(context, 1, workspace);
  const auto y = make_output(context, 0, workspace);
  for (std::int64_t matrix = 0; matrix < count; ++matrix)
    for (std::int64_t row = 0; row < m; ++row)
      for (std::int64_t column = 0; column < n; ++column)
        for (std::int64_t i = 0; i < k; ++i)
          y[y_at.at(matrix, row, column)] +=
              x[x_at.at(matrix, row, i)] * w[w_at.at(matrix, i, column)];
  store_output(context, 0, y, workspace);
}

}  // namespace

void add_matmul_kernels(KernelTable& table) {
  table.add("matmul", matmul);
  table.add("matmul_grad_weight", matmul_grad_weight);
  table.add("batch_matmul", batch_matmul);
}

}  // namespace sextant
