// Which operators work along lines: cumsum, first_index_of.
#include "backends/cuda/kernels/reductions/lines.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "core/base/check.h"
#include "core/operators/reductions/reduced_dims.h"

#include <cstddef>

namespace sextant {
namespace {

struct Lines {
  std::int64_t outer = 1, inner = 1;
};
Lines lines_of(const Shape& shape, std::size_t dim) {
  Lines lines;
  for (std::size_t d = 0; d < dim; ++d) lines.outer *= shape[d];
  for (std::size_t d = dim + 1; d < shape.rank(); ++d) lines.inner *= shape[d];
  return lines;
}

std::unique_ptr<CudaKernel> make_cumsum(const KernelContext& call, CudaContext& /*device*/) {
  const Attributes& attributes = call.attributes();
  const KernelOperand &x = call.in[0], &y = call.out[0];
  if (x.local.dtype != y.local.dtype) return nullptr;
  const std::size_t dim = normal_dim("cumsum", attributes.integer("dim"), x.local.shape.rank());
  const Lines from = lines_of(x.local.shape, dim), to = lines_of(y.local.shape, dim);
  require(from.outer == to.outer && from.inner == to.inner, ErrorCode::kInternal,
          "cumsum along dim {}: {} by {} lines come in, {} by {} go out", dim, from.outer,
          from.inner, to.outer, to.inner);
  CudaCumsum cumsum;
  cumsum.from = x.data;
  cumsum.to = y.data;
  cumsum.type = x.local.dtype;
  cumsum.outer = from.outer;
  cumsum.inner = from.inner;
  cumsum.from_offset = x.box.dims[dim].offset;
  cumsum.from_extent = x.box.dims[dim].extent;
  cumsum.to_offset = y.box.dims[dim].offset;
  cumsum.to_extent = y.box.dims[dim].extent;
  cumsum.reverse = attributes.boolean_or("reverse", false);
  cumsum.exclusive = attributes.boolean_or("exclusive", false);
  cumsum.accumulate = call.accumulate[0];
  return cuda_launch(enqueue_cumsum, cumsum);
}

std::unique_ptr<CudaKernel> make_first_index_of(const KernelContext& call,
                                                CudaContext& /*device*/) {
  const KernelOperand& x = call.in[0];
  if (call.in[1].local.dtype != x.local.dtype || call.out[0].local.dtype != DType::kI64)
    return nullptr;
  const Shape& shape = x.local.shape;
  const std::size_t dim =
      normal_dim("first_index_of", call.attributes().integer("dim"), shape.rank());
  const Lines lines = lines_of(shape, dim);
  CudaFirstIndex first_index;
  first_index.x = x.data;
  first_index.value = call.in[1].data;
  first_index.index = data_of<std::int64_t>(call.out[0]);
  first_index.type = x.local.dtype;
  first_index.outer = lines.outer;
  first_index.length = shape[dim];
  first_index.inner = lines.inner;
  first_index.offset = x.box.dims[dim].offset;
  first_index.accumulate = call.accumulate[0];
  return cuda_launch(enqueue_first_index, first_index);
}

}  // namespace

void add_cuda_lines(CudaKernelTable& table) {
  table.add("cumsum", make_cumsum);
  table.add("first_index_of", make_first_index_of);
}

}  // namespace sextant
