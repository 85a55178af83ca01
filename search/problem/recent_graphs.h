// The graphs that were asked for last, by the settings that make a difference to them.
#pragma once

#include "compiler/strategy/strategy.h"
#include "compiler/training/training_graph.h"
#include "core/graphs/logical_graph.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// Graphs are large, and strategies of one graph come close together.
class RecentGraphs {
 public:
  explicit RecentGraphs(std::size_t most) : most_(most) {}

  // `make()` gives the graph of a strategy that is not known, or no longer. The reference is good
  // until others have been asked for.
  template <typename Make>
  const LogicalGraph& of(const Strategy& strategy, const Make& make) {
    const std::string key = training_graph_key(strategy);
    const auto known = std::find_if(graphs_.begin(), graphs_.end(),
                                    [&](const auto& entry) { return entry.first == key; });
    if (known != graphs_.end()) {
      std::rotate(graphs_.begin(), known, known + 1);
    } else {
      graphs_.emplace(graphs_.begin(), key, make());
      if (graphs_.size() > most_) graphs_.pop_back();
    }
    return graphs_.front().second;
  }

 private:
  const std::size_t most_;
  std::vector<std::pair<std::string, LogicalGraph>> graphs_;  // recent first
};

}  // namespace sextant
