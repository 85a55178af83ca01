// Which operators the optimizer kernels serve, and their operands by position
// (core/operators/README.md, "Optimizer").
#include "backends/cuda/optimizer.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/cuda_libraries.h"
#include "core/check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

static_assert(kStatsScratchBytes <= CudaLibraries::kWorkspaceBytes);

template <typename Arguments>
class Launch final : public CudaKernel {
 public:
  using Enqueue = cudaError_t (*)(const Arguments&, cudaStream_t);
  Launch(Enqueue enqueue, std::vector<Arguments> all) : enqueue_(enqueue), all_(std::move(all)) {}
  void enqueue(cudaStream_t stream) override {
    for (const Arguments& arguments : all_) SEXTANT_CUDA(enqueue_(arguments, stream));
  }

 private:
  Enqueue enqueue_;
  std::vector<Arguments> all_;
};

template <typename Arguments>
std::unique_ptr<CudaKernel> launch(cudaError_t (*enqueue)(const Arguments&, cudaStream_t),
                                   std::vector<Arguments> all) {
  return std::make_unique<Launch<Arguments>>(enqueue, std::move(all));
}

CudaFloat float_of(const CudaCall& call, const CudaOperand& operand) {
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

template <typename T>
T* data_of(const CudaOperand& operand) {
  return static_cast<T*>(operand.data);
}

// Typed views that say what the kernels do not cover.
float* floats(const CudaCall& call, const CudaOperand& operand) {
  require(operand.local.dtype == DType::kF32, ErrorCode::kDevice,
          "'{}' ({}): the CUDA optimizer kernels keep states in f32, not {}", call.actor->name,
          call.actor->kind, to_string(operand.local.dtype));
  return data_of<float>(operand);
}
double* doubles(const CudaCall& call, const CudaOperand& operand) {
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

CudaUpdateArguments update_arguments(const CudaCall& call, CudaUpdate update) {
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
std::unique_ptr<CudaKernel> make_update(const CudaCall& call, CudaUpdate update) {
  CudaUpdateArguments arguments = update_arguments(call, update);
  arguments.parameter = floats(call, call.out[0]);
  if (update != CudaUpdate::kSgd) arguments.m = floats(call, call.out[1]);
  if (update == CudaUpdate::kAdamW) arguments.v = floats(call, call.out[2]);
  arguments.step = data_of<std::int64_t>(call.out.back());
  return launch(enqueue_update, std::vector{arguments});
}

std::unique_ptr<CudaKernel> make_lamb_direction(const CudaCall& call) {
  CudaUpdateArguments arguments = update_arguments(call, CudaUpdate::kLambDirection);
  arguments.parameter = floats(call, call.in[1]);
  arguments.direction = floats(call, call.out[0]);
  arguments.m = floats(call, call.out[1]);
  arguments.v = floats(call, call.out[2]);
  arguments.step = data_of<std::int64_t>(call.out[3]);
  arguments.rate_used = doubles(call, call.out[4]);
  return launch(enqueue_update, std::vector{arguments});
}

std::unique_ptr<CudaKernel> make_lamb_apply(const CudaCall& call) {
  CudaApplyArguments arguments;
  arguments.direction = floats(call, call.in[0]);
  arguments.norms = doubles(call, call.in[1]);
  arguments.rate = doubles(call, call.in[2]);
  arguments.control = doubles(call, call.in[3]);
  arguments.parameter = floats(call, call.out[0]);
  arguments.adapts = call.actor->attributes.boolean_or("adapts", true);
  arguments.elements = call.out[0].local.shape.elements();
  return launch(enqueue_lamb_apply, std::vector{arguments});
}

std::unique_ptr<CudaKernel> make_stats(const CudaCall& call, CudaLibraries& libraries) {
  CudaStatsArguments arguments;
  arguments.type = float_of(call, call.in[0]);
  arguments.x = call.in[0].data;
  if (call.in.size() > 1) arguments.y = call.in[1].data;
  arguments.stats = doubles(call, call.out[0]);
  arguments.scratch = static_cast<double*>(libraries.workspace());
  arguments.elements = call.in[0].local.shape.elements();
  return launch(enqueue_stats, std::vector{arguments});
}

std::unique_ptr<CudaKernel> make_add_stats(const CudaCall& call) {
  std::vector<CudaAddStatsArguments> all;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (i % kStatsAtOnce == 0) {
      all.emplace_back();
      all.back().begins = i == 0;
      all.back().stats = doubles(call, call.out[0]);
    }
    all.back().inputs[all.back().count++] = doubles(call, call.in[i]);
  }
  return launch(enqueue_add_stats, std::move(all));
}

std::unique_ptr<CudaKernel> make_control(const CudaCall& call) {
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
  return launch(enqueue_control, std::vector{arguments});
}

std::unique_ptr<CudaKernel> make_loss_scale(const CudaCall& call) {
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
  return launch(enqueue_loss_scale, std::vector{arguments});
}

}  // namespace

std::unique_ptr<CudaKernel> make_optimizer(const CudaCall& call, CudaLibraries& libraries) {
  const std::string& kind = call.actor->kind;
  if (kind == "sgd") return make_update(call, CudaUpdate::kSgd);
  if (kind == "momentum") return make_update(call, CudaUpdate::kMomentum);
  if (kind == "adamw") return make_update(call, CudaUpdate::kAdamW);
  if (kind == "lamb_direction") return make_lamb_direction(call);
  if (kind == "lamb_apply") return make_lamb_apply(call);
  if (kind == "gradient_stats" || kind == "lamb_norms") return make_stats(call, libraries);
  if (kind == "add_stats") return make_add_stats(call);
  if (kind == "update_control") return make_control(call);
  if (kind == "loss_scale_update") return make_loss_scale(call);
  return nullptr;
}

}  // namespace sextant
