// One pass from the leaves up for each question.
#include "simulator/cluster_files/pcie_tree.h"

#include <algorithm>

namespace sextant {

std::size_t PcieTree::add(std::size_t parent, PcieRate up) {
  nodes_.push_back({.parent = parent, .up = up, .is_gpu = false, .wire = 0});
  return nodes_.size() - 1;
}

double PcieTree::link_of(const Node& node, bool with_assumed) const {
  return node.up.is_assumed && !with_assumed ? kNoLimit : node.up.value;
}

double PcieTree::between_gpus(bool with_assumed) const {
  std::vector<std::size_t> below(nodes_.size());
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    below[i] += nodes_[i].is_gpu ? 1 : 0;
    if (i != kRoot) below[nodes_[i].parent] += below[i];
  }
  double least = kNoLimit;
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    const bool is_between = below[i] > 0 && below[i] < below[kRoot];
    const bool is_alone = nodes_[i].is_gpu && below[kRoot] == 1;
    if (is_between || is_alone) least = std::min(least, link_of(nodes_[i], with_assumed));
  }
  return least;
}

// Of each subtree only what its GPUs or its NICs have left over goes up: matching near ends first
// takes nothing from far ones, since what a near pair leaves free both ends still have.
double PcieTree::to_nics(bool with_assumed) const {
  std::vector<double> gpus(nodes_.size()), nics(nodes_.size());
  double total = 0;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    const Node& node = nodes_[i];
    if (node.is_gpu) gpus[i] += kNoLimit;
    nics[i] += node.wire;
    const double met = std::min(gpus[i], nics[i]), up = link_of(node, with_assumed);
    total += met;
    if (i == kRoot) break;
    gpus[node.parent] += std::min(gpus[i] - met, up);
    nics[node.parent] += std::min(nics[i] - met, up);
  }
  return total;
}

PcieRate PcieTree::between_gpus() const {
  const double rate = between_gpus(true);
  return {rate, rate < between_gpus(false)};
}

PcieRate PcieTree::to_nics() const {
  const double rate = to_nics(true);
  return {rate, rate < to_nics(false)};
}

}  // namespace sextant
