// The nodes of a search that wait: by their key, and by their bound.
#pragma once

#include "core/base/units.h"
#include "search/bounds/estimate.h"
#include "search/space/space.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace sextant {

// What the bound of a node knows, each no less than the one before.
enum class Rung : std::uint8_t {
  kOwnWork,           // work, and what replicas exchange
  kWholeSequences,    // the communication inside layers that cp does not split: their share
  kLayers,            // the communication inside layers, at least what all samples at once take
  kMicroBatchLayers,  // the same of the micro-batch
  kOwnLayers,         // of a leaf: its own layers
};

// A node that is not expanded, or a leaf that is not compiled.
struct OpenNode {
  SpaceNode node;
  Duration bound = {};
  Bytes least_memory = {};  // of the device that needs most, with libraries; 0: not known yet
  Guess guess = {};
  Rung rung = Rung::kOwnWork;
  std::optional<Duration> with_layers = {};  // of a leaf: its bound that knows its own layers
  double key = 0;                            // what comes first
  std::optional<std::int64_t> leaves = {};   // below it, where they were counted
  std::vector<std::int64_t> leaves_of_children = {};  // of a mesh, in the order of its children
};

// Of equal keys, and of equal bounds, the older comes first.
class OpenNodes {
 public:
  void push(OpenNode open) {
    const std::int64_t number = pushed_++;
    by_key_.emplace(open.key, number);
    by_bound_.emplace(open.bound, number);
    nodes_.emplace(number, std::move(open));
  }

  std::optional<OpenNode> pop_first() {
    if (by_key_.empty()) return std::nullopt;
    return taken(by_key_.begin()->second);
  }
  std::optional<OpenNode> pop_least_bound() {
    if (by_bound_.empty()) return std::nullopt;
    return taken(by_bound_.begin()->second);
  }

  double least_key() const {
    return by_key_.empty() ? std::numeric_limits<double>::infinity() : by_key_.begin()->first;
  }

  template <typename Key>
  void reorder(Key key_of) {
    by_key_.clear();
    for (auto& [number, open] : nodes_) {
      open.key = key_of(open);
      by_key_.emplace(open.key, number);
    }
  }

  Duration least_bound() const {
    return by_bound_.empty() ? Duration(std::numeric_limits<std::int64_t>::max())
                             : by_bound_.begin()->first;
  }

  // In the order of their keys, while `use` returns true.
  template <typename Use>
  void for_first(Use use) const {
    for (const auto& [key, number] : by_key_)
      if (!use(nodes_.at(number))) return;
  }

  // In the order of their age.
  template <typename Use>
  void for_each(Use use) const {
    for (const auto& [number, open] : nodes_) use(open);
  }

 private:
  OpenNode taken(std::int64_t number) {
    const auto place = nodes_.find(number);
    OpenNode open = std::move(place->second);
    nodes_.erase(place);
    by_key_.erase({open.key, number});
    by_bound_.erase({open.bound, number});
    return open;
  }

  std::int64_t pushed_ = 0;
  std::map<std::int64_t, OpenNode> nodes_;
  std::set<std::pair<double, std::int64_t>> by_key_;
  std::set<std::pair<Duration, std::int64_t>> by_bound_;
};

}  // namespace sextant
