// Which operators the kernels around the updates serve, and their operands by position
// (core/operators/README.md, "Optimizer").
#include "backends/cuda/kernels/training/optimizer.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"

namespace sextant {
namespace {

std::unique_ptr<CudaKernel> make_lamb_apply(const KernelContext& call, CudaContext& /*device*/) {
  const DType state = call.out[0].local.dtype;
  if (state != call.in[0].local.dtype || (state != DType::kF32 && state != DType::kF64))
    return nullptr;
  CudaApplyArguments arguments;
  arguments.direction = call.in[0].data;
  arguments.parameter = call.out[0].data;
  arguments.state_type = state;
  arguments.norms = call.in[1].data;
  arguments.norms_type = call.in[1].local.dtype;
  arguments.rate = call.in[2].data;
  arguments.rate_type = call.in[2].local.dtype;
  arguments.control = call.in[3].data;
  arguments.control_type = call.in[3].local.dtype;
  arguments.adapts = call.actor->attributes.boolean_or("adapts", true);
  arguments.elements = call.out[0].local.shape.elements();
  return cuda_launch(enqueue_lamb_apply, arguments);
}

std::unique_ptr<CudaKernel> make_control(const KernelContext& call, CudaContext& /*device*/) {
  CudaControlArguments arguments;
  arguments.tokens = call.in[0].data;
  arguments.token_type = call.in[0].local.dtype;
  arguments.control = data_of<double>(call.out[0]);
  arguments.adds_control = call.accumulate[0];
  arguments.limit = call.actor->attributes.real_or("max_norm", 0.0);
  arguments.constant = call.actor->attributes.real_or("loss_scale", 1.0);
  if (call.in.size() > 1) {
    arguments.stats = data_of<const double>(call.in[1]);
    arguments.norm = data_of<double>(call.out[1]);
    arguments.adds_norm = call.accumulate[1];
  }
  if (call.in.size() > 2) {
    arguments.scale = call.in[2].data;
    arguments.scale_type = call.in[2].local.dtype;
    arguments.scale_used = data_of<double>(call.out[2]);
    arguments.adds_scale = call.accumulate[2];
  }
  return cuda_launch(enqueue_control, arguments);
}

std::unique_ptr<CudaKernel> make_loss_scale(const KernelContext& call, CudaContext& /*device*/) {
  const Attributes& attributes = call.actor->attributes;
  CudaLossScaleArguments arguments;
  arguments.control = call.in[0].data;
  arguments.control_type = call.in[0].local.dtype;
  arguments.stats = data_of<const double>(call.in[1]);
  arguments.scale_type = call.out[0].local.dtype;
  arguments.scale = call.out[0].data;
  arguments.updates = data_of<std::int64_t>(call.out[1]);
  arguments.growth = attributes.real("growth");
  arguments.backoff = attributes.real("backoff");
  arguments.minimum = attributes.real("minimum");
  arguments.interval = attributes.integer("interval");
  return cuda_launch(enqueue_loss_scale, arguments);
}

}  // namespace

void add_cuda_optimizer(CudaKernelTable& table) {
  table.add("lamb_apply", make_lamb_apply);
  table.add("update_control", make_control);
  table.add("loss_scale_update", make_loss_scale);
}

}  // namespace sextant
