// ASTRA-sim's analytical network: one building block per dimension, from the inside out. Bandwidths
// there are per cable and, like all its GB, powers of two: 1 GB/s is 2^30 B/s.
#include "core/base/check.h"
#include "core/base/nearest.h"
#include "simulator/cluster_files/importers.h"
#include "simulator/cluster_files/known_devices.h"
#include "simulator/clusters/published.h"

#include <fmt/core.h>

#ifdef SEXTANT_HAS_YAML
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <yaml-cpp/yaml.h>
#endif

namespace sextant {

#ifdef SEXTANT_HAS_YAML

namespace {

constexpr std::int64_t kMostNpus = std::int64_t{1} << 20;
constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;

struct Dimension {
  Wiring wiring = Wiring::kSwitch;
  std::int64_t npus = 0;
  double gigabytes = 0;    // per s and cable
  double nanoseconds = 0;  // per hop
};

class AstraReader {
 public:
  explicit AstraReader(const ImportSource& source) : file_(source.file) {
    try {
      root_ = YAML::Load(std::string(source.text));
    } catch (const YAML::Exception& error) {
      fail(ErrorCode::kBadInput, "{}: {}", file_, error.what());
    }
    require(root_.IsMap(), ErrorCode::kBadInput, "{}: no keys", file_);
  }

  std::vector<Dimension> read() {
    require_known_keys();
    const YAML::Node topology = list("topology");
    std::vector<Dimension> dimensions(topology.size());
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      Dimension& dimension = dimensions[i];
      dimension.wiring = wiring_of(topology[i], fmt::format("topology[{}]", i));
      const double npus = number("npus_count", i, dimensions.size(), 1);
      require(npus == std::floor(npus) && npus <= static_cast<double>(kMostNpus),
              ErrorCode::kBadInput, "{}: npus_count[{}]: found {}, wanted a count from 1 to {}",
              file_, i, npus, kMostNpus);
      dimension.npus = static_cast<std::int64_t>(npus);
      dimension.gigabytes =
          number("bandwidth", i, dimensions.size(), std::numeric_limits<double>::min());
      dimension.nanoseconds = number("latency", i, dimensions.size(), 0);
    }
    require(!dimensions.empty(), ErrorCode::kBadInput, "{}: topology: is empty", file_);
    return dimensions;
  }

 private:
  void require_known_keys() const {
    const std::vector<std::string> known = {"topology", "npus_count", "bandwidth", "latency"};
    for (const auto& entry : root_) {
      require(entry.first.IsScalar(), ErrorCode::kBadInput, "{}: line {}: wanted a key", file_,
              entry.first.Mark().line + 1);
      const std::string& key = entry.first.Scalar();
      require(std::find(known.begin(), known.end(), key) != known.end(), ErrorCode::kBadInput,
              "{}: unknown key '{}'{}; known: {}", file_, key, did_you_mean(key, known),
              comma_list(known));
    }
  }

  YAML::Node list(const std::string& key) const {
    const YAML::Node node = root_[key];
    require(node.IsDefined(), ErrorCode::kBadInput, "{}: the key '{}' is missing", file_, key);
    require(node.IsSequence(), ErrorCode::kBadInput, "{}: {}: wanted a list", file_, key);
    return node;
  }

  Wiring wiring_of(const YAML::Node& node, const std::string& place) const {
    const std::vector<std::string> names = {"Ring", "FullyConnected", "Switch"};
    const std::string name = node.IsScalar() ? node.Scalar() : "";
    if (name == names[0]) return Wiring::kRing;
    if (name == names[1]) return Wiring::kFullyConnected;
    if (name == names[2]) return Wiring::kSwitch;
    fail(ErrorCode::kBadInput, "{}: {}: unknown building block '{}'{}; known: {}", file_, place,
         name, did_you_mean(name, names), comma_list(names));
  }

  double number(const std::string& key, std::size_t i, std::size_t count, double least) const {
    const YAML::Node node = list(key);
    require(node.size() == count, ErrorCode::kBadInput, "{}: {}: {} entries, but topology has {}",
            file_, key, node.size(), count);
    double value = 0;
    const bool is_number = node[i].IsScalar() && YAML::convert<double>::decode(node[i], value);
    require(is_number && std::isfinite(value) && value >= least, ErrorCode::kBadInput,
            "{}: {}[{}]: found '{}', wanted a number {}", file_, key, i,
            node[i].IsScalar() ? node[i].Scalar() : std::string("a list"),
            least > 0 ? "above zero" : "of zero or above");
    return value;
  }

  std::string file_;
  YAML::Node root_;
};

// Our bandwidth is what a device sends in all: to two neighbours of a ring, to all others of a full
// connection.
NetworkLink link_of(const Dimension& dimension, std::size_t index, const std::string& file) {
  const std::int64_t others = std::max<std::int64_t>(dimension.npus - 1, 1);
  const std::int64_t cables = dimension.wiring == Wiring::kRing ? std::min<std::int64_t>(others, 2)
                              : dimension.wiring == Wiring::kFullyConnected ? others
                                                                            : 1;
  NetworkLink link;
  link.name = fmt::format("dimension{}", index);
  link.wiring = dimension.wiring;
  link.bandwidth =
      assumed(dimension.gigabytes * kGibi * static_cast<double>(cables),
              fmt::format("{}: bandwidth[{}], {} GB/s (of 2^30 B) on each of {} cable{}", file,
                          index, dimension.gigabytes, cables, cables == 1 ? "" : "s"));
  link.latency = assumed(dimension.nanoseconds * 1e-9,
                         fmt::format("{}: latency[{}], ns per hop", file, index));
  link.efficiency = assumed(1, "ASTRA-sim has none");
  return link;
}

}  // namespace

ImportedCluster import_astra_network(const ImportSource& source) {
  ImportedCluster imported{.cluster = {}, .format = "ASTRA-sim network", .notes = {}};
  Cluster& cluster = imported.cluster;
  const std::vector<Dimension> dimensions = AstraReader(source).read();
  std::int64_t npus = 1;
  std::size_t level = 0;
  const std::string file_name = source.file.substr(source.file.find_last_of('/') + 1);
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const Dimension& dimension = dimensions[i];
    require(npus <= kMostNpus / dimension.npus, ErrorCode::kBadInput,
            "{}: npus_count: more than {} NPUs", source.file, kMostNpus);
    npus *= dimension.npus;
    if (dimension.npus == 1) {
      imported.notes.push_back(fmt::format("dimension {} joins one NPU: left out", i));
      continue;
    }
    const NetworkLink link = link_of(dimension, i, file_name);
    if (level == 0) cluster.devices_per_node = dimension.npus;
    if (level == 0) cluster.intra_node = link;
    if (level == 1) cluster.inter_node = link;
    if (level > 1) cluster.outer_tiers.push_back({cluster.nodes, link});
    if (level > 0) cluster.nodes *= dimension.npus;
    ++level;
  }
  if (source.base != nullptr) {
    cluster.device = source.base->device;
  } else {
    cluster.device = device_of_sm(0);
    imported.notes.emplace_back("the file has no devices: those here are assumptions");
  }
  return imported;
}

#else

ImportedCluster import_astra_network(const ImportSource& source) {
  throw Error(ErrorCode::kUsage,
              source.file +
                  ": looks like YAML of ASTRA-sim, but this sextant is built without "
                  "yaml-cpp",
              {"install libyaml-cpp-dev and build again"});
}

#endif

}  // namespace sextant
