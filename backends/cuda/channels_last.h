// Which tensors of a program lie channels-last on the card: [N, C, H, W] with C innermost, as
// tensor cores read images. The host, parameters and all operators whose kernels know one order
// alone see row-major tensors; what stands between may lie either way, and lies as convolutions
// like it.
#pragma once

#include "core/base/ids.h"
#include "core/graphs/physical_graph.h"

#include <set>

namespace sextant {

class ChannelsLast {
 public:
  ChannelsLast() = default;  // none
  // None where no convolution would gain by it, or the build has no cuDNN.
  ChannelsLast(const PhysicalGraph& graph, ProgramId program);

  bool contains(const Register* reg) const { return registers_.contains(reg); }
  bool empty() const { return registers_.empty(); }

 private:
  std::set<const Register*> registers_;
};

}  // namespace sextant
