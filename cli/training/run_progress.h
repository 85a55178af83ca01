// What a run is doing, as one line for people: which step, and how far within it.
#pragma once

#include "cli/training/run_backend.h"
#include "cli/training/run_recorder.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// "compiling: 12 s", counted from when it is made.
class ElapsedText {
 public:
  explicit ElapsedText(std::string_view what);
  std::string operator()() const;

 private:
  const std::string what_;
  const double begin_s_;
};

// Launches of one step, over the ranks that have a device here.
std::int64_t launches_per_step(const PhysicalGraph& graph, const std::vector<Device*>& devices);

// "step 1 of 20: 120 of 4,000 launches (step 0: loss 5.5452, 310 tokens/s)"; without launches where
// the devices do not count them.
std::string launches_text(std::int64_t finished_launches, std::int64_t launches_per_step,
                          std::int64_t steps, std::int64_t first_step = 0);
// Of `steps` steps behind `first_step`.
std::string run_text(const RunDevices& devices, std::int64_t launches_per_step, std::int64_t steps,
                     const RunRecorder& recorder, std::int64_t first_step);

}  // namespace sextant
