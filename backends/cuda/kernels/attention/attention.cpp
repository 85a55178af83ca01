// Attention, whole and in the chunks of a ring, its gradient and the merge: operands to arguments,
// and which of the kernels serves a call.
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/attention/attention_call.h"
#include "backends/cuda/kernels/attention/attention_cudnn.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "core/base/check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <memory>

namespace sextant {
namespace {

void require_groups(const KernelContext& call, const AttentionShape& shape) {
  if (shape.heads == 0) return;
  require(shape.group > 0 && shape.kv_head_of(0) >= 0 &&
              shape.kv_head_of(shape.heads - 1) < shape.kv_heads,
          ErrorCode::kInternal,
          "'{}' ({}): query heads from {} on, {} of them, read other key/value heads than the {} "
          "from {} on",
          call.actor->name, call.actor->kind, shape.first_head, shape.heads, shape.kv_heads,
          shape.first_kv_head);
}

}  // namespace

AttentionShape attention_shape(const KernelContext& call) {
  const KernelOperand &q = call.in[0], &k = call.in[1], &v = call.in[2];
  const Attributes& attributes = call.attributes();
  AttentionShape shape;
  shape.batch = q.local.shape[0];
  shape.queries = q.local.shape[1];
  shape.keys = k.local.shape[1];
  shape.heads = q.local.shape[2];
  shape.kv_heads = k.local.shape[2];
  shape.size = q.local.shape[3];
  shape.value_size = v.local.shape[3];
  shape.first_query = q.box.dims[1].offset;
  shape.first_key = k.box.dims[1].offset;
  shape.group =
      attributes.integer_or("group", shape.kv_heads > 0 ? shape.heads / shape.kv_heads : 1);
  if (attributes.contains("group")) {
    shape.first_head = q.box.dims[2].offset;
    shape.first_kv_head = k.box.dims[2].offset;
  }
  shape.chunk = attributes.integer_or("chunk", 0);
  shape.shift = attributes.integer_or("shift", 0);
  shape.causal = attributes.boolean_or("causal", true);
  shape.scale = attributes.real_or("scale", 1.0 / std::sqrt(static_cast<double>(shape.size)));
  require_groups(call, shape);
  return shape;
}

AttentionArguments attention_arguments(const KernelContext& call) {
  AttentionArguments arguments;
  arguments.shape = attention_shape(call);
  arguments.dtype = call.in[0].local.dtype;
  arguments.has_wide_out = call.out[0].local.dtype != arguments.dtype;
  arguments.q = call.in[0].data;
  arguments.k = call.in[1].data;
  arguments.v = call.in[2].data;
  arguments.o = call.out[0].data;
  arguments.lse = call.out[1].data;
  arguments.accumulate_o = call.accumulate[0];
  arguments.accumulate_lse = call.accumulate[1];
  return arguments;
}

AttentionGradArguments attention_grad_arguments(const KernelContext& call) {
  AttentionGradArguments arguments;
  arguments.shape = attention_shape(call);
  arguments.dtype = call.in[0].local.dtype;
  arguments.has_wide_out = call.out[0].local.dtype != arguments.dtype;
  arguments.q = call.in[0].data;
  arguments.k = call.in[1].data;
  arguments.v = call.in[2].data;
  arguments.o = call.in[3].data;
  arguments.lse = call.in[4].data;
  arguments.d_o = call.in[5].data;
  arguments.dq = call.out[0].data;
  arguments.dk = call.out[1].data;
  arguments.dv = call.out[2].data;
  arguments.accumulate_dq = call.accumulate[0];
  arguments.accumulate_dk = call.accumulate[1];
  arguments.accumulate_dv = call.accumulate[2];
  return arguments;
}

std::unique_ptr<CudaKernel> make_general_attention(const KernelContext& call,
                                                   CudaContext& /*device*/) {
  return cuda_launch(enqueue_attention, attention_arguments(call));
}

namespace {

// The gradient with its sums per row in scratch.
class AttentionGrad final : public CudaKernel {
 public:
  using Enqueue = cudaError_t (*)(const AttentionGradArguments&, cudaStream_t);

  AttentionGrad(Enqueue enqueue, const AttentionGradArguments& arguments, CudaContext& device)
      : enqueue_(enqueue), arguments_(arguments), device_(device) {
    const AttentionShape& shape = arguments.shape;
    device.need_scratch(static_cast<std::size_t>(shape.batch * shape.queries * shape.heads) *
                        sizeof(double));
  }
  void enqueue(cudaStream_t stream) override {
    arguments_.delta = device_.scratch();
    SEXTANT_CUDA(enqueue_(arguments_, stream));
  }

 private:
  Enqueue enqueue_;
  AttentionGradArguments arguments_;
  CudaContext& device_;
};

}  // namespace

std::unique_ptr<CudaKernel> make_general_attention_grad(const KernelContext& call,
                                                        CudaContext& device) {
  return std::make_unique<AttentionGrad>(enqueue_attention_grad, attention_grad_arguments(call),
                                         device);
}

namespace {

bool suits_tensor_cores(const AttentionShape& shape, DType dtype,
                        std::initializer_list<const void*> addresses) {
  const auto is_aligned = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
  };
  const auto suits = [](std::int64_t size) {
    return size > 0 && size <= kMostHeadSize && size % 8 == 0;
  };
  return (dtype == DType::kBF16 || dtype == DType::kF16) && suits(shape.size) &&
         suits(shape.value_size) && std::all_of(addresses.begin(), addresses.end(), is_aligned);
}

}  // namespace

std::unique_ptr<CudaKernel> make_tensor_attention(const KernelContext& call,
                                                  CudaContext& /*device*/) {
  const AttentionArguments a = attention_arguments(call);
  if (!suits_tensor_cores(a.shape, a.dtype, {a.q, a.k, a.v, a.o})) return nullptr;
  return cuda_launch(a.dtype == DType::kBF16 ? enqueue_attention_bf16 : enqueue_attention_f16, a);
}

std::unique_ptr<CudaKernel> make_tensor_attention_grad(const KernelContext& call,
                                                       CudaContext& device) {
  const AttentionGradArguments a = attention_grad_arguments(call);
  if (!suits_tensor_cores(a.shape, a.dtype, {a.q, a.k, a.v, a.o, a.d_o, a.dq, a.dk, a.dv}))
    return nullptr;
  return std::make_unique<AttentionGrad>(
      a.dtype == DType::kBF16 ? enqueue_attention_grad_bf16 : enqueue_attention_grad_f16, a,
      device);
}

namespace {

std::unique_ptr<CudaKernel> make_attention_merge(const KernelContext& call,
                                                 CudaContext& /*device*/) {
  AttentionMergeArguments arguments;
  arguments.dtype = call.in[0].local.dtype;
  arguments.a = call.in[0].data;
  arguments.lse_a = call.in[1].data;
  arguments.b = call.in[2].data;
  arguments.lse_b = call.in[3].data;
  arguments.o = call.out[0].data;
  arguments.lse = call.out[1].data;
  arguments.accumulate_o = call.accumulate[0];
  arguments.accumulate_lse = call.accumulate[1];
  const Shape& shape = call.in[0].local.shape;
  arguments.rows = call.in[1].local.shape.elements();
  arguments.size = shape[shape.rank() - 1];
  return cuda_launch(enqueue_attention_merge, arguments);
}

}  // namespace

void add_cuda_attention(CudaKernelTable& table) {
  for (const char* kind : {"attention", "attention_chunks"}) {
    table.add(kind, make_general_attention);
    table.add(kind, make_tensor_attention);
  }
  for (const char* kind : {"attention_grad", "attention_chunks_grad"}) {
    table.add(kind, make_general_attention_grad);
    table.add(kind, make_tensor_attention_grad);
  }
  table.add("attention", make_cudnn_attention);
  table.add("attention_grad", make_cudnn_attention_grad);
  table.add("attention_merge", make_attention_merge);
}

}  // namespace sextant
