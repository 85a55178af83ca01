// Which operators are movement of elements: reshape, transpose, roll, expand, slice, pad, split,
// concat, box_local, and the sources constant and parameter. All dtypes, any layout: what an
// operand's box has is moved to where it lies in the other's.
#include "actor/calls/local_boxing.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/movement/moves.h"
#include "backends/cuda/kernels/shared/device_table.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/row_major.h"
#include "core/base/check.h"
#include "core/operators/reductions/reduced_dims.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Made = std::unique_ptr<CudaKernel>;

void require_same_dtype(const KernelContext& call, std::size_t in, std::size_t out) {
  require(call.in[in].local.dtype == call.out[out].local.dtype, ErrorCode::kInternal,
          "'{}' moves {} to {}", call.actor->name, to_string(call.in[in].local.dtype),
          to_string(call.out[out].local.dtype));
}

// One move from input 0 to output 0.
Made move_kernel(const KernelContext& call, std::vector<MoveDim> dims) {
  require_same_dtype(call, 0, 0);
  auto kernel = std::make_unique<Movement>();
  kernel->add(make_move(call.out[0].local.dtype, call.in[0].data, call.out[0].data, std::move(dims),
                        call.accumulate[0]));
  return kernel;
}

Made make_reshape(const KernelContext& call, CudaContext& /*device*/) {
  require(size_of(call.in[0].local) == size_of(call.out[0].local), ErrorCode::kInternal,
          "'{}': a part of {} is no part of {}", call.actor->name,
          to_string(call.in[0].local.shape), to_string(call.out[0].local.shape));
  if (call.in[0].data == call.out[0].data && !call.accumulate[0])
    return std::make_unique<Movement>();
  return move_kernel(call, {{call.out[0].local.shape.elements(), 1, 1}});
}

Made make_transpose(const KernelContext& call, CudaContext& /*device*/) {
  const auto& permutation = call.attributes().integers("permutation");
  const std::vector<std::int64_t> from = row_major_strides(call.in[0].local.shape.extents());
  const Shape& shape = call.out[0].local.shape;
  const std::vector<std::int64_t> to = row_major_strides(shape.extents());
  std::vector<MoveDim> dims;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim)
    dims.push_back({shape[dim], from[static_cast<std::size_t>(permutation[dim])], to[dim]});
  return move_kernel(call, std::move(dims));
}

// Repeats along the dims that a reduction would take. keep_dims changes no position: a dim of
// extent 1 takes no stride.
Made make_expand(const KernelContext& call, CudaContext& /*device*/) {
  const Shape& shape = call.out[0].local.shape;
  const ReducedDims reduced("expand", call.attributes(), shape.rank());
  const std::vector<std::int64_t> to = call.out[0].channels_last
                                           ? channels_last_strides(shape.extents())
                                           : row_major_strides(shape.extents());
  std::vector<MoveDim> dims(shape.rank());
  std::int64_t from = 1;
  for (std::size_t dim = shape.rank(); dim-- > 0;) {
    dims[dim] = {shape[dim], reduced.contains(dim) ? 0 : from, to[dim]};
    if (!reduced.contains(dim)) from *= shape[dim];
  }
  // In the order of the output: its innermost dim last.
  if (call.out[0].channels_last) std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  return move_kernel(call, std::move(dims));
}

// Per run of rows two pieces change places.
Made make_roll(const KernelContext& call, CudaContext& /*device*/) {
  require_same_dtype(call, 0, 0);
  const Shape& shape = call.in[0].local.shape;
  const auto dim = static_cast<std::size_t>(call.attributes().integer("dim"));
  std::int64_t runs = 1, row = 1;
  for (std::size_t d = 0; d < dim; ++d) runs *= shape[d];
  for (std::size_t d = dim + 1; d < shape.rank(); ++d) row *= shape[d];
  // All the way round is not at all, of a part too.
  const std::int64_t extent = call.in[0].layout->global.shape[dim];
  const std::int64_t shift = call.attributes().integer("shift") % std::max<std::int64_t>(extent, 1);
  require(shift <= shape[dim], ErrorCode::kInternal, "'{}' rolls a part of {} by {}",
          call.actor->name, to_string(shape), shift);
  const DType dtype = call.out[0].local.dtype;
  const std::int64_t run = shape[dim] * row, tail = shift * row, size = size_of(dtype).value;
  std::byte *x = call.in[0].data, *y = call.out[0].data;
  auto kernel = std::make_unique<Movement>();
  kernel->add(make_move(dtype, x, y + tail * size, {{runs, run, run}, {run - tail, 1, 1}},
                        call.accumulate[0]));
  kernel->add(make_move(dtype, x + (run - tail) * size, y, {{runs, run, run}, {tail, 1, 1}},
                        call.accumulate[0]));
  return kernel;
}

std::vector<std::int64_t> extents_of(const Shard& box) {
  std::vector<std::int64_t> extents;
  for (const Interval& interval : box.dims) extents.push_back(interval.extent);
  return extents;
}

// Element of the first index of `part` in a buffer that holds `box`.
std::int64_t offset_in(const Shard& box, const Shard& part) {
  std::int64_t offset = 0;
  for (std::size_t dim = 0; dim < part.dims.size(); ++dim)
    offset = offset * box.dims[dim].extent + part.dims[dim].offset - box.dims[dim].offset;
  return offset;
}

// `part`, which lies in both boxes, from one to the other.
CudaMove box_move(const Shard& part, const std::byte* from, const Shard& from_box, std::byte* to,
                  const Shard& to_box, DType dtype, bool adds) {
  if (part.is_empty()) return {};
  const std::vector<std::int64_t> from_strides = row_major_strides(extents_of(from_box));
  const std::vector<std::int64_t> to_strides = row_major_strides(extents_of(to_box));
  std::vector<MoveDim> dims;
  for (std::size_t dim = 0; dim < part.dims.size(); ++dim)
    dims.push_back({part.dims[dim].extent, from_strides[dim], to_strides[dim]});
  const std::int64_t size = size_of(dtype).value;
  return make_move(dtype, from + offset_in(from_box, part) * size,
                   to + offset_in(to_box, part) * size, std::move(dims), adds);
}

// Pieces of inputs that go to places of outputs along the dim of the operator. What an output's box
// has and no input does is zero.
class Cutting {
 public:
  explicit Cutting(const KernelContext& call)
      : call_(call), dim_(static_cast<std::size_t>(call.attributes().integer("dim"))) {}

  // Element `at` of input `in` along the dim is element `at + by` of output `out`.
  void put(std::size_t in, std::size_t out, std::int64_t by) {
    require_same_dtype(call_, in, out);
    const KernelOperand &x = call_.in[in], &y = call_.out[out];
    Shard from = x.box;
    from.dims[dim_].offset += by;
    const Shard part = intersect(from, y.box);
    if (part.is_empty()) return;
    moved_ += part.elements();
    moves_.push_back(
        box_move(part, x.data, from, y.data, y.box, y.local.dtype, call_.accumulate[out]));
  }

  // After the last piece of output `out`. Pieces do not overlap, so their number says whether they
  // are all. An output that accumulates keeps what it has: zeros would add nothing.
  void finish(std::size_t out) {
    const KernelOperand& y = call_.out[out];
    if (!call_.accumulate[out] && moved_ < y.local.shape.elements()) kernel_->add(fill_of(y, 0));
    for (const CudaMove& move : moves_) kernel_->add(move);
    moves_.clear();
    moved_ = 0;
  }
  Made kernel() { return std::move(kernel_); }

 private:
  const KernelContext& call_;
  std::size_t dim_;
  std::int64_t moved_ = 0;
  std::vector<CudaMove> moves_;
  std::unique_ptr<Movement> kernel_ = std::make_unique<Movement>();
};

Made shifted(const KernelContext& call, std::int64_t by) {
  Cutting cutting(call);
  cutting.put(0, 0, by);
  cutting.finish(0);
  return cutting.kernel();
}

Made make_slice(const KernelContext& call, CudaContext& /*device*/) {
  return shifted(call, -call.attributes().integer("start"));
}

Made make_pad(const KernelContext& call, CudaContext& /*device*/) {
  return shifted(call, call.attributes().integer("before"));
}

Made make_split(const KernelContext& call, CudaContext& /*device*/) {
  const auto& extents = call.attributes().integers("extents");
  Cutting cutting(call);
  std::int64_t start = 0;
  for (std::size_t part = 0; part < extents.size(); start += extents[part++]) {
    cutting.put(0, part, -start);
    cutting.finish(part);
  }
  return cutting.kernel();
}

Made make_concat(const KernelContext& call, CudaContext& /*device*/) {
  const auto& extents = call.attributes().integers("extents");
  Cutting cutting(call);
  std::int64_t start = 0;
  for (std::size_t part = 0; part < extents.size(); start += extents[part++])
    cutting.put(part, 0, start);
  cutting.finish(0);
  return cutting.kernel();
}

// Nothing where neutral elements other than zero would have to be added to what is there.
Made make_box_local(const KernelContext& call, CudaContext& /*device*/) {
  const KernelOperand& to = call.out[0];
  const DType dtype = to.local.dtype;
  const bool accumulate = call.accumulate[0];
  const std::optional<Shard> taken = taken_over(call);
  auto kernel = std::make_unique<Movement>();
  if (taken && call.in[0].data == to.data && !accumulate && call.in[0].box == to.box) return kernel;
  const bool is_whole = taken && taken->elements() == to.box.elements();
  const ReduceOp op = reduction_of(to.layout->words);
  if (accumulate && !is_whole && op != ReduceOp::kSum) return nullptr;
  if (!accumulate && !is_whole) kernel->add(fill_of(to, neutral_pattern(op, dtype)));
  if (taken)
    kernel->add(
        box_move(*taken, call.in[0].data, call.in[0].box, to.data, to.box, dtype, accumulate));
  return kernel;
}

// A constant that is added is one element, repeated.
class AddConstant final : public CudaKernel {
 public:
  AddConstant(const KernelContext& call, std::uint64_t pattern)
      : value_(std::vector<std::uint64_t>{pattern}) {
    const KernelOperand& y = call.out[0];
    move_ =
        make_move(y.local.dtype, value_.rows(), y.data, {{y.local.shape.elements(), 0, 1}}, true);
  }
  void enqueue(cudaStream_t stream) override { SEXTANT_CUDA(enqueue_move(move_, stream)); }

 private:
  DeviceTable<std::uint64_t> value_;
  CudaMove move_;
};

Made make_constant(const KernelContext& call, CudaContext& /*device*/) {
  const KernelOperand& y = call.out[0];
  const std::uint64_t pattern = pattern_of(y.local.dtype, call.attributes().real("value"));
  if (call.accumulate[0]) return std::make_unique<AddConstant>(call, pattern);
  auto kernel = std::make_unique<Movement>();
  kernel->add(fill_of(y, pattern));
  return kernel;
}

// Its contents are state and stay.
Made make_parameter(const KernelContext& /*call*/, CudaContext& /*device*/) {
  return std::make_unique<Movement>();
}

}  // namespace

void add_cuda_movement(CudaKernelTable& table) {
  table.add("reshape", make_reshape);
  table.add("transpose", make_transpose);
  table.add("expand", make_expand, CudaKernelTable::Takes::kChannelsLast);
  table.add("roll", make_roll);
  table.add("slice", make_slice);
  table.add("pad", make_pad);
  table.add("split", make_split);
  table.add("concat", make_concat);
  table.add("box_local", make_box_local);
  table.add("constant", make_constant);
  table.add("parameter", make_parameter);
}

}  // namespace sextant
