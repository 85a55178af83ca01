// Which reductions over dims, and which operations on the groups that dims make, the kernels serve:
// all of core/operators/reductions/reduce.cpp but expand, of softmax.cpp and of norm_pieces.cpp, at
// any dims and words.
#include "backends/cuda/kernels/reductions/reduction.h"

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/reductions/dim_maps.h"
#include "backends/cuda/kernels/reductions/grouped.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/row_major.h"
#include "core/operators/reductions/reduced_dims.h"

namespace sextant {
namespace {

static_assert(kReductionScratchBytes <= CudaContext::kWorkspaceBytes);

ReducedDims dims_of(const KernelContext& call, std::size_t rank) {
  return ReducedDims(call.actor->kind, call.attributes(), rank);
}
ReducedDims weight_dims_of(const KernelContext& call, std::size_t rank) {
  return ReducedDims::all_but(call.actor->kind, call.attributes().integers("weight_dims"), rank);
}
std::vector<bool> all_dims(std::size_t rank) { return std::vector<bool>(rank, true); }

// x is input 0. Elements and outputs fall into x, and into a tensor of the dims `second`.
ReductionArguments reduction_arguments(const KernelContext& call, Reduction reduction,
                                       const std::vector<bool>& reduced,
                                       const std::vector<bool>& second, CudaContext& device) {
  const Shape& shape = call.in[0].local.shape;
  std::vector<bool> kept = reduced;
  kept.flip();
  const TwoStrides strides = {call.in[0].channels_last
                                  ? channels_last_strides(shape.extents())
                                  : strides_among(shape, all_dims(shape.rank())),
                              strides_among(shape, second)};
  ReductionArguments arguments;
  arguments.reduction = reduction;
  arguments.dtype = call.in[0].local.dtype;
  arguments.out_dtype = call.out[0].local.dtype;
  arguments.x = call.in[0].data;
  arguments.out[0] = call.out[0].data;
  arguments.adds[0] = call.accumulate[0];
  arguments.kept = map_of(shape, kept, strides);
  arguments.reduced = map_of(shape, reduced, strides);
  arguments.scratch = device.workspace();
  return arguments;
}

ReductionArguments plain_reduction(const KernelContext& call, Reduction reduction,
                                   CudaContext& device) {
  const std::size_t rank = call.in[0].local.shape.rank();
  return reduction_arguments(call, reduction, dims_of(call, rank).reduced(),
                             std::vector<bool>(rank, false), device);
}

// Elements of x that fall to one output, on all ranks together.
double global_count(const KernelContext& call) {
  const Shape& global = call.in[0].layout->global.shape;
  return static_cast<double>(dims_of(call, global.rank()).count(global));
}

std::unique_ptr<CudaKernel> make_sum(const KernelContext& call, CudaContext& device) {
  return cuda_launch(enqueue_reduction, plain_reduction(call, Reduction::kSum, device));
}

// Of a shard, its share of the mean: its sum over the global count.
std::unique_ptr<CudaKernel> make_mean(const KernelContext& call, CudaContext& device) {
  ReductionArguments arguments = plain_reduction(call, Reduction::kSum, device);
  arguments.divisor = global_count(call);
  return cuda_launch(enqueue_reduction, arguments);
}

template <bool kIsMinimum>
std::unique_ptr<CudaKernel> make_extremum(const KernelContext& call, CudaContext& device) {
  ReductionArguments arguments = plain_reduction(call, Reduction::kMax, device);
  arguments.is_opposite = kIsMinimum;
  return cuda_launch(enqueue_reduction, arguments);
}

// A second input with a value per output; reduce_squares may lack it.
template <Reduction kReduction>
std::unique_ptr<CudaKernel> make_with_output_value(const KernelContext& call, CudaContext& device) {
  ReductionArguments arguments = plain_reduction(call, kReduction, device);
  if (call.in.size() > 1) arguments.of_output = call.in[1].data;
  return cuda_launch(enqueue_reduction, arguments);
}

void set_outputs(ReductionArguments& arguments, void* first, bool adds_first, void* second,
                 bool adds_second) {
  arguments.out[0] = first;
  arguments.out[1] = second;
  arguments.adds[0] = adds_first;
  arguments.adds[1] = adds_second;
}

std::unique_ptr<CudaKernel> make_dot(const KernelContext& call, CudaContext& device) {
  ReductionArguments arguments = plain_reduction(call, Reduction::kProducts, device);
  arguments.b = call.in[1].data;
  set_outputs(arguments, nullptr, false, call.out[0].data, call.accumulate[0]);
  return cuda_launch(enqueue_reduction, arguments);
}

// x[, mean], gamma, dy -> [sum_g,] sum_gx.
std::unique_ptr<CudaKernel> make_grad_sums(const KernelContext& call, CudaContext& device) {
  const bool is_centred = call.in.size() == 4;
  const std::size_t rank = call.in[0].local.shape.rank();
  ReductionArguments arguments =
      reduction_arguments(call, Reduction::kProducts, dims_of(call, rank).reduced(),
                          weight_dims_of(call, rank).kept(), device);
  if (is_centred) arguments.of_output = call.in[1].data;
  arguments.gamma = call.in[is_centred ? 2 : 1].data;
  arguments.b = call.in.back().data;
  set_outputs(arguments, is_centred ? call.out[0].data : nullptr, call.accumulate[0],
              call.out.back().data, call.accumulate.back());
  return cuda_launch(enqueue_reduction, arguments);
}

// x[, mean], rstd, dy -> dgamma[, dbeta].
std::unique_ptr<CudaKernel> make_piece_grad_weight(const KernelContext& call, CudaContext& device) {
  const bool is_centred = call.in.size() == 4;
  const std::size_t rank = call.in[0].local.shape.rank();
  ReductionArguments arguments =
      reduction_arguments(call, Reduction::kProducts, weight_dims_of(call, rank).reduced(),
                          dims_of(call, rank).kept(), device);
  if (is_centred) arguments.mean = call.in[1].data;
  arguments.rstd = call.in[is_centred ? 2 : 1].data;
  arguments.b = call.in.back().data;
  set_outputs(arguments, is_centred ? call.out[1].data : nullptr, call.accumulate.back(),
              call.out[0].data, call.accumulate[0]);
  return cuda_launch(enqueue_reduction, arguments);
}

// Elements are those of `shape`; their groups lie in tensors of the dims `first` and `second`.
GroupedArguments grouped_arguments(const KernelContext& call, GroupedOp op, const Shape& shape,
                                   const std::vector<bool>& first,
                                   const std::vector<bool>& second) {
  GroupedArguments arguments;
  arguments.op = op;
  arguments.dtype = call.in[0].local.dtype;
  arguments.x = call.in[0].data;
  arguments.out = call.out[0].data;
  arguments.adds = call.accumulate[0];
  arguments.map = map_of(shape, all_dims(shape.rank()),
                         {strides_among(shape, first), strides_among(shape, second)});
  return arguments;
}

GroupedArguments one_group(const KernelContext& call, GroupedOp op, const Shape& shape) {
  const std::vector<bool> kept = dims_of(call, shape.rank()).kept();
  return grouped_arguments(call, op, shape, kept, kept);
}

std::unique_ptr<CudaKernel> make_softmax(const KernelContext& call, CudaContext& /*device*/) {
  GroupedArguments arguments = one_group(call, GroupedOp::kSoftmax, call.in[0].local.shape);
  arguments.max = call.in[1].data;
  arguments.sum = call.in[2].data;
  return cuda_launch(enqueue_grouped, arguments);
}

std::unique_ptr<CudaKernel> make_softmax_grad(const KernelContext& call, CudaContext& /*device*/) {
  GroupedArguments arguments = one_group(call, GroupedOp::kSoftmaxGrad, call.in[0].local.shape);
  arguments.dy = call.in[1].data;
  arguments.dot = call.in[2].data;
  return cuda_launch(enqueue_grouped, arguments);
}

std::unique_ptr<CudaKernel> make_extremum_grad(const KernelContext& call, CudaContext& /*device*/) {
  GroupedArguments arguments = one_group(call, GroupedOp::kExtremumGrad, call.in[0].local.shape);
  arguments.y = call.in[1].data;
  arguments.count = call.in[2].data;
  arguments.dy = call.in[3].data;
  arguments.dy_dtype = call.in[3].local.dtype;
  return cuda_launch(enqueue_grouped, arguments);
}

GroupedArguments norm_piece(const KernelContext& call, GroupedOp op) {
  const Shape& shape = call.in[0].local.shape;
  return grouped_arguments(call, op, shape, dims_of(call, shape.rank()).kept(),
                           weight_dims_of(call, shape.rank()).kept());
}

// x, mean, rstd, gamma, beta or x, rstd, gamma.
std::unique_ptr<CudaKernel> make_normalize(const KernelContext& call, CudaContext& /*device*/) {
  const bool is_centred = call.in.size() == 5;
  GroupedArguments arguments = norm_piece(call, GroupedOp::kNormalize);
  if (is_centred) arguments.mean = call.in[1].data;
  arguments.rstd = call.in[is_centred ? 2 : 1].data;
  arguments.gamma = call.in[is_centred ? 3 : 2].data;
  if (is_centred) arguments.beta = call.in[4].data;
  return cuda_launch(enqueue_grouped, arguments);
}

// x, mean, rstd, gamma, sum_g, sum_gx, dy or x, rstd, gamma, sum_gx, dy.
std::unique_ptr<CudaKernel> make_normalize_grad(const KernelContext& call,
                                                CudaContext& /*device*/) {
  const bool is_centred = call.in.size() == 7;
  GroupedArguments arguments = norm_piece(call, GroupedOp::kNormalizeGrad);
  if (is_centred) arguments.mean = call.in[1].data;
  arguments.rstd = call.in[is_centred ? 2 : 1].data;
  arguments.gamma = call.in[is_centred ? 3 : 2].data;
  if (is_centred) arguments.sum_g = call.in[4].data;
  arguments.sum_gx = call.in[call.in.size() - 2].data;
  arguments.dy = call.in.back().data;
  arguments.elements_of_group = global_count(call);
  arguments.has_sums_of_weights =
      call.attributes().contains("sums") && call.attributes().text("sums") == "of_weights";
  return cuda_launch(enqueue_grouped, arguments);
}

}  // namespace

cudaError_t enqueue_reduction(const ReductionArguments& arguments, cudaStream_t stream) {
  switch (arguments.reduction) {
    case Reduction::kSum:
      return enqueue_sum(arguments, stream);
    case Reduction::kMax:
      return enqueue_extremum(arguments, stream);
    case Reduction::kSumExp:
    case Reduction::kSquares:
    case Reduction::kCount:
      return enqueue_piece(arguments, stream);
    case Reduction::kProducts:
      return enqueue_products(arguments, stream);
  }
  return cudaErrorInvalidValue;
}

void add_cuda_reduction(CudaKernelTable& table) {
  table.add("reduce_sum", make_sum);
  table.add("reduce_mean", make_mean, CudaKernelTable::Takes::kChannelsLast);
  table.add("reduce_max", make_extremum<false>);
  table.add("reduce_min", make_extremum<true>);
  table.add("reduce_dot", make_dot);
  table.add("reduce_sum_exp", make_with_output_value<Reduction::kSumExp>);
  table.add("reduce_squares", make_with_output_value<Reduction::kSquares>,
            CudaKernelTable::Takes::kChannelsLast);
  table.add("extremum_count", make_with_output_value<Reduction::kCount>);
  table.add("extremum_grad", make_extremum_grad);
  table.add("softmax", make_softmax);
  table.add("softmax_grad", make_softmax_grad);
  table.add("normalize", make_normalize);
  table.add("normalize_grad_input", make_normalize_grad);
  table.add("normalize_grad_sums", make_grad_sums);
  table.add("normalize_grad_weight", make_piece_grad_weight);
}

}  // namespace sextant
