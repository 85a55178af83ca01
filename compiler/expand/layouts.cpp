// Interns layouts by hash, compared for equality.
#include "compiler/expand/layouts.h"

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
  for (const StagedOpId op : graph.ops.keys()) {
    const auto& communication = graph.ops[op].communication;
    if (!communication) continue;
    // A receive half has no input: the type is that of the tensor it makes.
    const auto& operands = graph.ops[op].in.empty() ? graph.ops[op].out : graph.ops[op].in;
    const TensorType& global = graph.tensors[operands.front()].global;
    from_[op] = intern(global, communication->from, communication->from_stage);
    to_[op] = intern(global, communication->to, communication->to_stage);
  }
}

LayoutId LayoutTable::of(StagedTensorId tensor) const { return of_tensor_[tensor]; }
LayoutId LayoutTable::from(StagedOpId op) const { return from_[op]; }
LayoutId LayoutTable::to(StagedOpId op) const { return to_[op]; }

LayoutId LayoutTable::intern(const TensorType& global, const NdSbp& words, int stage) {
  const PlacementId placement(stage);
  std::vector<LayoutId>& bucket = by_hash_[hash_of(global, words, stage)];
  for (const LayoutId known : bucket) {
    const Layout& layout = layouts_[known];
    if (layout.placement == placement && layout.global == global && layout.words == words)
      return known;
  }
  bucket.push_back(layouts_.add({global, words, placement}));
  return bucket.back();
}

}  // namespace sextant
