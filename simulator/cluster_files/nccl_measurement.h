// One collective of nccl-tests over one group, by size, as its JSON and its logs have it, and the
// cluster whose link it calibrates.
#pragma once

#include "core/graphs/physical_graph.h"
#include "simulator/cluster_files/importers.h"
#include "simulator/cluster_files/line_fit.h"
#include "simulator/clusters/bus_bandwidth.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// What a program of nccl-tests measures: its primitive here, and steps of a ring over n.
struct NcclTest {
  std::string_view program;
  Primitive primitive;
  std::string_view algorithm;
  double (*steps)(double n);

  double factor(std::int64_t ranks) const { return bus_bandwidth_factor(primitive, ranks); }
};

std::span<const NcclTest> nccl_tests();
// By the program's path, with or without the "_mpi" of some packages; nothing for others.
const NcclTest* nccl_test_of(std::string_view path);
std::string nccl_test_names();

struct NcclMeasurement {
  const NcclTest* test = nullptr;
  std::int64_t ranks = 1, hosts = 1;
  std::string device_name;
  std::vector<TimedSize> sizes;     // s, ascending
  std::string algorithm, protocol;  // forced by the environment, in lower case; empty: NCCL chose
  std::string source;               // "nccl-tests all_reduce_perf on 8 ranks of 1 host"
};

// Fills `source`. `place`: the file, or the place in it, for refusals. Throws Error(kBadInput) for
// one rank, unequal hosts, and sizes that say nothing.
void finish_measurement(NcclMeasurement& measured, const std::string& place,
                        const std::string& when);

// The base, or a built-in with the GPU that was measured, with the link's algorithms of the
// measured primitive calibrated, and with those of an all_reduce's halves assumed to take half of
// it where nobody measured them: a sum is not answered by parts that are faster on paper.
ImportedCluster calibrate_by(const NcclMeasurement& measured, const ImportSource& source);

}  // namespace sextant
