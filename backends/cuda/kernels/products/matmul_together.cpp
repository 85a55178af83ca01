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
std::string key_of(const KernelContext& call) {
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
std::unique_ptr<CudaKernel> make(std::span<const KernelContext> calls,
                                 const CudaKernelTable& /*table*/, CudaContext& device) {
  const Heads heads = heads_of<head_of>(calls, device);
  return make_batch(heads, ProductCall(heads[0].product, heads[0].addresses), 0, device);
}

// Alone, a product may be faster with the sum as its epilogue.
std::unique_ptr<CudaKernel> make_grad_weight_bias(std::span<const KernelContext> calls,
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
  for (const KernelContext& call : calls) {
    MemberCalls members(call);
    kernels.push_back(table.make(members[1], device));
    if (kernels.back() == nullptr) return nullptr;
  }
  return in_sequence(std::move(kernels));
}

template <HeadOf head_of>
void add(CudaKernelTable& table, const char* kind) {
  table.add_together(kind, key_of<head_of>, make<head_of>);
}

}  // namespace

void add_cuda_matmul_together(CudaKernelTable& table) {
  add<head_of_matmul>(table, "matmul");
  add<head_of_matmul_bias>(table, "matmul_bias");
  add<head_of_grad_weight>(table, "matmul_grad_weight");
  table.add_together("matmul_grad_weight_bias", key_of<head_of_grad_weight_bias>,
                     make_grad_weight_bias);
}

}  // namespace sextant
