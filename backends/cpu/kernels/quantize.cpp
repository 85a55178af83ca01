// Scales of tensors and their elements in 8 bits. Scales are powers of two, so the quotient is
// exact and is rounded once.
#include "core/operators/pointwise/quantize.h"

#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "backends/cpu/kernels/shared/scaled_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sextant {
namespace {

// NaN is the largest.
double largest_magnitude(const KernelOperand& x) {
  return visit_storage(x.local.dtype, [&](auto zero) {
    const auto* values = reinterpret_cast<const decltype(zero)*>(x.data);
    auto largest = decltype(widen(zero)){};
    for (std::size_t i = 0; i < num_elements(x); ++i) {
      const auto value = widen(values[i]);
      const auto magnitude = value < 0 ? -value : value;
      if (!(magnitude <= largest)) largest = magnitude;
      if (magnitude != magnitude) break;
    }
    return static_cast<double>(largest);
  });
}

void quantize_scale(const KernelContext& context, Workspace&) {
  const DType dtype = parse_dtype(context.attributes().text("dtype"));
  Output(context, 0).put(0, step_of_8_bits(largest_magnitude(context.in[0]), dtype));
}

// `to` gets element (row, column) at row x by_row + column x by_column.
template <typename Storage, typename X, typename W>
void divide(const X* x, W scale, const Rows& rows, Storage* to, std::int64_t by_row,
            std::int64_t by_column) {
  for (std::int64_t row = 0; row < rows.count; ++row)
    for (std::int64_t column = 0; column < rows.length; ++column)
      to[row * by_row + column * by_column] = narrow<Storage>(widen(*x++) / scale);
}

void quantize(const KernelContext& context, Workspace&) {
  const KernelOperand& x = context.in[0];
  const Rows rows = rows_of(x.local);
  const CopyOrders orders = copy_orders(context.attributes());
  visit_storage(x.local.dtype, [&](auto zero) {
    visit_storage(context.out[0].local.dtype, [&](auto eight_bits) {
      using Storage = decltype(eight_bits);
      const auto* values = reinterpret_cast<const decltype(zero)*>(x.data);
      const auto scale = static_cast<decltype(widen(zero))>(scalar_of(context, 1));
      const auto output = [&](std::size_t index) {
        return reinterpret_cast<Storage*>(context.out[index].data);
      };
      if (orders.has_rows) divide(values, scale, rows, output(0), rows.length, 1);
      if (orders.has_columns)
        divide(values, scale, rows, output(orders.has_rows ? 1 : 0), 1, rows.count);
    });
  });
}

bool overwrites(const KernelContext& context) {
  return std::find(context.accumulate.begin(), context.accumulate.end(), true) ==
         context.accumulate.end();
}

}  // namespace

void add_quantize_kernels(KernelTable& table) {
  table.add("quantize_scale", quantize_scale);
  table.add("quantize", quantize, overwrites);
}

}  // namespace sextant
