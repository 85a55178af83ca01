// Matmuls and gradients of weights of one size as one product, q, k and v of a layer for instance:
// alone, with a bias, or with the gradient of a bias, whose sums stay passes of their own then.
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/products/matmul_heads.h"
#include "backends/cuda/kernels/products/product_batch.h"
#include "backends/cuda/kernels/products/product_choices.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/member_calls.h"
#include "backends/cuda/kernels/shared/tables.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Heads = std::vector<MatmulHead>;

// Two results: dw, and db of the same dy.
bool has_sum(const KernelContext& call) { return call.actor->kind == "matmul_grad_weight_bias"; }

std::optional<MatmulHead> head_of_matmul(const KernelContext& call) {
  std::optional<MatmulHead> head = matmul_head(call, call.out[0]);
  if (head && call.accumulate[0]) head->addresses.c = head->addresses.d;
  return head;
}

std::optional<MatmulHead> head_of_matmul_bias(const KernelContext& call) {
  MemberCalls members(call);
  if (members[0].out[0].data != nullptr) return std::nullopt;
  std::optional<MatmulHead> head = matmul_head(members[0], members[1].out[0]);
  if (!head || !add_bias(*head, members[1])) return std::nullopt;
  if (members[1].accumulate[0]) head->addresses.c = head->addresses.d;
  return head;
}

// The product of a call, without the sum if it has one. Nothing where it is never made together.
std::optional<MatmulHead> joinable_head(const KernelContext& call) {
  const std::string& kind = call.actor->kind;
  std::optional<MatmulHead> head = kind == "matmul"        ? head_of_matmul(call)
                                   : kind == "matmul_bias" ? head_of_matmul_bias(call)
                                   : has_sum(call)         ? grad_weight_head(MemberCalls(call)[0])
                                                           : grad_weight_head(call);
  if (!head || size_of(head->product.in).value != 2) return std::nullopt;
  return head;
}

std::string key_of_head(const KernelContext& call) {
  const std::optional<MatmulHead> head = joinable_head(call);
  if (!head) return {};
  return "product " + ProductCall(head->product, head->addresses).key();
}

// By how much a product with the sum as its epilogue is faster than the two apart; 0 where it was
// measured to be slower.
double seconds_saved_by_epilogue(const KernelContext& call, const MatmulHead& head,
                                 CudaContext& device) {
  MatmulHead fused = head;
  add_sum(fused, MemberCalls(call)[0], device.workspace());
  const ProductCall with_sum(fused.product, fused.addresses);
  const auto one = device.products().of(with_sum, device);
  const auto two = device.products().of(ProductCall(head.product, head.addresses), device);
  if (!one || !two) return 0;
  const double apart = two->seconds + device.products().seconds_of_members(with_sum);
  return std::max(0.0, apart - one->seconds);
}

// Of all calls in one launch if they are of one key, else of the first.
CudaKernelOfCalls first_sums(std::span<const KernelContext> calls, const CudaKernelTable& table,
                             CudaContext& device) {
  const std::string key = table.key_together(calls[0]);
  const bool are_alike =
      !key.empty() && std::all_of(calls.begin(), calls.end(), [&](const KernelContext& call) {
        return table.key_together(call) == key;
      });
  CudaKernelOfCalls made;
  if (are_alike && calls.size() > 1) made = table.make_together(calls, device);
  if (made.kernel == nullptr) made = {table.make(calls[0], device), 1};
  return made;
}

// The products in one call; sums are passes of their own behind it.
std::unique_ptr<CudaKernel> make_products(std::span<const KernelContext> calls,
                                          const CudaKernelTable& table, CudaContext& device) {
  Heads heads;
  std::deque<MemberCalls> members;
  std::vector<KernelContext> sums;
  std::vector<ProductAddresses> addresses;
  for (const KernelContext& call : calls) {
    heads.push_back(*joinable_head(call));
    heads.back().product.processors = device.processors();
    addresses.push_back(heads.back().addresses);
    if (has_sum(call)) sums.push_back(members.emplace_back(call)[1]);
  }
  double more = 0;
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (has_sum(calls[i])) more += seconds_saved_by_epilogue(calls[i], heads[i], device);
  const ProductCall alone(heads[0].product, heads[0].addresses);
  std::vector<std::unique_ptr<CudaKernel>> kernels;
  kernels.push_back(make_product_batch(heads[0].product, addresses, alone, more, device));
  if (kernels[0] == nullptr) return nullptr;
  for (std::span<const KernelContext> left = sums; !left.empty();) {
    CudaKernelOfCalls made = first_sums(left, table, device);
    if (made.kernel == nullptr) return nullptr;
    kernels.push_back(std::move(made.kernel));
    left = left.subspan(made.num_calls);
  }
  return in_sequence(std::move(kernels));
}

}  // namespace

void add_cuda_matmul_together(CudaKernelTable& table) {
  for (const char* const kind :
       {"matmul", "matmul_bias", "matmul_grad_weight", "matmul_grad_weight_bias"})
    table.add_together(kind, key_of_head, make_products);
}

}  // namespace sextant
