// The pieces of softmax cross-entropy that the loss kernels serve: their operands by position
// (core/operators/layers/loss.cpp).
#include "backends/cuda/kernels/lookup/loss.h"

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/kernels/shared/member_calls.h"
#include "core/operators/layers/loss.h"

#include <string>

namespace sextant {
namespace {

static_assert(kCrossEntropyScratchBytes <= CudaContext::kWorkspaceBytes);

std::int64_t classes_of(const KernelOperand& logits) {
  return logits.local.shape[logits.local.shape.rank() - 1];
}

std::int64_t rows_of(const KernelOperand& logits) {
  std::int64_t rows = 1;
  for (std::size_t dim = 0; dim + 1 < logits.local.shape.rank(); ++dim)
    rows *= logits.local.shape[dim];
  return rows;
}

LabelArguments label_arguments(const KernelContext& call, std::size_t labels) {
  LabelArguments arguments;
  arguments.labels = call.in[labels].data;
  arguments.is_wide = call.in[labels].local.dtype == DType::kI64;
  arguments.ignored = call.attributes().integer_or("ignore_index", kIgnoreIndex);
  arguments.first = call.in[0].box.dims.back().offset;
  arguments.classes = classes_of(call.in[0]);
  return arguments;
}

RowStatisticsArguments row_arguments(const KernelOperand& logits) {
  RowStatisticsArguments arguments;
  arguments.dtype = logits.local.dtype;
  arguments.x = logits.data;
  arguments.rows = rows_of(logits);
  arguments.classes = classes_of(logits);
  return arguments;
}

std::unique_ptr<CudaKernel> make_row_max(const KernelContext& call, CudaContext& /*device*/) {
  RowStatisticsArguments arguments = row_arguments(call.in[0]);
  arguments.max = call.out[0].data;
  arguments.adds_max = call.accumulate[0];
  return cuda_launch(enqueue_row_statistics, arguments);
}

std::unique_ptr<CudaKernel> make_row_sum_exp(const KernelContext& call, CudaContext& /*device*/) {
  RowStatisticsArguments arguments = row_arguments(call.in[0]);
  arguments.given_max = call.in[1].data;
  arguments.sum = call.out[0].data;
  arguments.adds_sum = call.accumulate[0];
  return cuda_launch(enqueue_row_statistics, arguments);
}

// Both over the same rows; a maximum that others complete is not what the sum needs.
std::unique_ptr<CudaKernel> make_row_max_sum_exp(const KernelContext& call,
                                                 CudaContext& /*device*/) {
  MemberCalls members(call);
  const KernelContext &max = members[0], &sum = members[1];
  if (max.out[0].data == nullptr || max.in[0].data != sum.in[0].data || max.accumulate[0])
    return nullptr;
  RowStatisticsArguments arguments = row_arguments(max.in[0]);
  arguments.max = max.out[0].data;
  arguments.sum = sum.out[0].data;
  arguments.adds_sum = sum.accumulate[0];
  return cuda_launch(enqueue_row_statistics, arguments);
}

std::unique_ptr<CudaKernel> make_pick(const KernelContext& call, CudaContext& /*device*/) {
  PickArguments arguments;
  arguments.dtype = call.in[0].local.dtype;
  arguments.x = call.in[0].data;
  arguments.labels = label_arguments(call, 1);
  arguments.picked = call.out[0].data;
  arguments.adds = call.accumulate[0];
  arguments.rows = rows_of(call.in[0]);
  return cuda_launch(enqueue_pick, arguments);
}

std::unique_ptr<CudaKernel> make_cross_entropy(const KernelContext& call, CudaContext& device) {
  CrossEntropyArguments arguments;
  arguments.dtype = call.out[0].local.dtype;
  arguments.max = call.in[1].data;
  arguments.sum = call.in[2].data;
  arguments.picked = call.in[3].data;
  arguments.labels = label_arguments(call, 4);
  const Shape& logits = call.in[0].layout->global.shape;
  arguments.labels.classes = logits[logits.rank() - 1];
  arguments.fault = device.fault_flag(
      "operator '" + call.actor->name + "' (cross_entropy): a label is neither a class, 0 to " +
      std::to_string(arguments.labels.classes - 1) + ", nor ignore_index " +
      std::to_string(arguments.labels.ignored));
  arguments.loss = call.out[0].data;
  arguments.tokens = call.out[1].data;
  arguments.adds_loss = call.accumulate[0];
  arguments.adds_tokens = call.accumulate[1];
  arguments.scratch = static_cast<double*>(device.workspace());
  arguments.rows = call.in[4].local.shape.elements();
  return cuda_launch(enqueue_cross_entropy, arguments);
}

std::unique_ptr<CudaKernel> make_cross_entropy_grad(const KernelContext& call,
                                                    CudaContext& /*device*/) {
  CrossEntropyGradArguments arguments;
  arguments.dtype = call.in[0].local.dtype;
  arguments.x = call.in[0].data;
  arguments.max = call.in[1].data;
  arguments.sum = call.in[2].data;
  arguments.labels = label_arguments(call, 3);
  arguments.dloss = call.in[4].data;
  const double smoothing = call.attributes().real_or("smoothing", 0.0);
  if (smoothing > 0) {
    arguments.share_label = 1 - smoothing;
    arguments.share_each = smoothing / static_cast<double>(call.attributes().integer("classes"));
  }
  arguments.dx = call.out[0].data;
  arguments.adds = call.accumulate[0];
  arguments.rows = rows_of(call.in[0]);
  return cuda_launch(enqueue_cross_entropy_grad, arguments);
}

}  // namespace

void add_cuda_loss(CudaKernelTable& table) {
  table.add("row_max", make_row_max);
  table.add("row_sum_exp", make_row_sum_exp);
  table.add("row_max_sum_exp", make_row_max_sum_exp);
  table.add("pick", make_pick);
  table.add("cross_entropy", make_cross_entropy);
  table.add("cross_entropy_grad", make_cross_entropy_grad);
}

}  // namespace sextant
