// The two kernel tables.
#include "backends/cpu/kernels/shared/kernel.h"

#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <utility>

namespace sextant {

void KernelTable::add(std::string kind, Kernel kernel, KernelCondition covers, WorkspaceBound bound,
                      WorkspaceBound by_thread) {
  kernels_[std::move(kind)].push_back({kernel, covers, bound, by_thread});
}

const KernelTable::Candidate* KernelTable::candidate(std::string_view kind,
                                                     const KernelContext& context) const {
  const auto found = kernels_.find(kind);
  if (found == kernels_.end()) return nullptr;
  const std::vector<Candidate>& candidates = found->second;
  for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate)
    if (candidate->covers == nullptr || candidate->covers(context)) return &*candidate;
  return nullptr;
}

Kernel KernelTable::find(std::string_view kind, const KernelContext& context) const {
  const Candidate* found = candidate(kind, context);
  return found == nullptr ? nullptr : found->kernel;
}

std::int64_t KernelTable::workspace(std::string_view kind, const KernelContext& context,
                                    std::int64_t threads) const {
  const Candidate* found = candidate(kind, context);
  if (found == nullptr) return 0;
  const auto bytes = [&context](WorkspaceBound bound) {
    return bound == nullptr ? 0 : bound(context);
  };
  return small_copies(context) + bytes(found->bound) + threads * bytes(found->by_thread);
}

std::vector<std::string> KernelTable::kinds() const {
  std::vector<std::string> kinds;
  for (const auto& [kind, candidates] : kernels_) kinds.push_back(kind);
  return kinds;
}

KernelTable reference_kernels() {
  KernelTable table;
  add_matmul_kernels(table);
  add_quantize_kernels(table);
  add_normalize_images_kernels(table);
  add_elementwise_kernels(table);
  add_unary_kernels(table);
  add_binary_kernels(table);
  add_normalization_kernels(table);
  add_norm_piece_kernels(table);
  add_attention_kernels(table);
  add_class_sample_kernels(table);
  add_dropout_kernels(table);
  add_conv_kernels(table);
  add_pool_kernels(table);
  add_moe_kernels(table);
  add_embedding_kernels(table);
  add_shape_kernels(table);
  add_concat_kernels(table);
  add_index_kernels(table);
  add_loss_kernels(table);
  add_reduce_kernels(table);
  add_softmax_kernels(table);
  add_scan_kernels(table);
  add_arg_reduce_kernels(table);
  add_optimizer_kernels(table);
  add_running_statistic_kernels(table);
  add_source_kernels(table);
  add_boxing_kernels(table);
  return table;
}

KernelTable fast_kernels() {
  KernelTable table = reference_kernels();
  add_fast_matmul_kernels(table);
  add_fast_elementwise_kernels(table);
  add_fast_normalization_kernels(table);
  add_fast_attention_kernels(table);
  add_fast_class_sample_kernels(table);
  add_fast_embedding_kernels(table);
  add_fast_loss_kernels(table);
  add_fast_optimizer_kernels(table);
  add_fast_conv_kernels(table);
  add_fast_normalize_images_kernels(table);
  add_fast_pool_kernels(table);
  add_fast_reduce_kernels(table);
  add_fast_norm_piece_kernels(table);
  return table;
}

}  // namespace sextant
