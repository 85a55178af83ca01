// The rows of a cluster file's table of kernels, measured on whatever device a KernelTimer stands
// for: single operators by size, and the launches of training steps.
#pragma once

#include "actor/calls/kernel_timer.h"
#include "core/costs/cluster.h"
#include "core/graphs/physical_graph.h"
#include "core/tensors/attributes.h"
#include "core/tensors/shape.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sextant {

// Of the cluster that a measurement of `name` makes: "-measured" once, however often it is
// measured.
std::string measured_name(const std::string& name);

struct BenchedStep {
  std::string name;
  PhysicalGraph graph;
  std::int64_t id_limit = 1;  // of the vocabulary
};

class KernelMeasurement {
 public:
  using Say = std::function<void(const std::string&)>;
  // What of the runs of a kernel goes into the table. A step is a sum of kernels, so on a machine
  // that disturbs some of the runs its middle is the sum of their means, not of their medians.
  enum class Typical : std::uint8_t { kMedian, kMean };

  // `timer` outlives this; `overhead_s` is what a launch takes beside what the timer measures.
  KernelMeasurement(KernelTimer& timer, DType dtype, double overhead_s, Say say,
                    Typical typical = Typical::kMedian);

  TensorType type(std::vector<std::int64_t> extents) const;
  // One operator on whole tensors. What its shape rule refuses is left out, and said.
  void add(const std::string& kind, const std::vector<TensorType>& inputs,
           const Attributes& attributes);
  // The launches of rank 0.
  void add_step(const BenchedStep& step);

  // One row per work, the mean of its times: shares of launches differ by the company they had.
  std::vector<MeasuredKernel> take() const;

 private:
  double seconds_of(const KernelTiming& timing) const;
  void add_row(const Work& work, double seconds);

  KernelTimer& timer_;
  DType dtype_;
  double overhead_s_;
  Say say_;
  Typical typical_;
  std::vector<MeasuredKernel> measured_;
};

}  // namespace sextant
