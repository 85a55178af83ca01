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

// Nothing where products of the head are never made together.
std::optional<MatmulHead> if_joinable(std::optional<MatmulHead> head) {
  if (!head || size_of(head->product.in).value != 2) return std::nullopt;
  return head;
}

std::optional<MatmulHead> head_of_matmul(const KernelContext& call) {
  std::optional<MatmulHead> head = matmul_head(call, call.out[0]);
  if (head && call.accumulate[0]) head->addresses.c = head->addresses.d;
  return if_joinable(std::move(head));
}

std::optional<MatmulHead> head_of_matmul_bias(const KernelContext& call) {
  MemberCalls members(call);
  if (members[0].out[0].data != nullptr) return std::nullopt;
  std::optional<MatmulHead> head = matmul_head(members[0], members[1].out[0]);
  if (!head || !add_bias(*head, members[1])) return std::nullopt;
  if (members[1].accumulate[0]) head->addresses.c = head->addresses.d;
  return if_joinable(std::move(head));
}

std::optional<MatmulHead> head_of_grad_weight(const KernelContext& call) {
  return if_joinable(grad_weight_head(call));
}

// Of the product alone.
std::optional<MatmulHead> head_of_grad_weight_bias(const KernelContext& call) {
  MemberCalls members(call);
  return if_joinable(grad_weight_head(members[0]));
}

using HeadOf = std::optional<MatmulHead> (*)(const KernelContext&);

template <HeadOf head_of>
std::string key_of_head(const KernelContext& call) {
  const std::optional<MatmulHead> head = head_of(call);
  return head ? ProductCall(head->product, head->addresses).key() : std::string();
}

template <HeadOf head_of>
Heads heads_of(std::span<const KernelContext> calls, const CudaContext& device) {
  Heads heads;
  for (const KernelContext& call : calls) {
    heads.push_back(*head_of(call));
    heads.back().product.processors = device.processors();
  }
  return heads;
}

// In one call, if that is faster than as many like `alone`, after which `more` seconds less are
// left to do.
std::unique_ptr<CudaKernel> make_batch(const Heads& heads, const ProductCall& alone, double more,
                                       CudaContext& device) {
  std::vector<ProductAddresses> addresses;
  for (const MatmulHead& head : heads) addresses.push_back(head.addresses);
  return make_product_batch(heads[0].product, addresses, alone, more, device);
}

template <HeadOf head_of>
std::unique_ptr<CudaKernel> make_alike(std::span<const KernelContext> calls,
                                       const CudaKernelTable& /*table*/, CudaContext& device) {
  const Heads heads = heads_of<head_of>(calls, device);
  return make_batch(heads, ProductCall(heads[0].product, heads[0].addresses), 0, device);
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

// Alone, a product may be faster with the sum as its epilogue.
std::unique_ptr<CudaKernel> make_grad_weights_and_sums(std::span<const KernelContext> calls,
                                                       const CudaKernelTable& table,
                                                       CudaContext& device) {
  const Heads heads = heads_of<head_of_grad_weight_bias>(calls, device);
  MatmulHead fused = heads[0];
  add_sum(fused, MemberCalls(calls[0])[0], device.workspace());
  const ProductCall with_sum(fused.product, fused.addresses);
  const ProductCall plain(heads[0].product, heads[0].addresses);
  const bool is_fused = device.products().of(with_sum, device).has_value();
  const double sums =
      static_cast<double>(calls.size()) * device.products().seconds_of_members(with_sum);
  std::vector<std::unique_ptr<CudaKernel>> kernels;
  kernels.push_back(make_batch(heads, is_fused ? with_sum : plain, is_fused ? sums : 0, device));
  if (kernels[0] == nullptr) return nullptr;
  std::deque<MemberCalls> members;
  std::vector<KernelContext> sums_of;
  for (const KernelContext& call : calls) sums_of.push_back(members.emplace_back(call)[1]);
  for (std::span<const KernelContext> left = sums_of; !left.empty();) {
    CudaKernelOfCalls made = first_sums(left, table, device);
    if (made.kernel == nullptr) return nullptr;
    kernels.push_back(std::move(made.kernel));
    left = left.subspan(made.num_calls);
  }
  return in_sequence(std::move(kernels));
}

template <HeadOf head_of>
void add_alike(CudaKernelTable& table, const char* kind) {
  table.add_together(kind, key_of_head<head_of>, make_alike<head_of>);
}

}  // namespace

void add_cuda_matmul_together(CudaKernelTable& table) {
  add_alike<head_of_matmul>(table, "matmul");
  add_alike<head_of_matmul_bias>(table, "matmul_bias");
  add_alike<head_of_grad_weight>(table, "matmul_grad_weight");
  table.add_together("matmul_grad_weight_bias", key_of_head<head_of_grad_weight_bias>,
                     make_grad_weights_and_sums);
}

}  // namespace sextant
