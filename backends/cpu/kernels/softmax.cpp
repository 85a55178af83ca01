// Reference pieces of softmax over any dims; the row may be split over ranks.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "backends/cpu/kernels/shared/walk.h"
#include "core/operators/reductions/reduced_dims.h"

#include <cmath>

namespace sextant {
namespace {

// Calls `visit(element, its row)`; input 0 has the elements.
template <typename Visit>
void for_each_in_row(const KernelContext& context, const Visit& visit) {
  const Shape& shape = context.in[0].local.shape;
  const ReducedDims dims(context.actor->kind, context.attributes(), shape.rank());
  walk<1>(shape, {strides_onto(shape, dims.kept())},
          [&](std::size_t element, const auto& row) { visit(element, row[0]); });
}

void reduce_sum_exp(const KernelContext& context, Workspace& workspace) {
  const Values x = load_input(context, 0, workspace);
  const Values max = load_input(context, 1, workspace);
  const auto sum = make_output(context, 0, workspace);
  for_each_in_row(context,
                  [&](std::size_t i, std::size_t row) { sum[row] += std::exp(x[i] - max[row]); });
  store_output(context, 0, sum);
}

void softmax(const KernelContext& context, Workspace& workspace) {
  const Values x = load_input(context, 0, workspace);
  const Values max = load_input(context, 1, workspace);
  const Values sum = load_input(context, 2, workspace);
  const Output out(context, 0);
  for_each_in_row(context, [&](std::size_t i, std::size_t row) {
    out.put(i, std::exp(x[i] - max[row]) / sum[row]);
  });
}

void softmax_grad(const KernelContext& context, Workspace& workspace) {
  const Values y = load_input(context, 0, workspace);
  const Values dy = load_input(context, 1, workspace);
  const Values dot = load_input(context, 2, workspace);
  const Output dx(context, 0);
  for_each_in_row(context,
                  [&](std::size_t i, std::size_t row) { dx.put(i, y[i] * (dy[i] - dot[row])); });
}

}  // namespace

void add_softmax_kernels(KernelTable& table) {
  table.add("reduce_sum_exp", reduce_sum_exp, nullptr, wide_outputs);
  table.add("softmax", softmax);
  table.add("softmax_grad", softmax_grad);
}

}  // namespace sextant
