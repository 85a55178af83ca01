// `sextant cluster detect`: what the driver and NCCL say of this machine, as a cluster file.
#include "cli/dry_run.h"
#include "cli/machine_gpus.h"
#include "cli/sections/imported_section.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/cluster_files/cluster_import.h"
#include "simulator/cluster_files/known_devices.h"

#ifdef SEXTANT_HAS_CUDA
#include "backends/cuda/machine/cuda_topology.h"
#endif

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant {
namespace {

struct ClusterDetectArguments {
  std::string base;    // CLUSTER with the devices' figures; empty: known by their names
  std::string output;  // file; empty: standard output
};

// Figures of the GPUs from the base, or by their name; nothing: the import assumes some.
std::optional<Cluster> devices_of(const ClusterDetectArguments& arguments,
                                  const std::vector<MachineGpu>& gpus) {
  std::optional<Cluster> base;
  if (!arguments.base.empty()) {
    base = load_cluster(arguments.base);
  } else if (const auto known = device_of_name(gpus.front().name)) {
    base.emplace();
    base->device = *known;
  }
  return base;
}

ImportedCluster links_of_driver(const Cluster* base) {
  const auto matrix = output_of("nvidia-smi topo -m");
  require(matrix.has_value(), ErrorCode::kDevice, "`nvidia-smi topo -m` says nothing");
  return import_cluster(*matrix, "nvidia-smi topo -m", base);
}

// NCCL reads the machine itself and says speeds of NICs too; without it the driver's table.
ImportedCluster links_of(const std::vector<MachineGpu>& gpus, const Cluster* base) {
  std::vector<std::string> notes;
#ifdef SEXTANT_HAS_CUDA
  try {
    const auto topology = gpus.size() > 1 ? nccl_topology() : std::nullopt;
    if (topology) {
      ImportedCluster imported = import_cluster(topology->xml, "NCCL's topology", base);
      imported.notes.push_back(fmt::format("NCCL is {}", topology->version));
      return imported;
    }
  } catch (const Error& error) {
    notes.push_back(fmt::format("NCCL does not tell its topology: {}", error.what()));
  }
#else
  static_cast<void>(gpus);
#endif
  ImportedCluster imported = links_of_driver(base);
  imported.notes.insert(imported.notes.end(), notes.begin(), notes.end());
  return imported;
}

void require_one_kind(const std::vector<MachineGpu>& gpus) {
  for (const MachineGpu& gpu : gpus)
    require(gpu.name == gpus.front().name, ErrorCode::kDevice,
            "GPUs of two kinds, {} and {}: a node of a cluster file has one", gpus.front().name,
            gpu.name);
}

void run_cluster_detect(const ClusterDetectArguments& arguments, const CommonOptions& common,
                        Console& console) {
  require_different_files({{"--base", arguments.base}, {"--output", arguments.output}});
  if (!arguments.output.empty()) require_writable("--output", arguments.output);
  const std::vector<MachineGpu> gpus = machine_gpus();
  require_one_kind(gpus);
  const std::optional<Cluster> base = devices_of(arguments, gpus);
  ImportedCluster imported = links_of(gpus, base ? &*base : nullptr);
  Cluster& cluster = imported.cluster;
  require(cluster.devices_per_node == static_cast<std::int64_t>(gpus.size()), ErrorCode::kDevice,
          "nvidia-smi names {}, but {} tells of {}; CUDA_VISIBLE_DEVICES may hide the others",
          counted(static_cast<std::int64_t>(gpus.size()), "GPU"), imported.format,
          cluster.devices_per_node);
  const std::string driver = "nvidia-smi, driver " + gpus.front().driver;
  cluster.name = "detected";
  cluster.device.memory = gpus.front().memory;
  cluster.device.memory_source = driver;
  if (const auto reachable = output_of("nvidia-smi topo -p2p r"))
    for (const std::string& pair : parse_unreachable(*reachable))
      imported.notes.push_back(pair +
                               " cannot read each other's memory: --collectives local fails");
  for (const std::string& message : validate(cluster))
    fail(ErrorCode::kDevice, "{}: {}", imported.format, message);
  if (common.dry_run)
    return say_dry_run("cluster_detect", fmt::format("describe {}", counted(gpus.size(), "GPU")),
                       {arguments.output}, console);
  write_imported(
      imported,
      fmt::format("{} x {}, {} each, driver {}; links by {}", gpus.size(), gpus.front().name,
                  to_text(gpus.front().memory), gpus.front().driver, imported.format),
      "nothing is measured: `sextant cluster bench --base FILE` replaces assumptions",
      arguments.output, common);
  console.document("cluster_detect",
                   {{"format", imported.format},
                    {"file", arguments.output},
                    {"driver", gpus.front().driver},
                    {"notes", imported.notes},
                    {"cluster", nlohmann::ordered_json::parse(to_json_text(cluster))}});
}

}  // namespace

Verb cluster_detect_verb() {
  const auto arguments = std::make_shared<ClusterDetectArguments>();
  ClusterDetectArguments& a = *arguments;
  return {
      .path = "cluster detect",
      .text = "This machine's GPUs and links as a cluster file, nothing measured",
      .examples =
          "Examples:\n  sextant cluster detect -o here.json\n"
          "  sextant cluster detect --base hgx-h200 -o here.json",
      .options =
          {
              {"--base", &a.base,
               "cluster with the figures of the GPUs (default: known by their names)"},
              {"-o,--output", &a.output, "cluster file to write (default: print it)"},
          },
      .action = [arguments](const CommonOptions& common,
                            Console& console) { run_cluster_detect(*arguments, common, console); },
      .has_dry_run = true};
}

}  // namespace sextant
