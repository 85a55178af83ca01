// The PCIe of a host as a tree: what its GPUs exchange with each other and with NICs is bounded by
// the links on the way only. What meets below a bridge does not use the link above it, and what
// shares a link shares its bandwidth.
#pragma once

#include <cstddef>
#include <vector>

namespace sextant {

// B/s in one direction. `is_assumed`: with other assumptions about links it would be another one.
struct PcieRate {
  double value = 0;
  bool is_assumed = false;
};

class PcieTree {
 public:
  // The root: whatever its CPUs join has no limit here.
  static constexpr std::size_t kRoot = 0;

  // A function or bridge below `parent`, whose link to it carries `up` B/s; nothing known of the
  // link, or none: kNoLimit. Returns its index.
  static constexpr double kNoLimit = 1e30;
  std::size_t add(std::size_t parent, PcieRate up);
  void make_gpu(std::size_t node) { nodes_[node].is_gpu = true; }
  // The networks of a NIC there, B/s, together with those that it has.
  void add_wire(std::size_t node, double rate) { nodes_[node].wire += rate; }

  // Of a ring through all GPUs: the narrowest link with GPUs on both sides; for one GPU, its own.
  PcieRate between_gpus() const;
  // What all GPUs and all NICs can exchange at once: the largest flow through the tree.
  PcieRate to_nics() const;

 private:
  struct Node {
    std::size_t parent = 0;
    PcieRate up{kNoLimit, false};
    bool is_gpu = false;
    double wire = 0;
  };

  double link_of(const Node& node, bool with_assumed) const;
  double between_gpus(bool with_assumed) const;
  double to_nics(bool with_assumed) const;

  std::vector<Node> nodes_ = {Node{}};  // parents before children
};

}  // namespace sextant
