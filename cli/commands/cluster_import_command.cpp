// `sextant cluster import`: files of other programs as cluster files.
#include "cli/dry_run.h"
#include "cli/sections/imported_section.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/cluster_files/cluster_import.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>

namespace sextant {
namespace {

struct ClusterImportArguments {
  std::string file;        // of another program
  std::string base;        // CLUSTER with what the file does not say; empty: none
  std::int64_t nodes = 0;  // 0: as many as the file says
  std::string output;      // file; empty: standard output
};

Cluster with_nodes(Cluster cluster, std::int64_t nodes, const std::string& file) {
  if (nodes == 0) return cluster;
  require(nodes > 0, ErrorCode::kUsage, "--nodes {}: wanted one or more", nodes);
  cluster.nodes = nodes;
  for (const std::string& message : validate(cluster))
    fail(ErrorCode::kUsage, "--nodes {}: {}: {}", nodes, file, message);
  return cluster;
}

void run_cluster_import(const ClusterImportArguments& arguments, const CommonOptions& common,
                        Console& console) {
  require_different_files(
      {{"the file", arguments.file}, {"--base", arguments.base}, {"--output", arguments.output}});
  if (!arguments.output.empty()) require_writable("--output", arguments.output);
  std::optional<Cluster> base;
  if (!arguments.base.empty()) base = load_cluster(arguments.base);
  ImportedCluster imported =
      import_cluster(read_text_file(arguments.file), arguments.file, base ? &*base : nullptr);
  imported.cluster = with_nodes(imported.cluster, arguments.nodes, arguments.file);
  const Cluster& cluster = imported.cluster;
  if (common.dry_run)
    return say_dry_run("cluster_import",
                       fmt::format("read {} as {}", arguments.file, imported.format),
                       {arguments.output}, console);
  write_imported(imported,
                 fmt::format("{}: {}, {} x {} {}", arguments.file, imported.format, cluster.nodes,
                             cluster.devices_per_node, cluster.device.name),
                 "", arguments.output, common);
  console.document("cluster_import",
                   {{"format", imported.format},
                    {"file", arguments.output},
                    {"notes", imported.notes},
                    {"cluster", nlohmann::ordered_json::parse(to_json_text(cluster))}});
}

}  // namespace

Verb cluster_import_verb() {
  const auto arguments = std::make_shared<ClusterImportArguments>();
  ClusterImportArguments& a = *arguments;
  return {
      .path = "cluster import",
      .text = "A file of another program as a cluster file, with what it leaves open",
      .examples =
          "Examples:\n  sextant cluster import topo.xml --base hgx-h200 --nodes 4 -o cluster.json\n"
          "  sextant cluster import all_reduce.json --base cluster.json -o calibrated.json\n"
          "Understood: NCCL topology and graph XML, `nvidia-smi topo -m`, nccl-tests JSON (-J),\n"
          "  ASTRA-sim analytical YAML, Calculon and LLMCompass JSON; -c takes them too",
      .options =
          {
              {"file", &a.file, "of another program", true},
              {"--base", &a.base,
               "cluster with what the file does not say: devices, or the links to calibrate"},
              {"--nodes", &a.nodes, "so many nodes of that kind"},
              {"-o,--output", &a.output, "cluster file to write (default: print it)"},
          },
      .action = [arguments](const CommonOptions& common,
                            Console& console) { run_cluster_import(*arguments, common, console); },
      .has_dry_run = true};
}

}  // namespace sextant
