// Which operators the element-wise kernels serve.
#include "backends/cuda/elementwise.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_kernel.h"
#include "core/check.h"

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

class Elementwise final : public CudaKernel {
 public:
  explicit Elementwise(const ElementwiseArguments& arguments) : arguments_(arguments) {}
  void enqueue(cudaStream_t stream) override {
    SEXTANT_CUDA(enqueue_elementwise(arguments_, stream));
  }

 private:
  ElementwiseArguments arguments_;
};

}  // namespace

std::unique_ptr<CudaKernel> make_elementwise(const CudaCall& call) {
  const std::optional<ElementwiseOp> op = elementwise_op(*call.actor);
  if (!op) return nullptr;
  for (const auto* operands : {&call.in, &call.out})
    for (const CudaOperand& operand : *operands)
      require(operand.local.dtype == DType::kF32, ErrorCode::kDevice,
              "'{}' ({}): the CUDA element-wise kernels compute in f32, not {}", call.actor->name,
              call.actor->kind, to_string(operand.local.dtype));
  for (const CudaOperand& operand : call.in)
    require(operand.local.shape == call.out[0].local.shape, ErrorCode::kDevice,
            "'{}' ({}): the CUDA element-wise kernels stretch nothing, found {} for {}",
            call.actor->name, call.actor->kind, to_string(operand.local.shape),
            to_string(call.out[0].local.shape));
  ElementwiseArguments arguments;
  arguments.op = *op;
  arguments.a = static_cast<const float*>(call.in[0].data);
  if (call.in.size() > 1) arguments.b = static_cast<const float*>(call.in[1].data);
  arguments.out = static_cast<float*>(call.out[0].data);
  if (*op == ElementwiseOp::kScale)
    arguments.factor = static_cast<float>(call.actor->attributes.real("factor"));
  arguments.accumulate = call.accumulate[0];
  arguments.elements = call.out[0].local.shape.elements();
  return std::make_unique<Elementwise>(arguments);
}

}  // namespace sextant
