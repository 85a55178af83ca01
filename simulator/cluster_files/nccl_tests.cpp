// nccl-tests, JSON of version 1 and 2: one collective over one group, by size. Calibrates the link
// that the group used; everything else is the base's.
#include "core/base/check.h"
#include "core/graphs/primitives.h"
#include "core/text/json_reader.h"
#include "simulator/cluster_files/importers.h"
#include "simulator/cluster_files/known_devices.h"
#include "simulator/cluster_files/line_fit.h"
#include "simulator/clusters/builtin_clusters.h"
#include "simulator/clusters/bus_bandwidth.h"
#include "simulator/clusters/nccl_algorithms.h"
#include "simulator/clusters/published.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

namespace sextant {

namespace {

// What a program of nccl-tests measures: its primitive here, and steps of a ring over n.
struct Test {
  std::string_view program;
  Primitive primitive;
  std::string_view algorithm;
  double (*steps)(double n);

  double factor(std::int64_t ranks) const { return bus_bandwidth_factor(primitive, ranks); }
};

double ring(double n) { return n - 1; }
double two_rings(double n) { return 2 * (n - 1); }
double one(double) { return 1; }

constexpr Test kTests[] = {
    {"all_reduce_perf", Primitive::kAllReduce, "ring", two_rings},
    {"all_gather_perf", Primitive::kAllGather, "ring", ring},
    {"reduce_scatter_perf", Primitive::kReduceScatter, "ring", ring},
    {"broadcast_perf", Primitive::kBroadcast, "ring", ring},
    {"alltoall_perf", Primitive::kAllToAll, "pairwise", ring},
    {"sendrecv_perf", Primitive::kTransfer, "pairwise", one},
};

struct MeasuredGroup {
  std::int64_t ranks = 1, hosts = 1;
  std::string device_name;
};

struct Measured {
  const Test* test = nullptr;
  MeasuredGroup group;
  std::vector<TimedSize> sizes;
  std::string algorithm, protocol;  // forced by the environment; empty: NCCL chose
  std::string source;
};

const Test& test_of(const JsonCursor& args) {
  const auto words = args.elements();
  if (words.empty()) args.refuse("is empty: wanted the program's name first");
  const std::string& path = words.front().text();
  const std::string program = path.substr(path.find_last_of('/') + 1);
  std::string known;
  for (const Test& test : kTests) {
    if (test.program == program) return test;
    known += (known.empty() ? "" : ", ") + std::string(test.program);
  }
  words.front().refuse(fmt::format("'{}' is none of {}", program, known));
}

// One entry per process, each with nthreads x ngpus ranks.
MeasuredGroup group_of(const JsonCursor& config) {
  const JsonCursor devices = config.at("devices");
  const auto processes = devices.elements();
  if (processes.empty()) devices.refuse("is empty");
  std::set<std::string> hosts;
  for (const JsonCursor& process : processes) hosts.insert(process.at("hostname").text());
  const std::int64_t each =
      config.at("nthreads").integer_between(1, 4096) * config.at("ngpus").integer_between(1, 4096);
  const auto count = static_cast<std::int64_t>(processes.size());
  if (each * count > (std::int64_t{1} << 20)) devices.refuse("more than 2^20 ranks");
  return {each * count, static_cast<std::int64_t>(hosts.size()),
          processes.front().at("device_info").text()};
}

double positive(const JsonCursor& cursor) {
  const double value = cursor.real();
  if (!(value > 0) || !std::isfinite(value))
    cursor.refuse(fmt::format("found {}, wanted a number above zero", value));
  return value;
}

// In microseconds, out of place where both were measured. Sizes of zero say nothing of bandwidth.
std::optional<TimedSize> timed_size(const JsonCursor& row, double factor) {
  const double bytes = static_cast<double>(row.at("size").integer_between(0, INT64_MAX));
  if (bytes == 0) return std::nullopt;
  const auto apart = row.find_value("out_of_place");
  const JsonCursor timing = apart ? *apart : row.at("in_place");
  if (timing.contains("cpu_time"))
    timing.at("cpu_time").refuse("is the host's time (-C), wanted 'time'");
  const double microseconds = positive(timing.at("time"));
  const double bus = positive(timing.at("bus_bw")), whole = positive(timing.at("alg_bw"));
  // Printed with six digits behind the point, so small ones are rough.
  if (whole > 0.01 && std::abs(bus / whole - factor) > 0.02 * factor)
    timing.at("bus_bw").refuse(fmt::format(
        "is {:.4g} times alg_bw, wanted {:.4g} for this many ranks", bus / whole, factor));
  return TimedSize{bytes, microseconds * 1e-6};
}

std::vector<TimedSize> sizes_of(const JsonCursor& results, double factor) {
  std::vector<TimedSize> sizes;
  for (const JsonCursor& row : results.elements()) {
    const auto size = timed_size(row, factor);
    if (!size) continue;
    if (!sizes.empty() && size->bytes < sizes.back().bytes)
      row.at("size").refuse("is smaller than the one before");
    sizes.push_back(*size);
  }
  if (sizes.size() < 2 || sizes.front().bytes == sizes.back().bytes)
    results.refuse("wanted two sizes or more");
  return sizes;
}

std::string lower(std::string text) {
  for (char& letter : text)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

// "NCCL_ALGO=Ring" among the environment.
std::string setting(const JsonCursor& root, std::string_view name) {
  const auto env = root.find_value("env");
  if (!env) return "";
  for (const JsonCursor& entry : env->elements())
    if (entry.text().starts_with(fmt::format("{}=", name)))
      return lower(entry.text().substr(name.size() + 1));
  return "";
}

Measured read(const JsonCursor& root) {
  Measured measured;
  const std::int64_t version = root.at("version").integer();
  if (version < 1 || version > 2)
    root.at("version").refuse(fmt::format("found {}, wanted 1 or 2", version));
  measured.test = &test_of(root.at("args"));
  measured.group = group_of(root.at("config"));
  const MeasuredGroup& group = measured.group;
  if (group.ranks < 2) root.at("config").refuse("one rank: nothing is sent");
  if (group.ranks % group.hosts != 0)
    root.at("config").refuse(fmt::format("{} ranks on {} hosts", group.ranks, group.hosts));
  measured.sizes = sizes_of(root.at("results"), measured.test->factor(group.ranks));
  measured.algorithm = setting(root, "NCCL_ALGO");
  measured.protocol = setting(root, "NCCL_PROTO");
  const auto when = root.find_value("start_time");
  measured.source =
      fmt::format("nccl-tests {} on {} ranks of {} host{}{}", measured.test->program, group.ranks,
                  group.hosts, group.hosts == 1 ? "" : "s", when ? ", " + when->text() : "");
  return measured;
}

// A built-in with the GPU that was measured.
Cluster base_of(const MeasuredGroup& group, const ImportSource& source) {
  if (source.base != nullptr) return *source.base;
  if (const auto device = device_of_name(group.device_name))
    for (const BuiltinCluster& builtin : builtin_clusters()) {
      std::vector<std::int64_t> values;
      for (const BuiltinSetting& setting : builtin.settings) values.push_back(setting.fallback);
      Cluster cluster = builtin.make(values);
      if (cluster.device.name != device->name) continue;
      cluster.nodes = group.hosts;
      return cluster;
    }
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: config.devices[0].device_info: '{}' has no built-in cluster",
                          source.file, group.device_name),
              {"give the cluster to calibrate with --base"});
}

// Efficiency and steps of a line, by the closed forms of simulator/clusters/nccl_algorithms.h.
struct Form {
  std::string algorithm;
  double steps = 1, efficiency = 1;
};

Form form_of(const Measured& measured, const TimeLine& line, double bandwidth) {
  const auto n = static_cast<double>(measured.group.ranks);
  const double rate = 1 / (line.per_byte * bandwidth);  // of S/t in the link's bandwidth
  const bool is_sum =
      measured.test->primitive == Primitive::kAllReduce && measured.group.hosts == 1;
  const Form nvls{"nvls", 2, (1 + 1 / n) * rate};
  const Form usual{std::string(measured.test->algorithm), measured.test->steps(n),
                   measured.test->factor(measured.group.ranks) * rate};
  if (is_sum && measured.algorithm == "tree") return {"tree", 2 * (n - 1), 2 * rate};
  if (is_sum && measured.algorithm.starts_with("nvls")) return nvls;
  // Faster than a ring can be: the switch added.
  if (is_sum && measured.algorithm.empty() && usual.efficiency > 1) return nvls;
  return usual;
}

CollectiveAlgorithm algorithm_of(const Measured& measured, const TimeLine& line, double bandwidth,
                                 std::string protocol, const std::string& file) {
  const Form form = form_of(measured, line, bandwidth);
  require(form.efficiency > 0 && form.efficiency <= 1, ErrorCode::kBadInput,
          "{}: results: {:.4g} of the link's {}: the base's bandwidth is not that of this machine",
          file, form.efficiency, bandwidth_to_text(bandwidth));
  const auto calibrated = [&](double value, const char* what) {
    return sextant::calibrated(value, measured.source + what);
  };
  CollectiveAlgorithm algorithm;
  algorithm.name = form.algorithm;
  algorithm.protocol = std::move(protocol);
  algorithm.primitive = to_string(measured.test->primitive);
  algorithm.base_latency = calibrated(line.fixed / 2, ": half of the fixed time");
  algorithm.step_latency =
      calibrated(line.fixed / 2 / form.steps, ": the other half, shared by the steps");
  algorithm.efficiency = calibrated(form.efficiency, ": from the largest sizes");
  return algorithm;
}

// What measurement replaces: the entries for the primitive. One for all primitives is left for the
// others.
void forget(NetworkLink& link, Primitive measured) {
  std::vector<CollectiveAlgorithm> kept;
  for (const CollectiveAlgorithm& algorithm : link.algorithms) {
    const bool is_for_all = algorithm.primitive.empty();
    for (const Primitive primitive : kPrimitives) {
      if (primitive == measured) continue;
      const bool is_for_it = is_for_all ? can_run(parse_algorithm(algorithm.name), primitive)
                                        : algorithm.primitive == to_string(primitive);
      if (!is_for_it) continue;
      kept.push_back(algorithm);
      kept.back().primitive = to_string(primitive);
    }
  }
  link.algorithms = std::move(kept);
}

}  // namespace

ImportedCluster import_nccl_tests(const ImportSource& source) {
  const JsonDocument document(source.text, source.file);
  const Measured measured = read(document.root());
  const MeasuredGroup& group = measured.group;
  ImportedCluster imported{.cluster = base_of(group, source), .format = "nccl-tests", .notes = {}};
  Cluster& cluster = imported.cluster;
  const std::int64_t per_host = group.ranks / group.hosts;
  require(per_host <= cluster.devices_per_node && group.hosts <= cluster.nodes,
          ErrorCode::kBadInput,
          "{}: config: {} ranks on each of {} hosts, but the base has {} x {}", source.file,
          per_host, group.hosts, cluster.nodes, cluster.devices_per_node);
  require(group.hosts == 1 || measured.test->algorithm == "ring", ErrorCode::kBadInput,
          "{}: args: {} between hosts says nothing of one link", source.file,
          measured.test->program);
  // Between nodes a ring has the links of all members of a node.
  NetworkLink& link = group.hosts == 1 ? cluster.intra_node : cluster.inter_node;
  const double bandwidth =
      link.bandwidth.value * (group.hosts == 1 ? 1 : static_cast<double>(per_host));
  const LineFit fit = fit_lines(measured.sizes, measured.protocol.empty() ? 2 : 1);
  forget(link, measured.test->primitive);
  const std::string forced = measured.protocol.empty() ? "simple" : measured.protocol;
  require(forced == "simple" || forced == "ll" || forced == "ll128", ErrorCode::kBadInput,
          "{}: env: NCCL_PROTO is '{}', wanted one of LL, LL128, Simple", source.file, forced);
  for (std::size_t i = 0; i < fit.lines.size(); ++i) {
    require(fit.lines[i].per_byte > 0, ErrorCode::kBadInput,
            "{}: results: times that do not grow with the size: measure larger ones", source.file);
    link.algorithms.push_back(algorithm_of(measured, fit.lines[i], bandwidth,
                                           i + 1 < fit.lines.size() ? "ll" : forced, source.file));
  }
  imported.notes.push_back(fmt::format(
      "{} of {} {}calibrated by {} sizes, {:.1f} % at worst from them; half of the fixed time is "
      "taken to grow with the steps",
      to_string(measured.test->primitive), link.name,
      fit.lines.size() > 1 ? "(two protocols) " : "", measured.sizes.size(), 100 * fit.worst));
  return imported;
}

}  // namespace sextant
