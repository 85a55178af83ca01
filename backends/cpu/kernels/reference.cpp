// Conversion at the edges of the reference kernels.
#include "backends/cpu/kernels/reference.h"

#include "backends/cpu/kernels/wide.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace sextant {
namespace {

std::span<double> load(const KernelOperand& operand, Workspace& workspace) {
  const auto values =
      workspace.take<double>(static_cast<std::size_t>(operand.local.shape.elements()));
  load_as_double(operand.local.dtype, operand.data, values);
  return values;
}

// Sums of integers wrap around, over micro-batches as between devices, so that they do not depend
// on which of the two a plan has.
void add_integers(std::span<const double> values, const KernelOperand& operand) {
  visit_storage(operand.local.dtype, [&](auto element) {
    using Storage = decltype(element);
    if constexpr (std::is_integral_v<Storage>) {
      auto* to = reinterpret_cast<Storage*>(operand.data);
      for (std::size_t i = 0; i < values.size(); ++i)
        to[i] = static_cast<Storage>(
            plus(std::int64_t{to[i]}, std::int64_t{narrow<Storage>(values[i])}));
    }
  });
}

}  // namespace

Values load_input(const KernelContext& context, std::size_t index, Workspace& workspace) {
  return load(context.in[index], workspace);
}

std::span<const std::int64_t> load_indices(const KernelContext& context, std::size_t index,
                                           Workspace& workspace) {
  const KernelOperand& operand = context.in[index];
  const auto count = static_cast<std::size_t>(operand.local.shape.elements());
  const auto* wide = reinterpret_cast<const std::int64_t*>(operand.data);
  if (operand.local.dtype == DType::kI64) return {wide, count};
  const auto* narrow = reinterpret_cast<const std::int32_t*>(operand.data);
  const auto indices = workspace.take<std::int64_t>(count);
  std::copy_n(narrow, count, indices.begin());
  return indices;
}

std::span<double> load_output(const KernelContext& context, std::size_t index,
                              Workspace& workspace) {
  return load(context.out[index], workspace);
}

std::span<double> make_output(const KernelContext& context, std::size_t index,
                              Workspace& workspace) {
  const auto values =
      workspace.take<double>(static_cast<std::size_t>(context.out[index].local.shape.elements()));
  std::fill(values.begin(), values.end(), 0.0);
  return values;
}

void store_output(const KernelContext& context, std::size_t index, std::span<double> values,
                  Workspace& workspace) {
  const KernelOperand& operand = context.out[index];
  const DType dtype = operand.local.dtype;
  if (context.accumulate[index] && (dtype == DType::kI32 || dtype == DType::kI64))
    return add_integers(values, operand);
  if (context.accumulate[index]) {
    const auto present = load(operand, workspace);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += present[i];
  }
  store_from_double(dtype, values, operand.data);
}

Rows rows_of(const TensorType& type) {
  Rows rows;
  if (type.shape.rank() == 0) return rows;
  rows.length = type.shape[type.shape.rank() - 1];
  for (std::size_t dim = 0; dim + 1 < type.shape.rank(); ++dim) rows.count *= type.shape[dim];
  return rows;
}

}  // namespace sextant
