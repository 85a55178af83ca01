// What the user's data are to a loader: whoever fills inputs of a graph, by position.
#pragma once

#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// The part of an input that one rank holds of one micro-batch.
struct InputPart {
  const Actor& input;
  const TensorType& type;           // global; dim 0 counts samples
  const Shard& box;                 // of it
  std::int64_t first_position = 0;  // of the sample with index 0 in dim 0
  std::int64_t global_batch = 1;    // samples of a step
  std::uint64_t seed = 0;
};

// Kinds of the host actors that stand before an input whose samples are made in stages.
inline constexpr const char* kReadSamples = "read";
inline constexpr const char* kDecodeSamples = "decode";
inline constexpr const char* kAugmentSamples = "augment";

// Samples of one input on their way to one rank, with registers of their own between the stages.
class SampleStages {
 public:
  virtual ~SampleStages() = default;
  // One act of a stage on a content: 0, 1, 2, ... for the micro-batches that the rank is given.
  virtual void act(std::string_view kind, const InputPart& part, std::int64_t content) = 0;
  // What the last stage left of it.
  virtual void deliver(std::int64_t content, std::span<std::byte> bytes) = 0;
};

class SampleData {
 public:
  virtual ~SampleData() = default;
  virtual const std::string& name() const = 0;  // the path, for people
  // The input that a model has if it is one for these data: "tokens", "images".
  virtual std::string_view main_input() const = 0;
  // Whether this input is filled from the data.
  virtual bool fills(std::string_view input, const TensorType& type) const = 0;
  // Throws Error(kBadInput) where there are not enough samples for steps of `global_batch`, or
  // where the main input of this type is not one for them.
  virtual void check(const TensorType& main_input, std::int64_t global_batch) const = 0;
  // Fills the elements of the part's box, row-major. Any thread. Throws Error(kBadInput) naming
  // sample and place of what the model does not accept, or the file that cannot be read.
  virtual void fill(const InputPart& part, std::span<std::byte> bytes) const = 0;
  // The stages in which the main input is made, in order; none: `fill` alone makes it.
  virtual std::vector<std::string> stage_kinds() const { return {}; }
  virtual std::unique_ptr<SampleStages> stages(std::int32_t /*num_registers*/) const {
    return nullptr;
  }
  // Whether the sample at a position depends on the global batch too.
  virtual bool depends_on_batch() const = 0;
  // Of data and order: equal where the same samples come.
  virtual std::string fingerprint() const = 0;
};

}  // namespace sextant
