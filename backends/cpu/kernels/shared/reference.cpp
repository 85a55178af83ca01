// Operands of the reference kernels, and what they take of the workspace.
#include "backends/cpu/kernels/shared/reference.h"

namespace sextant {

Values load_input(const KernelContext& context, std::size_t index, Workspace& workspace) {
  return {context.in[index], workspace};
}

Indices load_indices(const KernelContext& context, std::size_t index, Workspace& workspace) {
  return {context.in[index], workspace};
}

std::span<double> make_output(const KernelContext& context, std::size_t index,
                              Workspace& workspace) {
  return make_wide(context, index, 0.0, workspace);
}

void store_output(const KernelContext& context, std::size_t index, std::span<const double> values) {
  store_wide(context, index, values);
}

std::int64_t small_copies(const KernelContext& context) {
  std::int64_t bytes = 0;
  for (const KernelOperand& operand : context.in)
    if (num_elements(operand) <= kSmallInput)
      bytes += Workspace::bytes_of<double>(num_elements(operand));
  return bytes;
}

std::int64_t wide_outputs(const KernelContext& context) {
  std::int64_t bytes = 0;
  for (const KernelOperand& operand : context.out)
    bytes += Workspace::bytes_of<double>(num_elements(operand));
  return bytes;
}

std::int64_t output_aside(const KernelContext& context) {
  if (!context.accumulate[0]) return 0;
  return Workspace::bytes_of<std::byte>(
      static_cast<std::size_t>(size_of(context.out[0].local).value));
}

Rows rows_of(const TensorType& type) {
  Rows rows;
  if (type.shape.rank() == 0) return rows;
  rows.length = type.shape[type.shape.rank() - 1];
  for (std::size_t dim = 0; dim + 1 < type.shape.rank(); ++dim) rows.count *= type.shape[dim];
  return rows;
}

}  // namespace sextant
