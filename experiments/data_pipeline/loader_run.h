// Training steps with one loader, timed.
#pragma once

#include "core/graphs/physical_graph.h"
#include "experiments/data_pipeline/data_times.h"
#include "io/data/sample_data.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// README, loaders. `registers` 0: no actors.
struct Loader {
  std::string name;
  bool is_synthetic = false;
  std::int32_t registers = 0;
};
std::vector<Loader> all_loaders();

struct LoaderTimes {
  std::vector<double> step_s;  // behind the warm-up
  DataTimes data;
  std::vector<double> losses;  // of all steps
};

inline constexpr std::int64_t kWarmUpOfLoader = 2;  // steps

// `graph` has no data actors; its ranks run on the CPU of this process.
LoaderTimes time_loader(const PhysicalGraph& graph, const SampleData& data, const Loader& loader,
                        std::int64_t steps, std::uint64_t seed);

}  // namespace sextant
