// Ways are read off the cluster once; a duration is their minimum.

#include "simulator/costs/nccl_model.h"

#include "core/base/check.h"
#include "core/graphs/primitives.h"
#include "simulator/costs/modelled_time.h"
#include "simulator/costs/models.h"

#include <algorithm>

namespace sextant {

namespace {

double rate_of(const NetworkLink& link, double efficiency) {
  return link.bandwidth.value * efficiency;
}

// Bytes of payload per byte on the wire: ll sends 4 bytes of flag with every 4 of data, ll128 8
// with every 120.
double payload_share(const NetworkLink& link, const CollectiveAlgorithm& algorithm) {
  if (algorithm.protocol == "ll") return 0.5;
  if (algorithm.protocol == "ll128") return 120.0 / 128.0;
  require(algorithm.protocol == "simple", ErrorCode::kBadInput,
          "algorithm '{}' of link '{}': protocol '{}', wanted ll, ll128 or simple", algorithm.name,
          link.name, algorithm.protocol);
  return 1;
}

// What NCCL's tuning model gives one port under ll: half of the line in a ring, 0.92 / 3.8 of it in
// a tree. The ceiling of the protocol is not a port's but a device's, through which the traffic of
// all ports of its node passes: a member that is alone in its node is far below it.
double port_share(const CollectiveAlgorithm& algorithm) {
  if (algorithm.protocol != "ll") return 0;
  return parse_algorithm(algorithm.name) == Algorithm::kTree ? 0.92 / 3.8 : 0.5;
}

// The efficiency is that of a node whose devices all take part.
void set_remote(const Cluster& cluster, const CollectiveAlgorithm& algorithm, Way& way) {
  const NetworkLink& link = cluster.inter_node;
  const double share = algorithm.efficiency.value;
  if (share >= port_share(algorithm)) return;
  way.remote_rate = rate_of(link, port_share(algorithm));
  way.remote_most = rate_of(link, share) * static_cast<double>(cluster.devices_per_node);
}

void set_tiers(const Cluster& cluster, double payload, Way& way) {
  for (std::size_t tier = 0; tier < cluster.outer_tiers.size(); ++tier) {
    const NetworkLink& link = cluster.outer_tiers[tier].link;
    way.tier_steps[tier] = link.latency.value;
    way.tier_rates[tier] = rate_of(link, link.efficiency.value * payload);
  }
}

Way plain_way(const Cluster& cluster) {
  Way way;
  way.local_step = cluster.intra_node.latency.value;
  way.local_rate = rate_of(cluster.intra_node, cluster.intra_node.efficiency.value);
  way.remote_step = cluster.inter_node.latency.value;
  way.remote_rate = rate_of(cluster.inter_node, cluster.inter_node.efficiency.value);
  set_tiers(cluster, 1, way);
  return way;
}

Way way_of(const NetworkLink& link, const CollectiveAlgorithm& from) {
  Way way;
  way.algorithm = parse_algorithm(from.name);
  way.protocol = from.protocol;
  way.base = from.base_latency.value;
  way.own_copy = from.own_copy.value;
  way.local_step = way.remote_step = from.step_latency.value;
  way.local_rate = way.remote_rate = rate_of(link, from.efficiency.value);
  return way;
}

bool serves(const CollectiveAlgorithm& algorithm, Primitive primitive) {
  return (algorithm.primitive.empty() || algorithm.primitive == to_string(primitive)) &&
         can_run(parse_algorithm(algorithm.name), primitive);
}

void check(const NetworkLink& link, const CollectiveAlgorithm& algorithm) {
  payload_share(link, algorithm);
  require(std::any_of(kPrimitives.begin(), kPrimitives.end(),
                      [&](Primitive primitive) { return serves(algorithm, primitive); }),
          ErrorCode::kBadInput, "algorithm '{}' of link '{}' cannot run primitive '{}'",
          algorithm.name, link.name, algorithm.primitive);
}

// What happens inside the nodes of a group that spans some.
void set_local(const Cluster& cluster, const CollectiveAlgorithm& remote, Primitive primitive,
               Way& way) {
  const NetworkLink& link = cluster.intra_node;
  way.local_step = link.latency.value;
  way.local_rate = rate_of(link, link.efficiency.value * payload_share(link, remote));
  for (const CollectiveAlgorithm& local : link.algorithms) {
    if (local.name != remote.name || local.protocol != remote.protocol) continue;
    if (!serves(local, primitive)) continue;
    way.local_step = local.step_latency.value;
    way.local_rate = rate_of(link, local.efficiency.value);
    return;
  }
}

CollectiveSize size_of(const CollectiveCost& cost) {
  return {static_cast<double>(cost.global_bytes.value),
          static_cast<double>(cost.largest_volume.value)};
}

std::size_t index_of(Primitive primitive) {
  const auto index = static_cast<std::size_t>(primitive);
  require(index < kPrimitives.size(), ErrorCode::kInternal, "no cost of primitive {}", index);
  return index;
}

}  // namespace

NcclModel::NcclModel(const Cluster& cluster)
    : shapes_(cluster), plain_(plain_ways(plain_way(cluster))) {
  for (const CollectiveAlgorithm& algorithm : cluster.intra_node.algorithms) {
    check(cluster.intra_node, algorithm);
    for (const Primitive primitive : kPrimitives)
      if (serves(algorithm, primitive))
        local_[index_of(primitive)].push_back(way_of(cluster.intra_node, algorithm));
  }
  for (const CollectiveAlgorithm& algorithm : cluster.inter_node.algorithms) {
    check(cluster.inter_node, algorithm);
    for (const Primitive primitive : kPrimitives) {
      if (!serves(algorithm, primitive)) continue;
      Way way = way_of(cluster.inter_node, algorithm);
      set_local(cluster, algorithm, primitive, way);
      set_remote(cluster, algorithm, way);
      set_tiers(cluster, payload_share(cluster.inter_node, algorithm), way);
      spanning_[index_of(primitive)].push_back(std::move(way));
    }
  }
}

NcclModel::Best NcclModel::best(Primitive primitive, const GroupShape& shape,
                                const CollectiveSize& size) const {
  const Ways& all = shape.spans_nodes() ? spanning_ : local_;
  Best best;
  double least = -1;
  for (const Way& way : all[index_of(primitive)]) {
    const std::optional<Seconds> seconds = seconds_of(way, primitive, shape, size);
    if (!seconds || (least >= 0 && seconds->total >= least)) continue;
    least = seconds->total;
    best.way = &way;
    best.latency = seconds->latency;
  }
  if (best.way == nullptr) {
    const Seconds seconds = plain_seconds(plain_, primitive, shape, size);
    best.latency = seconds.latency;
    least = seconds.total;
  }
  best.duration = modelled_time(least, to_string(primitive));
  return best;
}

namespace {

Duration sum(Duration a, Duration b) {
  std::int64_t total = 0;
  if (__builtin_add_overflow(a.value, b.value, &total))
    return modelled_time(to_seconds(a) + to_seconds(b), "all_reduce");  // refused there
  return Duration(total);
}

}  // namespace

// Rounded by halves: an all_reduce is not a picosecond dearer than its two parts.
Duration NcclModel::duration(const CollectiveCost& cost) const {
  const Primitive primitive = cost.communication->primitive;
  (void)index_of(primitive);
  if (cost.members.size() <= 1) return {};
  const GroupShape shape = shapes_.of(cost.members);
  const CollectiveSize size = size_of(cost);
  if (primitive != Primitive::kAllReduce) return best(primitive, shape, size).duration;
  const Duration halves = sum(best(Primitive::kReduceScatter, shape, size).duration,
                              best(Primitive::kAllGather, shape, size).duration);
  const Best whole = best(primitive, shape, size);
  return whole.way != nullptr ? std::min(whole.duration, halves) : halves;
}

CollectiveChoice NcclModel::choice(const CollectiveCost& cost) const {
  const auto name = [](const Best& best) {
    if (best.way == nullptr) return std::string("alpha-beta");
    return std::string(to_string(best.way->algorithm)) + " " + best.way->protocol;
  };
  const Duration duration = this->duration(cost);
  if (cost.members.size() <= 1) return {"alone", {}, {}};
  const Primitive primitive = cost.communication->primitive;
  const GroupShape shape = shapes_.of(cost.members);
  const CollectiveSize size = size_of(cost);
  const Best whole = best(primitive, shape, size);
  const auto at_most = [&](double latency) {
    return std::min(duration, duration_from_seconds(latency));
  };
  if (primitive != Primitive::kAllReduce || (whole.way != nullptr && whole.duration == duration))
    return {name(whole), at_most(whole.latency), duration};
  const Best scatter = best(Primitive::kReduceScatter, shape, size);
  const Best gather = best(Primitive::kAllGather, shape, size);
  const std::string text =
      name(scatter) == name(gather) ? name(scatter) : name(scatter) + ", " + name(gather);
  return {text, at_most(scatter.latency + gather.latency), duration};
}

void NcclModel::complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                         std::span<Time> done) const {
  SEXTANT_INVARIANT(arrivals.size() == done.size(), "{} arrivals, {} completions", arrivals.size(),
                    done.size());
  if (arrivals.empty()) return;
  const Time end = *std::max_element(arrivals.begin(), arrivals.end()) + duration(cost);
  std::fill(done.begin(), done.end(), end);
}

std::unique_ptr<NetworkModel> make_network_model(const Cluster& cluster) {
  return std::make_unique<NcclModel>(cluster);
}

std::unique_ptr<NetworkModel> make_alpha_beta(const Cluster& cluster) {
  Cluster plain = cluster;
  for (NetworkLink* link : {&plain.intra_node, &plain.inter_node}) {
    link->algorithms.clear();
    link->wiring = Wiring::kSwitch;
  }
  plain.outer_tiers.clear();
  return std::make_unique<NcclModel>(plain);
}

}  // namespace sextant
