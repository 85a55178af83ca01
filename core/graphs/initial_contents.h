// First contents of state registers: a function of (seed, parameter name, global element index), so
// that any plan, device count and device starts from the same bits.
#pragma once

#include "core/base/counter_rng.h"
#include "core/base/ids.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

struct LogicalOp;

// An actor of a block in one of the instances that the block serves.
struct StateWriter {
  const Instance& instance;
  std::int32_t actor = 0;
};

// The rank's part of output `output` of `writer`, row-major, a piece at a time. The first output of
// an actor with the attribute `init` (zeros, ones, constant with `init_value`, normal with
// `init_std`; keyed by the attribute `parameter`, or what the instance calls the actor) is a
// parameter; all other state starts at zero.
class InitialContents {
 public:
  InitialContents(const PhysicalGraph& graph, Rank rank, const StateWriter& writer,
                  std::size_t output, std::uint64_t seed);
  // All of a `parameter` of a logical graph.
  InitialContents(const LogicalOp& parameter, const Shape& shape, std::uint64_t seed);

  std::int64_t elements() const { return box_.elements(); }
  // What every element is, where they are alike.
  std::optional<double> constant() const { return constant_; }
  // Elements `first` and those behind it. Any thread.
  void fill(std::int64_t first, std::span<double> values) const;

 private:
  InitialContents(Shard box, Shape global, const Attributes& attributes, const std::string& stream,
                  std::size_t output, std::uint64_t seed);

  Shard box_;
  Shape global_;
  std::optional<double> constant_;
  double deviation_ = 0;
  CounterRng random_;
};

// All elements at once.
std::vector<double> initial_contents(const PhysicalGraph& graph, Rank rank,
                                     const StateWriter& writer, std::size_t output,
                                     std::uint64_t seed);

}  // namespace sextant
