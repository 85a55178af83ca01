// Training steps with one loader, timed.
#pragma once

#include "core/graphs/physical_graph.h"
#include "experiments/data_pipeline/data_times.h"
#include "io/data/sample_data.h"

#include <cstdint>
#include <string>
#include <string_view>
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

enum class LoaderBackend : std::uint8_t { kCpu, kCuda };

// Throws Error(kUsage) for a word that is neither cpu nor cuda, Error(kDevice) for cuda where there
// is no GPU.
LoaderBackend parse_loader_backend(std::string_view text);

// `graph` has no data actors; its ranks run in this process.
LoaderTimes time_loader(const PhysicalGraph& graph, const SampleData& data, const Loader& loader,
                        LoaderBackend backend, std::int64_t steps, std::uint64_t seed);

}  // namespace sextant
