// Which operators are look-ups: gather, take_along_dim, their gradients, one_hot. Values of every
// dtype are moved as words; gradients are summed in f32 or f64.
#include "backends/cuda/kernels/lookup/lookup.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "core/base/check.h"

#include <cstddef>

namespace sextant {
namespace {

using Made = std::unique_ptr<CudaKernel>;

// A shape seen as [before, along, after]: `count` dims from `dim` on are the middle one.
struct Middle {
  std::int64_t before = 1, along = 1, after = 1;
};
Middle middle_of(const Shape& shape, std::size_t dim, std::size_t count) {
  Middle view;
  for (std::size_t d = 0; d < shape.rank(); ++d)
    (d < dim ? view.before : d < dim + count ? view.along : view.after) *= shape[d];
  return view;
}

// `index_dims` dims of what was found stand for the one of the table.
CudaLookup lookup_of(const KernelContext& call, const KernelOperand& table,
                     const KernelOperand& found, std::size_t index_dims) {
  const auto dim = static_cast<std::size_t>(call.attributes().integer("dim"));
  const Middle in_table = middle_of(table.local.shape, dim, 1);
  const Middle in_found = middle_of(found.local.shape, dim, index_dims);
  require(in_table.before == in_found.before && in_table.after == in_found.after,
          ErrorCode::kInternal, "'{}': {} is looked up in {}", call.actor->name,
          to_string(found.local.shape), to_string(table.local.shape));
  CudaLookup lookup;
  lookup.indices = call.in[1].data;
  lookup.is_wide = call.in[1].local.dtype == DType::kI64;
  lookup.offset = table.box.dims[dim].offset;
  lookup.before = in_table.before;
  lookup.after = in_table.after;
  lookup.table_along = in_table.along;
  lookup.found_along = in_found.along;
  lookup.from = call.in[0].data;
  lookup.to = call.out[0].data;
  lookup.from_type = call.in[0].local.dtype;
  lookup.to_type = call.out[0].local.dtype;
  lookup.accumulate = call.accumulate[0];
  return lookup;
}

void require_same_dtype(const KernelContext& call) {
  require(call.in[0].local.dtype == call.out[0].local.dtype, ErrorCode::kInternal,
          "'{}' looks {} up in {}", call.actor->name, to_string(call.out[0].local.dtype),
          to_string(call.in[0].local.dtype));
}

Made make_gather(const KernelContext& call, CudaContext& /*device*/) {
  require_same_dtype(call);
  return cuda_launch(enqueue_take,
                     lookup_of(call, call.in[0], call.out[0], call.in[1].local.shape.rank()));
}

Made make_take_along_dim(const KernelContext& call, CudaContext& /*device*/) {
  require_same_dtype(call);
  CudaLookup lookup = lookup_of(call, call.in[0], call.out[0], 1);
  lookup.per_element = true;
  return cuda_launch(enqueue_take, lookup);
}

Made make_scatter_add(const KernelContext& call, CudaContext& /*device*/) {
  return cuda_launch(enqueue_put_sums,
                     lookup_of(call, call.out[0], call.in[0], call.in[1].local.shape.rank()));
}

Made make_add_along_dim(const KernelContext& call, CudaContext& /*device*/) {
  CudaLookup lookup = lookup_of(call, call.out[0], call.in[0], 1);
  lookup.per_element = true;
  return cuda_launch(enqueue_put_sums, lookup);
}

Made make_one_hot(const KernelContext& call, CudaContext& /*device*/) {
  const KernelOperand& classes = call.out[0];
  const std::size_t last = classes.local.shape.rank() - 1;
  CudaOneHot one_hot;
  one_hot.indices = call.in[0].data;
  one_hot.is_wide = call.in[0].local.dtype == DType::kI64;
  one_hot.offset = classes.box.dims[last].offset;
  one_hot.count = call.in[0].local.shape.elements();
  one_hot.classes = classes.local.shape[last];
  one_hot.to = classes.data;
  one_hot.type = classes.local.dtype;
  one_hot.accumulate = call.accumulate[0];
  return cuda_launch(enqueue_one_hot, one_hot);
}

}  // namespace

void add_cuda_lookup(CudaKernelTable& table) {
  table.add("gather", make_gather);
  table.add("take_along_dim", make_take_along_dim);
  table.add("scatter_add", make_scatter_add);
  table.add("add_along_dim", make_add_along_dim);
  table.add("one_hot", make_one_hot);
}

}  // namespace sextant
