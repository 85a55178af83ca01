// Matrix products with what follows them, as epilogues of cuBLASLt. Bias and gelu take the product
// as it was summed, where members round in between; what is added to a product of 16 bits may meet
// it rounded, as with members. Of two results each is rounded once. One exception: cuBLASLt's gelu,
// the form with tanh, is good to about 2^-11 |x|, so only 16-bit types use it.
//
// Left to the members: what cuBLASLt has no algorithm for, the other form of gelu, dims that are no
// multiple of 8 where a second matrix is written or read, results that accumulate behind a gelu.
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/products/matmul_any.h"
#include "backends/cuda/kernels/products/matmul_heads.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/kernels/shared/member_calls.h"

#include <optional>
#include <utility>

namespace sextant {
namespace {

// Whether somebody outside reads it.
bool is_wanted(const KernelOperand& out) { return out.data != nullptr; }

// The product of a matmul that nobody outside reads, written to `y` instead.
std::optional<MatmulHead> head_of(const KernelContext& matmul, const KernelOperand& y) {
  if (is_wanted(matmul.out[0])) return std::nullopt;
  return matmul_head(matmul, y);
}

// False where the last member adds something that is stretched, or adds to what is there.
bool add_other(MatmulHead& head, const KernelContext& add) {
  const KernelOperand& other = add.in[is_wanted(add.in[0]) ? 0 : 1];
  if (other.local != add.out[0].local || add.accumulate[0]) return false;
  head.addresses.c = other.data;
  return true;
}

bool has_gelu(const MatmulHead& head, const KernelContext& gelu) {
  const bool is_16_bit = head.product.out == DType::kBF16 || head.product.out == DType::kF16;
  return is_16_bit && gelu.attributes().text("approximate") == "tanh" && !gelu.accumulate[0];
}

// The second matrix of an epilogue has columns of whole 16 bytes.
bool set_aux(MatmulHead& head, std::byte* aux) {
  if (head.product.m % 8 != 0) return false;
  head.addresses.aux = aux;
  return true;
}

std::unique_ptr<CudaKernel> make(const MatmulHead& head, CudaContext& device) {
  return make_product(head.product, head.addresses, device);
}

std::unique_ptr<CudaKernel> make_matmul_bias(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  const KernelContext& bias_add = members[1];
  std::optional<MatmulHead> head = head_of(members[0], bias_add.out[0]);
  if (!head || !add_bias(*head, bias_add)) return nullptr;
  if (bias_add.accumulate[0]) head->addresses.c = head->addresses.d;
  return make(*head, device);
}

std::unique_ptr<CudaKernel> make_matmul_bias_gelu(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  const KernelContext &bias_add = members[1], &gelu = members[2];
  const KernelOperand& before = bias_add.out[0];
  std::optional<MatmulHead> head = head_of(members[0], gelu.out[0]);
  if (!head || !add_bias(*head, bias_add) || !has_gelu(*head, gelu) || bias_add.accumulate[0])
    return nullptr;
  if (is_wanted(before) && !set_aux(*head, before.data)) return nullptr;
  head->product.epilogue =
      is_wanted(before) ? ProductEpilogue::kGeluAuxBias : ProductEpilogue::kGeluBias;
  return make(*head, device);
}

std::unique_ptr<CudaKernel> make_matmul_bias_add(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  std::optional<MatmulHead> head = head_of(members[0], members[2].out[0]);
  if (!head || is_wanted(members[1].out[0]) || !add_bias(*head, members[1]) ||
      !add_other(*head, members[2]))
    return nullptr;
  return make(*head, device);
}

std::unique_ptr<CudaKernel> make_matmul_add(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  std::optional<MatmulHead> head = head_of(members[0], members[1].out[0]);
  if (!head || !add_other(*head, members[1])) return nullptr;
  return make(*head, device);
}

std::unique_ptr<CudaKernel> make_matmul_gelu_grad(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  const KernelContext& grad = members[1];
  const KernelOperand &before = grad.in[0], &y = grad.out[0];
  std::optional<MatmulHead> head = head_of(members[0], y);
  if (!head || before.local != y.local || !has_gelu(*head, grad) || !set_aux(*head, before.data))
    return nullptr;
  head->product.epilogue = ProductEpilogue::kGeluGrad;
  return make(*head, device);
}

// A sum that is written over where it should be added: made aside, then added.
class WithAddedSum final : public CudaKernel {
 public:
  WithAddedSum(std::unique_ptr<CudaKernel> product, const AddIntoArguments& add)
      : product_(std::move(product)), add_(add) {}
  void enqueue(cudaStream_t stream) override {
    product_->enqueue(stream);
    SEXTANT_CUDA(enqueue_add_into(add_, stream));
  }

 private:
  std::unique_ptr<CudaKernel> product_;
  AddIntoArguments add_;
};

// dw = x^T dy and db, the sum of the rows of dy.
std::unique_ptr<CudaKernel> make_grad_weight_bias(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  const KernelContext &product = members[0], &sum = members[1];
  const KernelOperand& db = sum.out[0];
  const DType out = product.out[0].local.dtype;
  std::optional<MatmulHead> head = grad_weight_head(product);
  if (!head || db.local != TensorType{Shape{product.in[1].local.shape.extents().back()}, out} ||
      size_of(db.local).value > kProductSumBytes ||
      (sum.accumulate[0] && size_of(out).value < 4))  // it would be rounded twice
    return nullptr;
  std::byte* const aside = static_cast<std::byte*>(device.workspace()) + kProductWorkspaceBytes;
  add_sum(*head, product, sum.accumulate[0] ? aside : db.data);
  auto kernel = make(*head, device);
  if (kernel == nullptr || !sum.accumulate[0]) return kernel;
  return std::make_unique<WithAddedSum>(
      std::move(kernel), AddIntoArguments{aside, out, db.data, out, db.local.shape.elements()});
}

}  // namespace

void add_cuda_matmul_fused(CudaKernelTable& table) {
  table.add("matmul_bias", make_matmul_bias);
  table.add("matmul_bias_gelu", make_matmul_bias_gelu);
  table.add("matmul_bias_add", make_matmul_bias_add);
  table.add("matmul_add", make_matmul_add);
  table.add("matmul_gelu_grad", make_matmul_gelu_grad);
  table.add("matmul_grad_weight_bias", make_grad_weight_bias);
}

}  // namespace sextant
