// `sextant cluster import`: files of other programs as cluster files.
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/cluster_files/cluster_import.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <optional>
#include <string>

namespace sextant {
namespace {

Cluster with_nodes(Cluster cluster, std::int64_t nodes, const std::string& file) {
  if (nodes == 0) return cluster;
  require(nodes > 0, ErrorCode::kUsage, "--nodes {}: wanted one or more", nodes);
  cluster.nodes = nodes;
  for (const std::string& message : validate(cluster))
    fail(ErrorCode::kUsage, "--nodes {}: {}: {}", nodes, file, message);
  return cluster;
}

}  // namespace

void run_cluster_import(const ClusterImportArguments& arguments, const CommonOptions& common,
                        Console& console) {
  require_different_files(
      {{"the file", arguments.file}, {"--base", arguments.base}, {"--output", arguments.output}});
  if (!arguments.output.empty()) require_writable("--output", arguments.output);
  std::optional<Cluster> base;
  if (!arguments.base.empty()) base = load_cluster(arguments.base);
  const ImportedCluster imported =
      import_cluster(read_text_file(arguments.file), arguments.file, base ? &*base : nullptr);
  const Cluster cluster = with_nodes(imported.cluster, arguments.nodes, arguments.file);
  const std::string text = to_json_text(cluster);
  // The notes go beside what is printed, so that standard output is a cluster file.
  if (!common.quiet) {
    fmt::print(stderr, "{}: {}, {} x {} {}\n", arguments.file, imported.format, cluster.nodes,
               cluster.devices_per_node, cluster.device.name);
    for (const std::string& note : imported.notes) fmt::print(stderr, "note: {}\n", note);
  }
  if (!arguments.output.empty()) write_file_whole(arguments.output, text);
  if (arguments.output.empty() && !common.json) fmt::print("{}", text);
  console.document("cluster_import", {{"format", imported.format},
                                      {"file", arguments.output},
                                      {"notes", imported.notes},
                                      {"cluster", nlohmann::ordered_json::parse(text)}});
}

}  // namespace sextant
