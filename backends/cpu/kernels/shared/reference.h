// What reference kernels are made of: operands read as doubles, results stored with one rounding.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"
#include "backends/cpu/kernels/shared/wide.h"
#include "core/base/elements.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sextant {

using Values = ValuesOf<double>;
using Output = OutputOf<double>;

// Input `index` in double.
Values load_input(const KernelContext& context, std::size_t index, Workspace& workspace);
// Integers of input `index`, exactly.
using Indices = ValuesOf<std::int64_t>;
Indices load_indices(const KernelContext& context, std::size_t index, Workspace& workspace);
// Where a box that begins at `offset` has a global index, if it does.
inline std::optional<std::size_t> local_index(std::int64_t index, std::int64_t offset,
                                              std::int64_t extent) {
  if (index < offset || index >= offset + extent) return std::nullopt;
  return static_cast<std::size_t>(index - offset);
}
// Sums on their way to output `index`, all zero, and their way out.
std::span<double> make_output(const KernelContext& context, std::size_t index,
                              Workspace& workspace);
void store_output(const KernelContext& context, std::size_t index, std::span<const double> values);

// Workspace: of the copies of small inputs, which every kernel may make; of sums in all outputs; of
// an output's bytes aside, where it accumulates.
std::int64_t small_copies(const KernelContext& context);
std::int64_t wide_outputs(const KernelContext& context);
std::int64_t output_aside(const KernelContext& context);

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
