// Reference search for the first index of a value along one dim.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "backends/cpu/kernels/shared/walk.h"
#include "backends/cpu/kernels/shared/wide.h"
#include "core/operators/reductions/reduced_dims.h"

#include <algorithm>
#include <limits>

namespace sextant {
namespace {

// Global indices along the searched dim: the walk's second tensor has that dim alone.
void first_index_of(const KernelContext& context, Workspace& workspace) {
  const KernelOperand& operand = context.in[0];
  const Shape& shape = operand.local.shape;
  const std::size_t dim =
      normal_dim("first_index_of", context.attributes().integer("dim"), shape.rank());
  const ReducedDims dims(dim, shape.rank());
  const std::int64_t offset = offset_of(operand, dim);
  const auto index =
      make_wide<std::int64_t>(context, 0, std::numeric_limits<std::int64_t>::max(), workspace);
  in_wide_type(operand.local.dtype, [&](auto zero) {
    const ValuesOf<decltype(zero)> x(operand, workspace), value(context.in[1], workspace);
    walk<2>(shape, {strides_onto(shape, dims.kept()), strides_onto(shape, dims.reduced())},
            [&](std::size_t element, const auto& at) {
              const auto found = offset + static_cast<std::int64_t>(at[1]);
              if (is_same(x[element], value[at[0]])) index[at[0]] = std::min(index[at[0]], found);
            });
  });
  store_wide<std::int64_t>(context, 0, index);
}

}  // namespace

void add_arg_reduce_kernels(KernelTable& table) {
  table.add("first_index_of", first_index_of, nullptr, wide_outputs);
}

}  // namespace sextant
