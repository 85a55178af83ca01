// Reference reductions over any dims, the repetition that undoes their shape, and the pieces of
// their gradients. keep_dims changes no position: a dim of extent 1 takes no stride.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "backends/cpu/kernels/shared/walk.h"
#include "backends/cpu/kernels/shared/wide.h"
#include "core/operators/reductions/reduced_dims.h"

namespace sextant {
namespace {

ReducedDims dims_of(const KernelContext& context, std::size_t rank) {
  return ReducedDims(context.actor->kind, context.attributes(), rank);
}

// Calls `visit(element of x, element of its result)`; x is input 0.
template <typename Visit>
void for_each_reduced(const KernelContext& context, const Visit& visit) {
  const Shape& x = context.in[0].local.shape;
  const ReducedDims dims = dims_of(context, x.rank());
  walk<1>(x, {strides_onto(x, dims.kept())},
          [&](std::size_t from, const auto& to) { visit(from, to[0]); });
}

template <typename Wide, typename Combine>
void reduce(const KernelContext& context, Workspace& workspace, Wide neutral,
            const Combine& combine) {
  const ValuesOf<Wide> x(context.in[0], workspace);
  const auto y = make_wide<Wide>(context, 0, neutral, workspace);
  for_each_reduced(context,
                   [&](std::size_t from, std::size_t to) { y[to] = combine(y[to], x[from]); });
  store_wide<Wide>(context, 0, y);
}

void reduce_sum(const KernelContext& context, Workspace& workspace) {
  in_wide_type(context.in[0].local.dtype, [&](auto zero) {
    reduce(context, workspace, zero, [](auto a, auto b) { return plus(a, b); });
  });
}

// A shard gives its share of the mean: its sum over the global count.
void reduce_mean(const KernelContext& context, Workspace& workspace) {
  const Shape& global = context.in[0].layout->global.shape;
  const auto count = static_cast<double>(dims_of(context, global.rank()).count(global));
  const Values x = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  for_each_reduced(context, [&](std::size_t from, std::size_t to) { y[to] += x[from]; });
  for (double& value : y) value /= count;
  store_output(context, 0, y);
}

void reduce_max(const KernelContext& context, Workspace& workspace) {
  const DType dtype = context.in[0].local.dtype;
  in_wide_type(dtype, [&](auto zero) {
    reduce(context, workspace, lowest_of<decltype(zero)>(dtype),
           [](auto a, auto b) { return larger(a, b); });
  });
}

void reduce_min(const KernelContext& context, Workspace& workspace) {
  const DType dtype = context.in[0].local.dtype;
  in_wide_type(dtype, [&](auto zero) {
    reduce(context, workspace, highest_of<decltype(zero)>(dtype),
           [](auto a, auto b) { return smaller(a, b); });
  });
}

void extremum_count(const KernelContext& context, Workspace& workspace) {
  const Values x = load_input(context, 0, workspace);
  const Values extremum = load_input(context, 1, workspace);
  const auto count = make_output(context, 0, workspace);
  for_each_reduced(context, [&](std::size_t from, std::size_t to) {
    if (is_same(x[from], extremum[to])) count[to] += 1.0;
  });
  store_output(context, 0, count);
}

void extremum_grad(const KernelContext& context, Workspace& workspace) {
  const Values x = load_input(context, 0, workspace);
  const Values extremum = load_input(context, 1, workspace);
  const Values count = load_input(context, 2, workspace);
  const Values dy = load_input(context, 3, workspace);
  const Output dx(context, 0);
  for_each_reduced(context, [&](std::size_t from, std::size_t to) {
    dx.put(from, is_same(x[from], extremum[to]) ? dy[to] / count[to] : 0.0);
  });
}

void reduce_dot(const KernelContext& context, Workspace& workspace) {
  const Values a = load_input(context, 0, workspace);
  const Values b = load_input(context, 1, workspace);
  const auto y = make_output(context, 0, workspace);
  for_each_reduced(context, [&](std::size_t from, std::size_t to) { y[to] += a[from] * b[from]; });
  store_output(context, 0, y);
}

void expand(const KernelContext& context, Workspace& workspace) {
  const Shape& shape = context.out[0].local.shape;
  const ReducedDims dims = dims_of(context, shape.rank());
  in_wide_type(context.in[0].local.dtype, [&](auto zero) {
    const ValuesOf<decltype(zero)> x(context.in[0], workspace);
    const OutputOf<decltype(zero)> y(context, 0);
    walk<1>(shape, {strides_onto(shape, dims.kept())},
            [&](std::size_t to, const auto& from) { y.put(to, x[from[0]]); });
  });
}

}  // namespace

void add_reduce_kernels(KernelTable& table) {
  table.add("reduce_sum", reduce_sum, nullptr, wide_outputs);
  table.add("reduce_mean", reduce_mean, nullptr, wide_outputs);
  table.add("reduce_max", reduce_max, nullptr, wide_outputs);
  table.add("reduce_min", reduce_min, nullptr, wide_outputs);
  table.add("extremum_count", extremum_count, nullptr, wide_outputs);
  table.add("extremum_grad", extremum_grad);
  table.add("reduce_dot", reduce_dot, nullptr, wide_outputs);
  table.add("expand", expand);
}

}  // namespace sextant
