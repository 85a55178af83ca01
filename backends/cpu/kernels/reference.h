// What reference kernels are made of: operands as arrays of doubles, stored with one rounding.
#pragma once

#include "backends/cpu/elements.h"
#include "backends/cpu/kernel.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sextant {

using Values = std::span<const double>;

// Input `index` in double.
Values load_input(const KernelContext& context, std::size_t index, Workspace& workspace);
// Integers of input `index`, exactly.
std::span<const std::int64_t> load_indices(const KernelContext& context, std::size_t index,
                                           Workspace& workspace);
// Where a box that begins at `offset` has a global index, if it does.
inline std::optional<std::size_t> local_index(std::int64_t index, std::int64_t offset,
                                              std::int64_t extent) {
  if (index < offset || index >= offset + extent) return std::nullopt;
  return static_cast<std::size_t>(index - offset);
}
// Present value of output `index`: state, or a content that is accumulated.
std::span<double> load_output(const KernelContext& context, std::size_t index,
                              Workspace& workspace);
// Room for output `index`, all zero.
std::span<double> make_output(const KernelContext& context, std::size_t index,
                              Workspace& workspace);
// Rounds to the dtype of the output; adds to the present value first where the act accumulates.
void store_output(const KernelContext& context, std::size_t index, std::span<double> values,
                  Workspace& workspace);

// Extents seen as [leading, last]: the leading dims flattened.
struct Rows {
  std::int64_t count = 1;
  std::int64_t length = 1;
};
Rows rows_of(const TensorType& type);

// First index along `dim` of the operand's box in the global tensor.
inline std::int64_t offset_of(const KernelOperand& operand, std::size_t dim) {
  return operand.box.dims[dim].offset;
}

}  // namespace sextant
