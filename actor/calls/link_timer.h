// What measures communications between several devices, whichever they are: for cluster files.
#pragma once

#include "actor/calls/kernel_context.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <optional>
#include <span>

namespace sextant {

// How a library is asked to communicate.
struct LinkSetting {
  int blocks = 0;              // of a kernel that communicates; 0: as many as the library likes
  bool is_registered = false;  // buffers are made known to the library beforehand
  auto operator<=>(const LinkSetting&) const = default;
};

// Seconds of a launch and of a communication, each alone and beside the other.
struct BesideTiming {
  double kernel_alone_s = 0, kernel_beside_s = 0;
  double link_alone_s = 0, link_beside_s = 0;
};

class LinkTimer {
 public:
  virtual ~LinkTimer() = default;
  virtual std::int64_t ranks() const = 0;
  // What `run` asks for.
  virtual LinkSetting usual(Primitive primitive) const = 0;
  // Seconds of one communication of all ranks on a tensor of so many bytes that is global to the
  // group, one behind another; of a transfer, from the first rank to the second. The slowest rank
  // counts.
  virtual double time(Primitive primitive, Bytes global_bytes, const LinkSetting& setting) = 0;
  // Times of the calls and of a communication in the usual setting, each alone and beside the
  // other, on every rank at once; nothing where no kernel covers the calls. Addresses of operands
  // are ignored.
  virtual std::optional<BesideTiming> beside(Primitive primitive, Bytes global_bytes,
                                             std::span<const KernelContext> calls) = 0;
};

}  // namespace sextant
