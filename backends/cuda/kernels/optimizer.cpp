// Which operators the optimizer kernels serve, and their operands by position
// (core/operators/README.md, "Optimizer").
#include "backends/cuda/kernels/optimizer.h"

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/families.h"
#include "backends/cuda/kernels/launch.h"
#include "core/check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

static_assert(kStatsScratchBytes <= CudaContext::kWorkspaceBytes);

CudaFloat float_of(const KernelContext& call, const KernelOperand& operand) {
  switch (operand.local.dtype) {
    case DType::kF64:
      return CudaFloat::kF64;
    case DType::kF32:
      return CudaFloat::kF32;
    case DType::kBF16:
      return CudaFloat::kBF16;
    case DType::kF16:
      return CudaFloat::kF16;
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
      break;
  }
  fail(ErrorCode::kDevice, "'{}' ({}): {} is no floating type", call.actor->name, call.actor->kind,
       to_string(operand.local.dtype));
}

// Typed views that say what the kernels do not cover.
float* floats(const KernelContext& call, const KernelOperand& operand) {
  require(operand.local.dtype == DType::kF32, ErrorCode::kDevice,
          "'{}' ({}): the CUDA optimizer kernels keep states in f32, not {}", call.actor->name,
          call.actor->kind, to_string(operand.local.dtype));
  return data_of<float>(operand);
}
double* doubles(const KernelContext& call, const KernelOperand& operand) {
  require(operand.local.dtype == DType::kF64, ErrorCode::kDevice,
          "'{}' ({}): the CUDA optimizer kernels read control and statistics in f64, not {}",
          call.actor->name, call.actor->kind, to_string(operand.local.dtype));
  return data_of<double>(operand);
}

CudaRate rate_of(const Attributes& attributes) {
  CudaRate rate;
  rate.full = attributes.real("learning_rate");
  rate.warm_up = attributes.integer_or("warm_up", 0);
  const std::string schedule =
      attributes.contains("schedule") ? attributes.text("schedule") : "constant";
  if (schedule == "constant") return rate;
  rate.schedule = schedule == "linear" ? CudaSchedule::kLinear : CudaSchedule::kCosine;
  rate.minimum = attributes.real_or("minimum_rate", 0.0);
  rate.total = attributes.integer("total_updates");
  return rate;
}

CudaUpdateArguments update_arguments(const KernelContext& call, CudaUpdate update) {
  const Attributes& attributes = call.actor->attributes;
  CudaUpdateArguments arguments;
  arguments.update = update;
  arguments.gradient_type = float_of(call, call.in[0]);
  require(arguments.gradient_type != CudaFloat::kF64, ErrorCode::kDevice,
          "'{}' ({}): the CUDA optimizer kernels read gradients of f32, bf16 and f16, not f64",
          call.actor->name, call.actor->kind);
  arguments.gradient = call.in[0].data;
  arguments.control = doubles(call, call.in.back());
  arguments.rate = rate_of(attributes);
  arguments.decay = static_cast<float>(attributes.real("weight_decay"));
  arguments.momentum = static_cast<float>(attributes.real_or("momentum", 0.0));
  arguments.nesterov = attributes.boolean_or("nesterov", false);
  arguments.beta1 = attributes.real_or("beta1", 0.0);
  arguments.beta2 = attributes.real_or("beta2", 0.0);
  arguments.epsilon = static_cast<float>(attributes.real_or("epsilon", 0.0));
  arguments.elements = call.out[0].local.shape.elements();
  return arguments;
}

// Parameter, moments, step.
std::unique_ptr<CudaKernel> make_update(const KernelContext& call, CudaUpdate update) {
  CudaUpdateArguments arguments = update_arguments(call, update);
  arguments.parameter = floats(call, call.out[0]);
  if (update != CudaUpdate::kSgd) arguments.m = floats(call, call.out[1]);
  if (update == CudaUpdate::kAdamW) arguments.v = floats(call, call.out[2]);
  arguments.step = data_of<std::int64_t>(call.out.back());
  return cuda_launch(enqueue_update, std::vector{arguments});
}

std::unique_ptr<CudaKernel> make_lamb_direction(const KernelContext& call,
                                                CudaContext& /*device*/) {
  CudaUpdateArguments arguments = update_arguments(call, CudaUpdate::kLambDirection);
  arguments.parameter = floats(call, call.in[1]);
  arguments.direction = floats(call, call.out[0]);
  arguments.m = floats(call, call.out[1]);
  arguments.v = floats(call, call.out[2]);
  arguments.step = data_of<std::int64_t>(call.out[3]);
  arguments.rate_used = doubles(call, call.out[4]);
  return cuda_launch(enqueue_update, std::vector{arguments});
}

std::unique_ptr<CudaKernel> make_lamb_apply(const KernelContext& call, CudaContext& /*device*/) {
  CudaApplyArguments arguments;
  arguments.direction = floats(call, call.in[0]);
  arguments.norms = doubles(call, call.in[1]);
  arguments.rate = doubles(call, call.in[2]);
  arguments.control = doubles(call, call.in[3]);
  arguments.parameter = floats(call, call.out[0]);
  arguments.adapts = call.actor->attributes.boolean_or("adapts", true);
  arguments.elements = call.out[0].local.shape.elements();
  return cuda_launch(enqueue_lamb_apply, std::vector{arguments});
}

std::unique_ptr<CudaKernel> make_stats(const KernelContext& call, CudaContext& device) {
  CudaStatsArguments arguments;
  arguments.type = float_of(call, call.in[0]);
  arguments.x = call.in[0].data;
  if (call.in.size() > 1) arguments.y = call.in[1].data;
  arguments.stats = doubles(call, call.out[0]);
  arguments.scratch = static_cast<double*>(device.workspace());
  arguments.elements = call.in[0].local.shape.elements();
  return cuda_launch(enqueue_stats, std::vector{arguments});
}

std::unique_ptr<CudaKernel> make_add_stats(const KernelContext& call, CudaContext& /*device*/) {
  std::vector<CudaAddStatsArguments> all;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (i % kStatsAtOnce == 0) {
      all.emplace_back();
      all.back().begins = i == 0;
      all.back().stats = doubles(call, call.out[0]);
    }
    all.back().inputs[all.back().count++] = doubles(call, call.in[i]);
  }
  return cuda_launch(enqueue_add_stats, std::move(all));
}

std::unique_ptr<CudaKernel> make_control(const KernelContext& call, CudaContext& /*device*/) {
  CudaControlArguments arguments;
  arguments.token_type = float_of(call, call.in[0]);
  arguments.tokens = call.in[0].data;
  arguments.control = doubles(call, call.out[0]);
  arguments.limit = call.actor->attributes.real_or("max_norm", 0.0);
  arguments.constant = call.actor->attributes.real_or("loss_scale", 1.0);
  if (call.in.size() > 1) {
    arguments.stats = doubles(call, call.in[1]);
    arguments.norm = doubles(call, call.out[1]);
  }
  if (call.in.size() > 2) {
    arguments.scale_type = float_of(call, call.in[2]);
    arguments.scale = call.in[2].data;
    arguments.scale_used = doubles(call, call.out[2]);
  }
  return cuda_launch(enqueue_control, std::vector{arguments});
}

std::unique_ptr<CudaKernel> make_loss_scale(const KernelContext& call, CudaContext& /*device*/) {
  const Attributes& attributes = call.actor->attributes;
  CudaLossScaleArguments arguments;
  arguments.control = doubles(call, call.in[0]);
  arguments.stats = doubles(call, call.in[1]);
  arguments.scale_type = float_of(call, call.out[0]);
  arguments.scale = call.out[0].data;
  arguments.updates = data_of<std::int64_t>(call.out[1]);
  arguments.growth = attributes.real("growth");
  arguments.backoff = attributes.real("backoff");
  arguments.minimum = attributes.real("minimum");
  arguments.interval = attributes.integer("interval");
  return cuda_launch(enqueue_loss_scale, std::vector{arguments});
}

template <CudaUpdate update>
std::unique_ptr<CudaKernel> make_update_kernel(const KernelContext& call, CudaContext& /*device*/) {
  return make_update(call, update);
}

}  // namespace

void add_cuda_optimizer(CudaKernelTable& table) {
  table.add("sgd", make_update_kernel<CudaUpdate::kSgd>);
  table.add("momentum", make_update_kernel<CudaUpdate::kMomentum>);
  table.add("adamw", make_update_kernel<CudaUpdate::kAdamW>);
  table.add("lamb_direction", make_lamb_direction);
  table.add("lamb_apply", make_lamb_apply);
  table.add("gradient_stats", make_stats);
  table.add("lamb_norms", make_stats);
  table.add("add_stats", make_add_stats);
  table.add("update_control", make_control);
  table.add("loss_scale_update", make_loss_scale);
}

}  // namespace sextant
