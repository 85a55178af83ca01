// The layouts of a staged graph, each once: global type, words and placement of every tensor and of
// both sides of every communication.
#pragma once

#include "compiler/words/staged_graph.h"
#include "core/base/table.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace sextant {

class LayoutTable {
 public:
  explicit LayoutTable(const StagedGraph& graph);

  const Table<LayoutId, Layout>& layouts() const { return layouts_; }
  LayoutId of(StagedTensorId tensor) const;
  // Sides of a communication (invalid for other operators).
  LayoutId from(StagedOpId op) const;
  LayoutId to(StagedOpId op) const;

 private:
  LayoutId intern(const TensorType& global, const NdSbp& words, int stage);

  Table<LayoutId, Layout> layouts_;
  std::unordered_map<std::uint64_t, std::vector<LayoutId>> by_hash_;
  Table<StagedTensorId, LayoutId> of_tensor_;
  Table<StagedOpId, LayoutId> from_, to_;
};

}  // namespace sextant
