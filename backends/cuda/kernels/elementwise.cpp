// Which operators the element-wise kernels serve.
#include "backends/cuda/kernels/elementwise.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/families.h"
#include "backends/cuda/kernels/launch.h"

#include <optional>

namespace sextant {
namespace {

std::optional<ElementwiseOp> elementwise_op(const Actor& actor) {
  if (actor.kind == "add") return ElementwiseOp::kAdd;
  if (actor.kind == "mul") return ElementwiseOp::kMul;
  if (actor.kind == "scale") return ElementwiseOp::kScale;
  if (actor.kind == "silu") return ElementwiseOp::kSilu;
  if (actor.kind != "gelu") return std::nullopt;
  return actor.attributes.text("approximate") == "tanh" ? ElementwiseOp::kGeluTanh
                                                        : ElementwiseOp::kGelu;
}

std::unique_ptr<CudaKernel> make_elementwise(const KernelContext& call, CudaContext& /*device*/) {
  const std::optional<ElementwiseOp> op = elementwise_op(*call.actor);
  if (!op) return nullptr;
  for (const auto* operands : {&call.in, &call.out})
    for (const KernelOperand& operand : *operands)
      if (operand.local != TensorType{call.out[0].local.shape, DType::kF32}) return nullptr;
  ElementwiseArguments arguments;
  arguments.op = *op;
  arguments.a = data_of<const float>(call.in[0]);
  if (call.in.size() > 1) arguments.b = data_of<const float>(call.in[1]);
  arguments.out = data_of<float>(call.out[0]);
  if (*op == ElementwiseOp::kScale)
    arguments.factor = static_cast<float>(call.actor->attributes.real("factor"));
  arguments.accumulate = call.accumulate[0];
  arguments.elements = call.out[0].local.shape.elements();
  return cuda_launch(enqueue_elementwise, arguments);
}

}  // namespace

void add_cuda_elementwise(CudaKernelTable& table) {
  for (const char* kind : {"add", "mul", "scale", "silu", "gelu"})
    table.add(kind, make_elementwise);
}

}  // namespace sextant
