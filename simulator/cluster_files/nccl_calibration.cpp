// Lines through the measured sizes, as the closed forms of simulator/clusters/nccl_algorithms.h
// read backwards.
#include "core/base/check.h"
#include "core/graphs/primitives.h"
#include "simulator/cluster_files/known_devices.h"
#include "simulator/cluster_files/nccl_measurement.h"
#include "simulator/clusters/builtin_clusters.h"
#include "simulator/clusters/nccl_algorithms.h"
#include "simulator/clusters/published.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

namespace sextant {

namespace {

double ring(double n) { return n - 1; }
double two_rings(double n) { return 2 * (n - 1); }
double one(double) { return 1; }

constexpr NcclTest kTests[] = {
    {"all_reduce_perf", Primitive::kAllReduce, "ring", two_rings},
    {"all_gather_perf", Primitive::kAllGather, "ring", ring},
    {"reduce_scatter_perf", Primitive::kReduceScatter, "ring", ring},
    {"broadcast_perf", Primitive::kBroadcast, "ring", ring},
    {"alltoall_perf", Primitive::kAllToAll, "pairwise", ring},
    {"sendrecv_perf", Primitive::kTransfer, "pairwise", one},
};

// A built-in with the GPU that was measured.
Cluster base_of(const NcclMeasurement& measured, const ImportSource& source) {
  if (source.base != nullptr) return *source.base;
  if (const auto device = device_of_name(measured.device_name))
    for (const BuiltinCluster& builtin : builtin_clusters()) {
      std::vector<std::int64_t> values;
      for (const BuiltinSetting& setting : builtin.settings) values.push_back(setting.fallback);
      Cluster cluster = builtin.make(values);
      if (cluster.device.name != device->name) continue;
      cluster.nodes = measured.hosts;
      return cluster;
    }
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{}: the device '{}' has no built-in cluster", source.file, measured.device_name),
      {"give the cluster to calibrate with --base"});
}

bool runs_here(const CollectiveAlgorithm& algorithm, Primitive primitive) {
  return algorithm.primitive.empty() ? can_run(parse_algorithm(algorithm.name), primitive)
                                     : algorithm.primitive == to_string(primitive);
}

// One entry for each primitive that an entry serves, without those for `gone`.
std::vector<CollectiveAlgorithm> without_primitive(
    const std::vector<CollectiveAlgorithm>& algorithms, Primitive gone) {
  std::vector<CollectiveAlgorithm> kept;
  for (const CollectiveAlgorithm& algorithm : algorithms)
    for (const Primitive primitive : kPrimitives) {
      if (primitive == gone || !runs_here(algorithm, primitive)) continue;
      kept.push_back(algorithm);
      kept.back().primitive = to_string(primitive);
    }
  return kept;
}

bool was_measured(const CollectiveAlgorithm& algorithm) {
  return algorithm.efficiency.provenance == Provenance::kMeasured ||
         algorithm.efficiency.source.starts_with("nccl-tests ");
}

// How an algorithm spends a fixed time, and its efficiency of the link.
struct Form {
  std::string algorithm;
  double local_steps = 0;  // inside nodes, where a group spans some: their latency is the base's
  double steps = 1;
  double efficiency = 1;
};

class Calibration {
 public:
  Calibration(const NcclMeasurement& measured, const ImportSource& source)
      : measured_(measured),
        source_(source),
        imported_{.cluster = base_of(measured, source), .format = "nccl-tests", .notes = {}},
        n_(static_cast<double>(measured.ranks)),
        nodes_(static_cast<double>(measured.hosts)),
        spans_(measured.hosts > 1) {
    const Cluster& cluster = imported_.cluster;
    const std::int64_t per_host = measured.ranks / measured.hosts;
    require(per_host <= cluster.devices_per_node && measured.hosts <= cluster.nodes,
            ErrorCode::kBadInput, "{}: {} ranks on each of {} hosts, but the base has {} x {}",
            source.file, per_host, measured.hosts, cluster.nodes, cluster.devices_per_node);
    require(!spans_ || measured.test->algorithm == "ring", ErrorCode::kBadInput,
            "{}: {} between hosts says nothing of one link", source.file, measured.test->program);
    forced_ = measured.protocol.empty() ? "simple" : measured.protocol;
    require(forced_ == "simple" || forced_ == "ll" || forced_ == "ll128", ErrorCode::kBadInput,
            "{}: env: NCCL_PROTO is '{}', wanted one of LL, LL128, Simple", source.file, forced_);
  }

  ImportedCluster take() {
    // Between nodes a ring has the links of all members of a node.
    NetworkLink& link = spans_ ? imported_.cluster.inter_node : imported_.cluster.intra_node;
    bandwidth_ = link.bandwidth.value * (spans_ ? n_ / nodes_ : 1);
    const Primitive primitive = measured_.test->primitive;
    const LineFit fit = fit_lines(measured_.sizes, measured_.protocol.empty() ? 2 : 1);
    const std::vector<CollectiveAlgorithm> before = link.algorithms;
    link.algorithms = without_primitive(before, primitive);
    if (primitive == Primitive::kAllReduce)
      for (const Primitive half : {Primitive::kReduceScatter, Primitive::kAllGather})
        halve(fit, half, before, link);
    for (std::size_t i = 0; i < fit.lines.size(); ++i) {
      require(fit.lines[i].per_byte > 0, ErrorCode::kBadInput,
              "{}: results: times that do not grow with the size: measure larger ones",
              source_.file);
      link.algorithms.push_back(entry_of(fit.lines[i], protocol_of(i, fit)));
    }
    imported_.notes.push_back(fmt::format(
        "{} of {} {}calibrated by {} sizes, {:.1f} % at worst from them; half of the fixed time is "
        "taken to grow with the steps",
        to_string(primitive), link.name, fit.lines.size() > 1 ? "(two protocols) " : "",
        measured_.sizes.size(), 100 * fit.worst));
    return std::move(imported_);
  }

 private:
  std::string protocol_of(std::size_t line, const LineFit& fit) const {
    return line + 1 < fit.lines.size() ? "ll" : forced_;
  }

  double rate_of(const TimeLine& line) const { return 1 / (line.per_byte * bandwidth_); }

  // Steps of all members one after the other, `halves` times.
  Form ring_form(double halves, double efficiency) const {
    if (!spans_) return {"ring", 0, halves * (n_ - 1), efficiency};
    return {"ring", halves * (n_ - nodes_), halves * (nodes_ - 1), efficiency};
  }

  Form usual_form(const TimeLine& line) const {
    const NcclTest& test = *measured_.test;
    const double efficiency = test.factor(measured_.ranks) * rate_of(line);
    if (test.algorithm == "ring")
      return ring_form(test.primitive == Primitive::kAllReduce ? 2 : 1, efficiency);
    return {std::string(test.algorithm), 0, test.steps(n_), efficiency};
  }

  // Bytes that trees between nodes send and receive per byte at once, and their depth.
  double tree_share() const { return measured_.hosts == 2 ? 1 : 2; }
  double tree_depth() const {
    return std::bit_width(static_cast<std::uint64_t>(measured_.hosts - 1));
  }

  Form tree_form(const TimeLine& line) const {
    const double in_node = 2 * (n_ / nodes_ - 1);
    if (!spans_) return {"tree", 0, in_node, 2 * rate_of(line)};
    return {"tree", in_node, 2 * tree_depth(), tree_share() * rate_of(line)};
  }

  Form nvls_form(const TimeLine& line) const {
    if (!spans_) return {"nvls", 0, 2, (1 + 1 / n_) * rate_of(line)};
    return {"nvls", 2, 2 * tree_depth(), tree_share() * rate_of(line)};
  }

  bool base_has_nvls() const {
    const auto& local = imported_.cluster.intra_node.algorithms;
    return measured_.ranks > measured_.hosts &&
           std::any_of(local.begin(), local.end(), [](const CollectiveAlgorithm& algorithm) {
             return algorithm.name == "nvls" && runs_here(algorithm, Primitive::kAllReduce);
           });
  }

  // An all_reduce faster than a ring can be: the switches added, or trees did, whose nodes send
  // less. That holds between nodes too.
  Form form_of(const TimeLine& line) const {
    const Form usual = usual_form(line);
    if (measured_.test->primitive != Primitive::kAllReduce) return usual;
    if (measured_.algorithm == "tree") return tree_form(line);
    if (measured_.algorithm.starts_with("nvls")) return nvls_form(line);
    if (!measured_.algorithm.empty() || usual.efficiency <= 1) return usual;
    return !spans_ || base_has_nvls() ? nvls_form(line) : tree_form(line);
  }

  // What steps inside nodes take in the network model, of an algorithm that the link between nodes
  // lists.
  double local_step(const Form& form, const std::string& protocol, Primitive primitive) const {
    const NetworkLink& link = imported_.cluster.intra_node;
    for (const CollectiveAlgorithm& local : link.algorithms)
      if (local.name == form.algorithm && local.protocol == protocol && runs_here(local, primitive))
        return local.step_latency.value;
    return link.latency.value;
  }

  struct FixedTime {
    double base = 0, step = 0;  // s
  };
  // Half of what steps inside nodes leave of a fixed time grows with the other steps.
  FixedTime split(double fixed, const Form& form, const std::string& protocol,
                  Primitive primitive) const {
    const double local =
        form.local_steps > 0 ? form.local_steps * local_step(form, protocol, primitive) : 0;
    const double rest = std::max(fixed - local, 0.0);
    return {rest / 2, rest / 2 / form.steps};
  }

  CollectiveAlgorithm entry_of(const TimeLine& line, const std::string& protocol) const {
    const Form form = form_of(line);
    require(form.efficiency > 0 && form.efficiency <= 1, ErrorCode::kBadInput,
            "{}: results: {:.4g} of the link's {}: the base's bandwidth is not that of this "
            "machine",
            source_.file, form.efficiency, bandwidth_to_text(bandwidth_));
    const Primitive primitive = measured_.test->primitive;
    const FixedTime fixed = split(line.fixed, form, protocol, primitive);
    const auto from = [this](double value, const char* what) {
      return calibrated(value, measured_.source + what);
    };
    CollectiveAlgorithm algorithm;
    algorithm.name = form.algorithm;
    algorithm.protocol = protocol;
    algorithm.primitive = to_string(primitive);
    algorithm.base_latency = from(fixed.base, ": half of the fixed time");
    algorithm.step_latency = from(fixed.step, ": the other half, shared by the steps");
    algorithm.efficiency = from(form.efficiency, ": from the largest sizes");
    return algorithm;
  }

  // A ring of half the time. Where the whole was faster than two rings can be, no ring is faster
  // than it was before.
  void halve(const LineFit& fit, Primitive half, const std::vector<CollectiveAlgorithm>& before,
             NetworkLink& link) const {
    double most = 0;
    for (const CollectiveAlgorithm& algorithm : before) {
      if (!runs_here(algorithm, half)) continue;
      if (was_measured(algorithm)) return;
      most = std::max(most, algorithm.efficiency.value);
    }
    if (most == 0) most = 1;
    link.algorithms = without_primitive(link.algorithms, half);
    const auto from = [this](double value) {
      return assumed(value, "half of an all_reduce: " + measured_.source);
    };
    for (std::size_t i = 0; i < fit.lines.size(); ++i) {
      const double share = usual_form(fit.lines[i]).efficiency;
      const Form form = ring_form(1, share <= 1 ? share : std::min(share, most));
      const std::string protocol = protocol_of(i, fit);
      const FixedTime fixed = split(fit.lines[i].fixed / 2, form, protocol, half);
      CollectiveAlgorithm algorithm;
      algorithm.name = form.algorithm;
      algorithm.protocol = protocol;
      algorithm.primitive = to_string(half);
      algorithm.base_latency = from(fixed.base);
      algorithm.step_latency = from(fixed.step);
      algorithm.efficiency = from(form.efficiency);
      link.algorithms.push_back(std::move(algorithm));
    }
  }

  const NcclMeasurement& measured_;
  const ImportSource& source_;
  ImportedCluster imported_;
  double n_, nodes_;
  bool spans_;
  std::string forced_;
  double bandwidth_ = 0;  // B/s of a ring's member, of a node's members between nodes
};

}  // namespace

std::span<const NcclTest> nccl_tests() { return kTests; }

const NcclTest* nccl_test_of(std::string_view path) {
  std::string_view program = path.substr(path.find_last_of('/') + 1);
  if (program.ends_with("_mpi")) program.remove_suffix(4);
  for (const NcclTest& test : kTests)
    if (test.program == program) return &test;
  return nullptr;
}

std::string nccl_test_names() {
  std::string known;
  for (const NcclTest& test : kTests)
    known += (known.empty() ? "" : ", ") + std::string(test.program);
  return known;
}

void finish_measurement(NcclMeasurement& measured, const std::string& place,
                        const std::string& when) {
  require(measured.ranks >= 2, ErrorCode::kBadInput, "{}: one rank: nothing is sent", place);
  require(measured.ranks % measured.hosts == 0, ErrorCode::kBadInput, "{}: {} ranks on {} hosts",
          place, measured.ranks, measured.hosts);
  measured.source = fmt::format("nccl-tests {} on {} ranks of {} host{}{}", measured.test->program,
                                measured.ranks, measured.hosts, measured.hosts == 1 ? "" : "s",
                                when.empty() ? "" : ", " + when);
}

ImportedCluster calibrate_by(const NcclMeasurement& measured, const ImportSource& source) {
  return Calibration(measured, source).take();
}

}  // namespace sextant
