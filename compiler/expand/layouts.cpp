// Interns layouts by hash, compared for equality.
#include "compiler/expand/layouts.h"

#include "core/base/at.h"
#include "core/base/hash.h"

namespace sextant {
namespace {

std::uint64_t hash_of(const TensorType& global, const NdSbp& words, int stage) {
  Fnv1a hash;
  hash.add(stage).add(static_cast<int>(global.dtype));
  for (const std::int64_t extent : global.shape.extents()) hash.add(extent);
  for (const Sbp& word : words)
    hash.add((static_cast<int>(word.kind) << 24) | (word.dim << 16) |
             (static_cast<int>(word.reduce) << 8) | word.nesting);
  return hash.value();
}

}  // namespace

LayoutTable::LayoutTable(const StagedGraph& graph) {
  for (const StagedTensor& tensor : graph.tensors)
    of_tensor_.push_back(intern(tensor.global, tensor.words, tensor.stage));
  from_.resize(graph.ops.size());
  to_.resize(graph.ops.size());
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    const auto& communication = graph.ops[op].communication;
    if (!communication) continue;
    // A receive half has no input: the type is that of the tensor it makes.
    const auto& operands = graph.ops[op].in.empty() ? graph.ops[op].out : graph.ops[op].in;
    const TensorType& global = at(graph.tensors, operands.front()).global;
    from_[op] = intern(global, communication->from, communication->from_stage);
    to_[op] = intern(global, communication->to, communication->to_stage);
  }
}

LayoutId LayoutTable::of(StagedTensorIndex tensor) const { return at(of_tensor_, tensor); }
LayoutId LayoutTable::from(StagedOpIndex op) const { return at(from_, op); }
LayoutId LayoutTable::to(StagedOpIndex op) const { return at(to_, op); }

LayoutId LayoutTable::intern(const TensorType& global, const NdSbp& words, int stage) {
  const PlacementId placement(stage);
  std::vector<std::int32_t>& bucket = by_hash_[hash_of(global, words, stage)];
  for (const std::int32_t known : bucket) {
    const Layout& layout = at(layouts_, known);
    if (layout.placement == placement && layout.global == global && layout.words == words)
      return LayoutId(known);
  }
  bucket.push_back(static_cast<std::int32_t>(layouts_.size()));
  layouts_.push_back({global, words, placement});
  return LayoutId(layouts_.size() - 1);
}

}  // namespace sextant
