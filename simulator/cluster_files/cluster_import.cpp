// Looks at the first characters and keys only; the readers say what is wrong with the rest.
#include "simulator/cluster_files/cluster_import.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/text/json_reader.h"
#include "simulator/cluster_files/cluster_file.h"

#include <filesystem>
#include <string>
#include <vector>

namespace sextant {

namespace {

using Importer = ImportedCluster (*)(const ImportSource& source);

ImportedCluster import_cluster_file(const ImportSource& source) {
  return {cluster_from_json(source.text, source.file), "cluster file", {}};
}

constexpr std::string_view kUnderstood =
    "understood are cluster files, NCCL topology XML, `nvidia-smi topo -m`, nccl-tests JSON and "
    "logs, ASTRA-sim network YAML, Calculon and LLMCompass JSON";

// What JSON without any key of a cluster may be instead.
std::string other_kind_of(const JsonCursor& root) {
  if (!root.is_object()) return "a list or a single value";
  const auto has_object = [&root](std::string_view key) {
    return root.contains(key) && root.at(key).is_object();
  };
  if (has_object("cluster")) return "a document with a cluster under its key 'cluster', save that";
  if (root.contains("strategy") && root.contains("cluster_text"))
    return "a plan, which holds its cluster: leave out -c";
  if (root.contains("model_type") || root.contains("architectures")) return "a model's config";
  if (root.contains("traceEvents")) return "a trace";
  const auto schema = root.find("schema");
  if (schema && schema->is_text() && schema->text() != "sextant.cluster/1")
    return "a file of '" + schema->text() + "'";
  const auto keys = root.keys();
  if (keys.empty()) return "an empty object";
  const std::vector<std::string> wanted = {"nodes", "devices_per_node", "device"};
  return fmt::format("JSON with the key '{}'{}", keys.front(), did_you_mean(keys.front(), wanted));
}

void require_cluster_keys(const JsonCursor& root, const std::string& file) {
  for (const std::string_view key : {"nodes", "devices_per_node", "device"})
    if (root.is_object() && root.contains(key)) return;
  fail(ErrorCode::kBadInput, "{}: no cluster file but {}; {}", file, other_kind_of(root),
       kUnderstood);
}

Importer importer_of_json(const ImportSource& source) {
  const JsonDocument document(source.text, source.file);
  const JsonCursor root = document.root();
  const auto has = [&root](std::string_view key) { return root.is_object() && root.contains(key); };
  if (has("results") && has("args") && has("config")) return import_nccl_tests;
  if (has("matrix") && has("mem1")) return import_calculon;
  if (has("interconnect") && has("device_count")) return import_llmcompass;
  require_cluster_keys(root, source.file);
  return import_cluster_file;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Importer importer_of(const ImportSource& source) {
  const std::string_view text = source.text;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return import_cluster_file;
  if (text[first] == '<') return import_nccl_xml;
  if (contains(text, "algbw") && contains(text, "busbw")) return import_nccl_log;
  if (text[first] == '{' || text[first] == '[') return importer_of_json(source);
  if (contains(text, "npus_count") || contains(text, "topology:")) return import_astra_network;
  if (contains(text, "GPU0")) return import_topology_matrix;
  if (source.file.ends_with(".json")) return import_cluster_file;
  fail(ErrorCode::kBadInput, "{}: no cluster file, and nothing that describes one; {}", source.file,
       kUnderstood);
}

}  // namespace

ImportedCluster import_cluster(std::string_view text, const std::string& file,
                               const Cluster* base) {
  require(!text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF"), ErrorCode::kBadInput,
          "{}: the text is UTF-16, as shells of Windows write it: save it as UTF-8", file);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  const ImportSource source{text, file, base};
  ImportedCluster imported = importer_of(source)(source);
  if (imported.cluster.name.empty())
    imported.cluster.name = std::filesystem::path(file).stem().string();
  // What we write must be what we read: the reader refuses what no machine has.
  imported.cluster = cluster_from_json(to_json_text(imported.cluster), file);
  return imported;
}

}  // namespace sextant
