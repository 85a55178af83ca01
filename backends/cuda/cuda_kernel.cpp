// Finding kernels for calls, several calls at a time where a family has a kernel for that.
#include "backends/cuda/cuda_kernel.h"

#include "backends/cuda/kernels/shared/families.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

std::string text_of(const KernelOperand& operand) {
  return to_string(operand.local.shape) + " " + std::string(to_string(operand.local.dtype));
}

std::string types_of(const KernelContext& call) {
  std::string text;
  for (const KernelOperand& in : call.in) text += text_of(in) + " ";
  text += "->";
  for (std::size_t i = 0; i < call.out.size(); ++i)
    text += " " + text_of(call.out[i]) + (call.accumulate[i] ? " (accumulated)" : "");
  return text;
}

// How many calls from the first on are of its kind.
std::size_t same_kind(std::span<const KernelContext> calls) {
  std::size_t count = 1;
  while (count < calls.size() && calls[count].actor->kind == calls[0].actor->kind) ++count;
  return count;
}

bool lies_row_major(const KernelContext& call) {
  const auto lies = [](const KernelOperand& operand) { return !operand.channels_last; };
  return std::all_of(call.in.begin(), call.in.end(), lies) &&
         std::all_of(call.out.begin(), call.out.end(), lies);
}

}  // namespace

void CudaKernelTable::add(std::string kind, Make make, Takes takes) {
  kernels_[std::move(kind)].push_back({make, takes});
}

void CudaKernelTable::add_many(std::string kind, MakeMany make) {
  many_[std::move(kind)].push_back(make);
}

void CudaKernelTable::add_together(std::string kind, Key key, MakeTogether make) {
  together_.insert_or_assign(std::move(kind), Together{key, make});
}

std::unique_ptr<CudaKernel> CudaKernelTable::make(const KernelContext& call,
                                                  CudaContext& device) const {
  const auto found = kernels_.find(call.actor->kind);
  if (found == kernels_.end()) return nullptr;
  const bool is_row_major = lies_row_major(call);
  for (auto maker = found->second.rbegin(); maker != found->second.rend(); ++maker)
    if (is_row_major || maker->takes == Takes::kChannelsLast)
      if (auto kernel = maker->make(call, device)) return kernel;
  return nullptr;
}

CudaKernelOfCalls CudaKernelTable::make_first(std::span<const KernelContext> calls,
                                              CudaContext& device) const {
  const auto found = many_.find(calls[0].actor->kind);
  if (found != many_.end()) {
    const std::size_t count = same_kind(calls);
    for (auto candidate = found->second.rbegin(); candidate != found->second.rend(); ++candidate)
      if (auto kernel = (*candidate)(calls.first(count), device)) return {std::move(kernel), count};
  }
  if (auto kernel = make(calls[0], device)) return {std::move(kernel), 1};
  const Actor& actor = *calls[0].actor;
  throw NoCudaKernel(ErrorCode::kDevice,
                     fmt::format("CUDA has no kernel for operator kind '{}' ('{}') on {}",
                                 actor.kind, actor.name, types_of(calls[0])));
}

std::vector<std::unique_ptr<CudaKernel>> CudaKernelTable::make_all(
    std::span<const KernelContext> calls, CudaContext& device) const {
  std::vector<std::unique_ptr<CudaKernel>> kernels;
  while (!calls.empty()) {
    CudaKernelOfCalls first = make_first(calls, device);
    kernels.push_back(std::move(first.kernel));
    calls = calls.subspan(first.num_calls);
  }
  return kernels;
}

std::string CudaKernelTable::key_together(const KernelContext& call) const {
  const auto found = together_.find(call.actor->kind);
  if (found == together_.end() || !lies_row_major(call)) return {};
  return found->second.key(call);
}

CudaKernelOfCalls CudaKernelTable::make_together(std::span<const KernelContext> group,
                                                 CudaContext& device) const {
  const MakeTogether make = together_.find(group[0].actor->kind)->second.make;
  for (std::size_t count = group.size(); count > 1; --count)
    if (auto kernel = make(group.first(count), *this, device)) return {std::move(kernel), count};
  return {nullptr, 0};
}

std::vector<std::string> CudaKernelTable::kinds() const {
  std::vector<std::string> kinds;
  for (const auto& [kind, makers] : kernels_) kinds.push_back(kind);
  for (const auto& [kind, makers] : many_)
    if (!kernels_.contains(kind)) kinds.push_back(kind);
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

CudaKernelTable cuda_kernels() {
  CudaKernelTable table;
  add_cuda_matmul(table);
  add_cuda_matmul_fused(table);
  add_cuda_matmul_together(table);
  add_cuda_quantize(table);
  add_cuda_scaled_matmul(table);
  add_cuda_elementwise(table);
  add_cuda_cast(table);
  add_cuda_normalize_images(table);
  add_cuda_bias(table);
  add_cuda_dropout(table);
  add_cuda_chains(table);
  add_cuda_lines(table);
  add_cuda_lookup(table);
  add_cuda_embedding(table);
  add_cuda_loss(table);
  add_cuda_moe(table);
  add_cuda_movement(table);
  add_cuda_norm(table);
  add_cuda_reduction(table);
  add_cuda_channels(table);
  add_cuda_running_statistic(table);
  add_cuda_optimizer(table);
  add_cuda_stats(table);
  add_cuda_updates(table);
  add_cuda_windows(table);
  add_cuda_attention(table);
  add_cuda_rope(table);
  return table;
}

}  // namespace sextant
