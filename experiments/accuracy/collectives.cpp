// A row becomes a cluster, a group and a size; the rest is simulator/costs/nccl_model.h.

#include "experiments/accuracy/collectives.h"

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/quantile.h"
#include "experiments/accuracy/csv_table.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/nccl_model.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <regex>

namespace sextant {
namespace {

constexpr std::int64_t kKib = 1024, kMib = kKib * kKib, kGib = kKib * kMib;

// Rows that numbers of simulator/clusters/nccl_numbers.cpp or of this file name as their source.
struct CalibrationRow {
  std::string_view machine, way, collective;  // parts of the columns hw, algo and collective
  std::int64_t gpus = 0, bytes = 0;
};
constexpr std::array<CalibrationRow, 24> kCalibration = {{
    {"A100-SXM4-80GB", "8proc", "all_reduce", 8, 8 * kKib},
    {"A100-SXM4-80GB", "8proc", "all_reduce", 8, kMib},
    {"A100-SXM4-80GB", "8proc", "all_reduce", 8, 16 * kMib},
    {"A100-SXM4-80GB", "8proc", "all_reduce", 8, 64 * kMib},
    {"A100-SXM4-80GB", "8proc", "all_reduce", 8, 256 * kMib},
    {"A100-SXM4-80GB", "8proc", "all_reduce", 8, 4 * kGib},
    {"A100-SXM4-80GB", "1proc", "all_reduce", 8, kKib},
    {"H100-SXM NVSwitch", "default(NVLS)", "all_reduce", 8, 128 * kMib},
    {"H100-SXM NVSwitch", "default(NVLS)", "all_reduce", 8, 4 * kGib},
    {"H200 2 nodes", "default", "all_reduce", 16, 8 * kKib},
    {"H200 2 nodes", "default", "all_reduce", 16, kGib},
    {"H200 2 nodes", "default", "all_reduce", 16, 16 * kGib},
    {"H100 2 nodes 8x400Gb IB", "default", "all_reduce", 16, 8 * kGib},
    {"A100-SXM4-40GB", "default", "all_reduce", 16, kGib},
    {"A100-SXM4-40GB", "default", "all_reduce", 16, 8 * kGib},
    {"H200 sweep", "", "all_reduce", 4, kGib},
    {"H200 sweep", "", "all_reduce", 4, 256 * kMib},
    {"H200 sweep", "", "all_reduce", 2, kGib},
    {"H200 sweep", "", "all_gather", 4, kGib},
    {"H200 sweep", "", "all_gather", 4, 256 * kMib},
    {"H200 sweep", "", "all_gather", 2, kGib},
    {"H200 sweep", "", "all_to_all", 4, 16 * kMib},
    {"H200 sweep", "", "all_to_all", 4, kGib},
    {"H200 sweep", "", "sendrecv", 4, kGib},
}};

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// One measurement as the collections write it.
struct Measurement {
  std::string machine, way, collective, note;
  std::int64_t gpus = 0, nodes = 1, bytes = 0;
  double seconds = 0;

  bool is_calibration() const {
    return std::any_of(kCalibration.begin(), kCalibration.end(), [&](const CalibrationRow& row) {
      return row.gpus == gpus && row.bytes == bytes && holds(machine, row.machine) &&
             holds(way, row.way) && holds(collective, row.collective);
    });
  }
};

// What GPU clusters share by generation; nothing else of a device matters to collectives.
std::optional<std::string> cluster_of(const Measurement& row) {
  for (const std::string_view cards : {"PCIe", "bridge", "RTX"})
    if (holds(row.machine, cards)) return std::nullopt;
  for (const auto& [gpu, cluster] :
       {std::pair{"H100", "dgx-h100"}, std::pair{"H200", "hgx-h200"}, std::pair{"A100", "dgx-a100"},
        std::pair{"DGX-1", "dgx1-v100"}, std::pair{"V100", "v100x8"}})
    if (holds(row.machine, gpu))
      return std::string(cluster) + ":nodes=" + std::to_string(row.nodes);
  return std::nullopt;
}

std::string reason_to_exclude(const Measurement& row) {
  for (const std::string_view fault : {"fault case", "degraded", "suboptimal"})
    if (holds(row.note, fault) || holds(row.machine, fault))
      return "the source says that this set-up was faulty";
  if (holds(row.machine, "not in excerpt")) return "the GPU is not known";
  if (!cluster_of(row)) return "no cluster of such cards";
  if (row.nodes < 1 || row.gpus % row.nodes != 0) return "nodes of unequal size";
  return {};
}

std::optional<Primitive> primitive_of(std::string_view collective) {
  constexpr std::array<std::pair<std::string_view, Primitive>, 8> kNames = {{
      {"all_reduce", Primitive::kAllReduce},
      {"all_gather", Primitive::kAllGather},
      {"reduce_scatter", Primitive::kReduceScatter},
      {"all_to_all", Primitive::kAllToAll},
      {"alltoall", Primitive::kAllToAll},
      {"broadcast", Primitive::kBroadcast},
      {"sendrecv", Primitive::kTransfer},
      {"send_recv", Primitive::kTransfer},
  }};
  for (const auto& [name, primitive] : kNames)
    if (name == collective) return primitive;
  return std::nullopt;
}

// The bus bandwidth of these is that of their ports at every size (384 to 392 of 400 GB/s): rings.
// Sums in the switches of a node pass the ports half as often and show more (472 on two DGX H100).
constexpr std::string_view kRingsBetweenNodes = "H100 2 nodes 8x400Gb IB";

// One process starts its GPUs in turn. Calibrated with the row of 1 KiB: 42 us, where a process per
// GPU takes 25.7.
constexpr std::string_view kOneProcess = "1proc";
constexpr double kStartsInTurn = 16.3e-6;

// A row that forces one algorithm, or runs without multicast, gets a cluster with what is left.
void keep(const std::string& way, bool multicast, Cluster& cluster) {
  std::string lower(way);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool is_free = lower.empty() || holds(lower, "default");
  for (NetworkLink* link : {&cluster.intra_node, &cluster.inter_node}) {
    // Nor may alpha-beta halves, which stand in for what is no longer listed, undercut it.
    if (!is_free) link->efficiency.value /= 1000;
    std::erase_if(link->algorithms, [&](const CollectiveAlgorithm& one) {
      if (!multicast && one.name == "nvls") return true;
      return !is_free && one.name != "pairwise" && !holds(lower, one.name);
    });
  }
}

// "8x400GbE" says what leaves a node: 8 ports of 400 Gb/s.
std::optional<double> ports_per_node(std::string_view text) {
  static const std::regex ports("([0-9]+)x([0-9]+) ?G");
  std::match_results<std::string_view::const_iterator> match;
  if (!std::regex_search(text.begin(), text.end(), match, ports)) return std::nullopt;
  return std::stod(match[1].str()) * std::stod(match[2].str()) * 1e9 / 8;
}

std::vector<Rank> members_of(const Measurement& row, const Cluster& cluster) {
  std::vector<Rank> members;
  for (std::int64_t node = 0; node < row.nodes; ++node)
    for (std::int64_t device = 0; device < row.gpus / row.nodes; ++device)
      members.emplace_back(static_cast<int>(node * cluster.devices_per_node + device));
  return members;
}

CollectiveChoice predict(const Measurement& row, Primitive primitive, bool multicast) {
  Cluster cluster = load_cluster(*cluster_of(row));
  require(row.gpus / row.nodes <= cluster.devices_per_node, ErrorCode::kUsage,
          "{} GPUs in a node of {}", row.gpus / row.nodes, cluster.devices_per_node);
  keep(row.way, multicast, cluster);
  if (row.machine == kRingsBetweenNodes)
    std::erase_if(cluster.inter_node.algorithms,
                  [](const CollectiveAlgorithm& one) { return one.name == "nvls"; });
  if (const std::optional<double> bandwidth = ports_per_node(row.machine))
    cluster.inter_node.bandwidth.value = *bandwidth / static_cast<double>(cluster.devices_per_node);
  Communication communication;
  communication.primitive = primitive;
  const std::vector<Rank> members = members_of(row, cluster);
  CollectiveCost cost;
  cost.communication = &communication;
  cost.members = members;
  cost.global_bytes = cost.largest_volume = Bytes(row.bytes);
  if (primitive == Primitive::kAllToAll)  // its own part stays
    cost.largest_volume = Bytes(row.bytes / row.gpus * (row.gpus - 1));
  return NcclModel(cluster).choice(cost);
}

CollectiveRow compare(const Measurement& measured, std::string id, bool multicast, double host) {
  CollectiveRow row;
  row.id = std::move(id);
  row.group = fmt::format("{} on {} of {}", measured.collective, measured.gpus, measured.machine);
  if (!measured.way.empty()) row.group += ", " + measured.way;
  row.bytes = measured.bytes;
  row.measured_s = measured.seconds;
  row.is_calibration = measured.is_calibration();
  row.excluded = reason_to_exclude(measured);
  const std::optional<Primitive> primitive = primitive_of(measured.collective);
  if (row.excluded.empty() && !primitive) row.excluded = "no primitive of ours";
  if (!row.excluded.empty()) return row;
  try {
    const CollectiveChoice choice = predict(measured, *primitive, multicast);
    row.way = choice.text;
    row.predicted_s = to_seconds(choice.duration) + host;
  } catch (const Error& error) {
    row.excluded = error.what();
  }
  return row;
}

// A row that cannot be understood is excluded and says why.
template <typename Read>
CollectiveRow understood(const CsvTable::Row& cells, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    CollectiveRow row;
    row.id = cells.place();
    row.group = "not understood";
    row.excluded = error.what();
    return row;
  }
}

}  // namespace

std::vector<CollectiveRow> read_collectives(std::string_view text, const std::string& file) {
  const CsvTable table(
      text, file,
      {"kind", "hw", "gpus", "nodes", "collective", "algo", "size_bytes", "time_us", "note"});
  std::vector<CollectiveRow> rows;
  for (std::size_t index = 0; index < table.size(); ++index) {
    const CsvTable::Row cells = table.row(index);
    if (cells.text("kind") != "measured") continue;
    rows.push_back(understood(cells, [&] {
      Measurement one;
      one.machine = cells.text("hw");
      one.way = cells.text("algo");
      one.collective = cells.text("collective");
      one.note = cells.text("note");
      one.gpus = cells.count("gpus");
      one.nodes = cells.count_or("nodes", 1);
      one.bytes = cells.count("size_bytes");
      one.seconds = cells.number("time_us") * 1e-6;
      const bool is_one_process = holds(one.way, kOneProcess);
      return compare(one, cells.place(), true, is_one_process ? kStartsInTurn : 0);
    }));
  }
  return rows;
}

namespace {

// ../shared/data/README.md on h200x4_sweep.csv: sizes below 4 MiB carry 20 to 60 us of host launch,
// as the sweep went through PyTorch, one call at a time.
constexpr double kHostLaunch = 40e-6;
constexpr std::int64_t kSmallestOfSweep = 4 * kMib;

// The middle of what the host takes, or less where smaller sizes of the same kind say so: nothing
// but the host's launch is in what they took beyond the prediction.
double host_launch(const std::vector<CollectiveRow>& rows, const std::string& group) {
  std::vector<double> beyond;
  for (const CollectiveRow& row : rows)
    if (row.group == group && row.bytes < kSmallestOfSweep && row.predicted_s > 0)
      beyond.push_back(row.measured_s - row.predicted_s);
  if (beyond.empty()) return kHostLaunch;
  std::sort(beyond.begin(), beyond.end());
  return std::clamp(quantile(beyond, 0.5), 0.0, kHostLaunch);
}

}  // namespace

std::vector<CollectiveRow> read_collective_sweep(std::string_view text, const std::string& file) {
  const CsvTable table(text, file, {"kind", "size", "ranks", "median_us"});
  std::vector<CollectiveRow> rows;
  for (std::size_t index = 0; index < table.size(); ++index) {
    const CsvTable::Row cells = table.row(index);
    if (!primitive_of(cells.text("kind"))) continue;  // matrix products and copies
    rows.push_back(understood(cells, [&] {
      Measurement one;
      one.machine = "H200 sweep";
      one.collective = cells.text("kind");
      one.gpus = cells.count("ranks");
      one.bytes = cells.count("size");
      one.seconds = cells.number("median_us") * 1e-6;
      return compare(one, cells.place(), false, 0);
    }));
  }
  std::map<std::string, double> launches;
  for (const CollectiveRow& row : rows)
    launches.try_emplace(row.group, host_launch(rows, row.group));
  for (CollectiveRow& row : rows) {
    if (!row.excluded.empty()) continue;
    row.predicted_s += launches.at(row.group);
    if (row.bytes < kSmallestOfSweep)
      row.excluded = "below 4 MiB the host's launch is what was measured";
  }
  return rows;
}

namespace {

CollectiveErrors errors_of(std::string group, const std::vector<const CollectiveRow*>& rows) {
  CollectiveErrors result;
  result.group = std::move(group);
  std::vector<double> errors;
  double logarithms = 0;
  for (const CollectiveRow* row : rows) {
    if (!row->excluded.empty())
      ++result.excluded;
    else if (row->is_calibration)
      ++result.calibration;
    if (!row->counts()) continue;
    errors.push_back(std::abs(row->error()));
    logarithms += std::abs(std::log(row->predicted_s / row->measured_s));
  }
  result.rows = static_cast<std::int64_t>(errors.size());
  if (errors.empty()) return result;
  std::sort(errors.begin(), errors.end());
  for (const double error : errors) result.mean += error / static_cast<double>(errors.size());
  result.median = quantile(errors, 0.5);
  result.worst = errors.back();
  result.geometric = std::exp(logarithms / static_cast<double>(errors.size())) - 1;
  return result;
}

}  // namespace

std::vector<CollectiveErrors> collective_errors(const std::vector<CollectiveRow>& rows) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const CollectiveRow*>> by_group;
  std::vector<const CollectiveRow*> all;
  for (const CollectiveRow& row : rows) {
    std::vector<const CollectiveRow*>& group = by_group[row.group];
    if (group.empty()) order.push_back(row.group);
    group.push_back(&row);
    all.push_back(&row);
  }
  std::vector<CollectiveErrors> result;
  for (const std::string& group : order) result.push_back(errors_of(group, by_group[group]));
  result.push_back(errors_of("all", all));
  return result;
}

}  // namespace sextant
