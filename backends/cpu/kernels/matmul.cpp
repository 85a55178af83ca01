// Reference matrix products: every element is one sum in double, in the order of the inner extent.
// They go block by block: a block of each operand is widened and used for a whole block of the
// result, so nothing is copied as a whole and each element is widened once per block, not per sum.
#include "backends/cpu/kernels/shared/batch_matmul_sizes.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "backends/cpu/kernels/shared/scaled_product.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sextant {
namespace {

// 32 KiB of the left operand, 64 KiB of the right one and 16 KiB of sums: a core's second cache.
constexpr std::size_t kTileRows = 32, kTileDepth = 128, kTileColumns = 64;

// A matrix in a tensor: element (row, column) is `first` + row x `by_row` + column x `by_column`.
struct Strided {
  std::int64_t first = 0, by_row = 0, by_column = 0;
  std::size_t at(std::size_t row, std::size_t column) const {
    return static_cast<std::size_t>(first + static_cast<std::int64_t>(row) * by_row +
                                    static_cast<std::int64_t>(column) * by_column);
  }
};

Strided stored(std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t matrix = 0) {
  return {matrix * rows * columns, transposed ? 1 : columns, transposed ? rows : 1};
}

template <std::size_t kHeight, std::size_t kWidth>
using ProductTile = std::array<std::array<double, kWidth>, kHeight>;

struct Blocks {
  ProductTile<kTileRows, kTileDepth> left;
  ProductTile<kTileDepth, kTileColumns> right;
  ProductTile<kTileRows, kTileColumns> sums;
};

// Of `values` from (row, column) on; zero beyond `columns`.
template <std::size_t kHeight, std::size_t kWidth>
void fill(ProductTile<kHeight, kWidth>& block, const Values& values, const Strided& at,
          std::size_t row, std::size_t column, std::size_t rows, std::size_t columns) {
  const std::size_t width = std::min(kWidth, columns - column);
  for (std::size_t r = 0; r < std::min(kHeight, rows - row); ++r) {
    for (std::size_t c = 0; c < width; ++c) block[r][c] = values[at.at(row + r, column + c)];
    std::fill(block[r].begin() + static_cast<std::ptrdiff_t>(width), block[r].end(), 0.0);
  }
}

// sums += left x right over `depth` terms, for every row of the block that is used.
void add_products(Blocks& blocks, std::size_t rows, std::size_t depth) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < depth; ++i) {
      const double factor = blocks.left[r][i];
      for (std::size_t c = 0; c < kTileColumns; ++c)
        blocks.sums[r][c] += factor * blocks.right[i][c];
    }
}

struct Extents {
  std::size_t m = 0, n = 0, k = 0;
};

void multiply(const Extents& extents, const Values& left, const Strided& left_at,
              const Values& right, const Strided& right_at, const Output& y, const Strided& y_at,
              Blocks& blocks, double factor = 1.0) {
  const auto [m, n, k] = extents;
  for (std::size_t column = 0; column < n; column += kTileColumns)
    for (std::size_t row = 0; row < m; row += kTileRows) {
      const std::size_t height = std::min(kTileRows, m - row),
                        width = std::min(kTileColumns, n - column);
      blocks.sums = {};
      for (std::size_t i = 0; i < k; i += kTileDepth) {
        fill(blocks.left, left, left_at, row, i, m, k);
        fill(blocks.right, right, right_at, i, column, k, n);
        add_products(blocks, height, std::min(kTileDepth, k - i));
      }
      for (std::size_t r = 0; r < height; ++r)
        for (std::size_t c = 0; c < width; ++c)
          y.put(y_at.at(row + r, column + c), factor * blocks.sums[r][c]);
    }
}

Blocks& take_blocks(Workspace& workspace) { return workspace.take<Blocks>(1)[0]; }

std::int64_t blocks_bound(const KernelContext&) { return Workspace::bytes_of<Blocks>(1); }

Extents extents_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {static_cast<std::size_t>(m), static_cast<std::size_t>(n), static_cast<std::size_t>(k)};
}

void matmul(const KernelContext& context, Workspace& workspace) {
  const bool transposed = context.attributes().boolean_or("transpose_w", false);
  const Rows x = rows_of(context.in[0].local);
  const std::int64_t n = rows_of(context.out[0].local).length;
  multiply(extents_of(x.count, n, x.length), load_input(context, 0, workspace),
           stored(x.count, x.length, false), load_input(context, 1, workspace),
           stored(x.length, n, transposed), Output(context, 0), stored(x.count, n, false),
           take_blocks(workspace));
}

void matmul_grad_weight(const KernelContext& context, Workspace& workspace) {
  const bool transposed = context.attributes().boolean_or("transpose_w", false);
  const Rows x = rows_of(context.in[0].local);
  const std::int64_t n = rows_of(context.in[1].local).length;
  multiply(extents_of(x.length, n, x.count), load_input(context, 0, workspace),
           stored(x.length, x.count, true), load_input(context, 1, workspace),
           stored(x.count, n, false), Output(context, 0), stored(x.length, n, transposed),
           take_blocks(workspace));
}

void batch_matmul(const KernelContext& context, Workspace& workspace) {
  const auto [count, m, n, k, x_transposed, w_transposed] = batch_matmul_sizes(context);
  const Values x = load_input(context, 0, workspace), w = load_input(context, 1, workspace);
  const Output y(context, 0);
  Blocks& blocks = take_blocks(workspace);
  for (std::int64_t matrix = 0; matrix < count; ++matrix)
    multiply(extents_of(m, n, k), x, stored(m, k, x_transposed, matrix), w,
             stored(k, n, w_transposed, matrix), y, stored(m, n, false, matrix), blocks);
}

// Both factors with what they are summed over last.
void scaled_matmul(const KernelContext& context, Workspace& workspace) {
  const std::int64_t n = rows_of(context.out[0].local).length;
  const std::int64_t m = rows_of(context.out[0].local).count;
  const std::int64_t k = scaled_inner_extent(context);
  const Values a = load_input(context, 0, workspace), b = load_input(context, 1, workspace);
  multiply(extents_of(m, n, k), a, stored(m, k, false), b, stored(k, n, true), Output(context, 0),
           stored(m, n, false), take_blocks(workspace), scales_of(context));
}

}  // namespace

void add_matmul_kernels(KernelTable& table) {
  table.add("matmul", matmul, nullptr, blocks_bound);
  table.add("matmul_grad_weight", matmul_grad_weight, nullptr, blocks_bound);
  table.add("batch_matmul", batch_matmul, nullptr, blocks_bound);
  table.add("scaled_matmul", scaled_matmul, nullptr, blocks_bound);
}

}  // namespace sextant
