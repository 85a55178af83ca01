// Which function an operator is, its attributes, and how its operands stretch.
#include "backends/cuda/kernels/pointwise/elementwise.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/pointwise/strided_operands.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

// bias_add stretches as any other operand: the bias has the trailing dims of x.
constexpr std::pair<std::string_view, Function> kFunctions[] = {
    {"where", Function::kWhere},
    {"equal", Function::kEqual},
    {"not_equal", Function::kNotEqual},
    {"less", Function::kLess},
    {"less_equal", Function::kLessEqual},
    {"greater", Function::kGreater},
    {"greater_equal", Function::kGreaterEqual},
    {"logical_not", Function::kLogicalNot},
    {"logical_and", Function::kLogicalAnd},
    {"logical_or", Function::kLogicalOr},
    {"add", Function::kAdd},
    {"bias_add", Function::kAdd},
    {"sub", Function::kSub},
    {"mul", Function::kMul},
    {"div", Function::kDiv},
    {"maximum", Function::kMaximum},
    {"minimum", Function::kMinimum},
    {"abs", Function::kAbs},
    {"neg", Function::kNeg},
    {"sign", Function::kSign},
    {"square", Function::kSquare},
    {"relu", Function::kRelu},
    {"add_scalar", Function::kAddScalar},
    {"clamp", Function::kClamp},
    {"maximum_grad", Function::kMaximumGrad},
    {"minimum_grad", Function::kMinimumGrad},
    {"clamp_grad", Function::kClampGrad},
    {"scale", Function::kScale},
    {"pow", Function::kPow},
    {"exp", Function::kExp},
    {"log", Function::kLog},
    {"sqrt", Function::kSqrt},
    {"rsqrt", Function::kRsqrt},
    {"reciprocal", Function::kReciprocal},
    {"floor", Function::kFloor},
    {"round", Function::kRound},
    {"relu_grad", Function::kReluGrad},
    {"tanh", Function::kTanh},
    {"tanh_grad", Function::kTanhGrad},
    {"sigmoid", Function::kSigmoid},
    {"sigmoid_grad", Function::kSigmoidGrad},
    {"gelu", Function::kGelu},
    {"gelu_grad", Function::kGeluGrad},
    {"silu", Function::kSilu},
    {"silu_grad", Function::kSiluGrad},
};

Function function_of(const Actor& actor) {
  const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [&](const auto& entry) { return entry.first == actor.kind; });
  const Function function = found->second;
  if (function != Function::kGelu && function != Function::kGeluGrad) return function;
  if (actor.attributes.text("approximate") != "tanh") return function;
  return function == Function::kGelu ? Function::kGeluTanh : Function::kGeluTanhGrad;
}

// x < bound is the same for every f32 or narrower x.
double rounded_up(double bound) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto nearest = static_cast<float>(bound);
  return nearest < bound ? std::nextafter(nearest, kInfinity) : nearest;
}
double rounded_down(double bound) { return -rounded_up(-bound); }

void set_attributes(const Attributes& attributes, FunctionArguments& arguments) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (arguments.function) {
    case Function::kScale:
      arguments.a = attributes.real("factor");
      break;
    case Function::kAddScalar:
      arguments.a = attributes.real("value");
      break;
    case Function::kPow:
      arguments.a = attributes.real("exponent");
      break;
    case Function::kClamp:
    case Function::kClampGrad:
      arguments.a = attributes.real_or("min", -kInfinity);
      arguments.b = attributes.real_or("max", kInfinity);
      break;
    default:
      break;
  }
  if (arguments.function != Function::kClampGrad || arguments.dtype == DType::kF64) return;
  arguments.a = rounded_up(arguments.a);
  arguments.b = rounded_down(arguments.b);
}

void set_runs(const KernelContext& call, FunctionArguments& arguments) {
  std::vector<const KernelOperand*> in;
  for (const KernelOperand& operand : call.in) in.push_back(&operand);
  const OperandRuns runs = runs_of(in, call.out[0].local.shape, has_aligned_data(call.out[0]),
                                   16 / size_of(arguments.dtype).value);
  arguments.strides = runs.strides;
  arguments.is_one_run = runs.is_one_run;
  arguments.falls_into_packs = runs.falls_into_packs;
}

std::unique_ptr<CudaKernel> make_function(const KernelContext& call, CudaContext& /*device*/) {
  FunctionArguments arguments;
  arguments.function = function_of(*call.actor);
  arguments.dtype = call.in.back().local.dtype;
  for (std::size_t i = 0; i < call.in.size(); ++i) arguments.in[i] = call.in[i].data;
  arguments.out = call.out[0].data;
  arguments.accumulate = call.accumulate[0];
  arguments.elements = call.out[0].local.shape.elements();
  set_attributes(call.attributes(), arguments);
  set_runs(call, arguments);
  return cuda_launch(enqueue_function, arguments);
}

}  // namespace

void add_cuda_elementwise(CudaKernelTable& table) {
  // Operands that lie channels-last all do and have one shape.
  for (const auto& [kind, function] : kFunctions)
    table.add(std::string(kind), make_function, CudaKernelTable::Takes::kChannelsLast);
}

}  // namespace sextant
