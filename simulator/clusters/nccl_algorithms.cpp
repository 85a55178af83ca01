// Rates and steps that all algorithms share, then one function per algorithm.

#include "simulator/clusters/nccl_algorithms.h"

#include "core/base/check.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sextant {

namespace {

struct NamedAlgorithm {
  std::string_view name;
  Algorithm algorithm;
};
constexpr std::array<NamedAlgorithm, 6> kAlgorithms = {{{"ring", Algorithm::kRing},
                                                        {"direct", Algorithm::kDirect},
                                                        {"tree", Algorithm::kTree},
                                                        {"nvls", Algorithm::kNvls},
                                                        {"hierarchical", Algorithm::kHierarchical},
                                                        {"pairwise", Algorithm::kPairwise}}};

bool has_halves(Primitive primitive) {
  return primitive == Primitive::kAllReduce || primitive == Primitive::kReduceScatter ||
         primitive == Primitive::kAllGather;
}

// Of reduce_scatter and all_gather; an all_reduce is both.
double halves_of(Primitive primitive) { return primitive == Primitive::kAllReduce ? 2 : 1; }

double log2_up(std::int64_t count) { return std::bit_width(static_cast<std::uint64_t>(count - 1)); }

// What one formula needs of a group, in doubles.
class Group {
 public:
  Group(const Way& way, const GroupShape& shape) : way_(way), shape_(shape) {}

  double n() const { return static_cast<double>(shape_.members); }
  double nodes() const { return static_cast<double>(shape_.nodes); }
  double fewest() const { return static_cast<double>(shape_.fewest); }
  double most() const { return static_cast<double>(shape_.most); }
  bool spans_nodes() const { return shape_.spans_nodes(); }
  bool has_local_hops() const { return shape_.most > 1; }

  double local_ring() const { return way_.local_rate * shape_.local.ring; }

  // Of rings that cross all borders: every member brings its share of what crosses each.
  double remote_ring() const {
    double rate = way_.remote_rate * fewest() * shape_.remote.ring;
    if (way_.remote_most > 0) rate = std::min(rate, way_.remote_most * shape_.remote.ring);
    for (std::size_t tier = 0; tier < kMaxOuterTiers && shape_.tiers[tier].groups > 1; ++tier)
      rate = std::min(rate, way_.tier_rates[tier] * static_cast<double>(shape_.tiers[tier].fewest));
    return rate;
  }

  double ring() const {
    if (!spans_nodes()) return local_ring();
    return has_local_hops() ? std::min(local_ring(), remote_ring()) : remote_ring();
  }

  double local_step() const { return way_.local_step * shape_.local.hops; }

  // To the farthest member.
  double farthest_step() const {
    double step = way_.remote_step * shape_.remote.hops;
    for (std::size_t tier = 0; tier < kMaxOuterTiers && shape_.tiers[tier].groups > 1; ++tier)
      step = std::max(step, way_.tier_steps[tier]);
    return step;
  }

  // Latency of all steps of a half that leave a node, each that of the border it crosses.
  double remote_steps() const {
    double step = way_.remote_step * shape_.remote.hops;
    if (shape_.tiers[0].groups <= 1) return shape_.remote.steps * step;
    double seconds = 0;
    std::int64_t inside = shape_.nodes;
    for (std::size_t tier = 0; tier < kMaxOuterTiers && shape_.tiers[tier].groups > 1; ++tier) {
      seconds += static_cast<double>(inside - shape_.tiers[tier].groups) * step;
      inside = shape_.tiers[tier].groups;
      step = std::max(step, way_.tier_steps[tier]);
    }
    return seconds + static_cast<double>(inside - 1) * step;
  }

  // Of a half that goes round a ring of all members.
  double ring_steps() const {
    if (!spans_nodes()) return shape_.local.steps * local_step();
    return (n() - nodes()) * local_step() + remote_steps();
  }

  // Up or down a tree over nodes whose members are a chain.
  double tree_steps() const {
    const double local = (most() - 1) * local_step();
    return spans_nodes() ? local + log2_up(shape_.nodes) * farthest_step() : local;
  }

  // Bytes that a member sends and a node sends up and down trees between nodes, per byte: two
  // trees, each with half; of two nodes one is the leaf of both.
  double tree_share() const { return shape_.nodes == 2 ? 1 : 2; }

  // Of one member that sends `near` of its bytes inside its node and `far` out of it, with what
  // the wiring leaves it of either link.
  double pair_seconds(double bytes, double near, double far, double local, double remote) const {
    double seconds = near > 0 ? bytes * near / (way_.local_rate * local) : 0;
    if (far > 0) seconds = std::max(seconds, bytes * far / remote_pair(remote));
    return seconds;
  }

  double remote_pair(double share) const {
    double rate = way_.remote_rate * share;
    for (std::size_t tier = 0; tier < kMaxOuterTiers && shape_.tiers[tier].groups > 1; ++tier)
      rate = std::min(rate, way_.tier_rates[tier]);
    return rate;
  }

  // To all others at once, equally much to each.
  double spread_seconds(double bytes) const {
    const double peers = n() - 1;
    const double near = spans_nodes() ? (most() - 1) / peers : 1;
    const double far = spans_nodes() ? (n() - fewest()) / peers : 0;
    return pair_seconds(bytes, near, far, shape_.local.spread, shape_.remote.spread);
  }

  // To one other, the worst placed.
  double transfer_seconds(double bytes) const {
    if (spans_nodes()) return bytes / remote_pair(shape_.remote.pair);
    return bytes / (way_.local_rate * shape_.local.pair);
  }
  double transfer_step() const {
    return spans_nodes() ? far_pair_step() : way_.local_step * shape_.local.pair_hops;
  }

  double all_to_all_steps() const {
    const double far = spans_nodes() ? n() - fewest() : 0;
    const double near = n() - 1 - far;
    return near * way_.local_step * shape_.local.pair_hops + (far > 0 ? far * far_pair_step() : 0);
  }

  double tree_steps_between_nodes() const { return log2_up(shape_.nodes) * farthest_step(); }

  const Way& way() const { return way_; }

 private:
  double far_pair_step() const {
    return std::max(way_.remote_step * shape_.remote.pair_hops, farthest_step());
  }

  const Way& way_;
  const GroupShape& shape_;
};

Seconds ring(const Group& group, Primitive primitive, const CollectiveSize& size) {
  const double rate = group.ring(), base = group.way().base;
  const double copy = group.way().own_copy;
  if (primitive == Primitive::kBroadcast) {
    const double latency = base + group.ring_steps();
    return {latency, latency + size.global / rate};
  }
  const double halves = halves_of(primitive);
  const double latency = base + halves * group.ring_steps();
  const double part = size.global / (group.n() * rate);
  return {latency, latency + (halves * (group.n() - 1) + copy) * part};
}

Seconds direct(const Group& group, Primitive primitive, const CollectiveSize& size) {
  const double halves = halves_of(primitive);
  const double step = group.spans_nodes() ? group.farthest_step() : group.local_step();
  const double latency = group.way().base + halves * step;
  const double all_others = size.global * (group.n() - 1) / group.n();
  return {latency, latency + halves * group.spread_seconds(all_others)};
}

Seconds tree(const Group& group, const CollectiveSize& size) {
  const double latency = group.way().base + 2 * group.tree_steps();
  double seconds = group.has_local_hops() ? 2 * size.global / group.local_ring() : 0;
  if (group.spans_nodes())
    seconds = std::max(seconds, group.tree_share() * size.global / group.remote_ring());
  return {latency, latency + seconds};
}

std::optional<Seconds> nvls(const Group& group, Primitive primitive, const CollectiveSize& size) {
  if (!group.has_local_hops() || group.fewest() == 1) return std::nullopt;
  const double half = size.global / group.local_ring();
  if (primitive != Primitive::kAllReduce) {
    if (group.spans_nodes()) return std::nullopt;
    const double latency = group.way().base + group.local_step();
    return Seconds{latency, latency + half};
  }
  double latency = group.way().base + 2 * group.local_step();
  double seconds = (1 + (1 + group.way().own_copy) / group.fewest()) * half;
  if (group.spans_nodes()) {
    latency += 2 * group.tree_steps_between_nodes();
    seconds = std::max(seconds, group.tree_share() * size.global / group.remote_ring());
  }
  return Seconds{latency, latency + seconds};
}

std::optional<Seconds> hierarchical(const Group& group, Primitive primitive,
                                    const CollectiveSize& size) {
  if (!group.spans_nodes() || group.fewest() != group.most()) return std::nullopt;
  const double k = group.fewest(), nodes = group.nodes(), halves = halves_of(primitive);
  const double latency =
      group.way().base + halves * ((k - 1) * group.local_step() + group.remote_steps());
  double seconds = (nodes - 1) * size.global / (nodes * group.remote_ring());
  if (k > 1) seconds += (k - 1) * size.global / (k * group.local_ring());
  return Seconds{latency, latency + halves * seconds};
}

Seconds pairwise(const Group& group, Primitive primitive, const CollectiveSize& size) {
  const double base = group.way().base;
  if (primitive == Primitive::kAllToAll) {
    const double latency = base + group.all_to_all_steps();
    return {latency, latency + group.spread_seconds(size.largest)};
  }
  const double latency = base + group.transfer_step();
  const double bytes = primitive == Primitive::kShift ? size.global / group.n() : size.largest;
  return {latency, latency + group.transfer_seconds(bytes)};
}

}  // namespace

std::string_view to_string(Algorithm algorithm) {
  for (const NamedAlgorithm& one : kAlgorithms)
    if (one.algorithm == algorithm) return one.name;
  return "?";
}

Algorithm parse_algorithm(std::string_view name) {
  std::string known;
  for (const NamedAlgorithm& one : kAlgorithms) {
    if (one.name == name) return one.algorithm;
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  throw Error(ErrorCode::kBadInput,
              fmt::format("unknown algorithm '{}' of a link, wanted one of {}", name, known));
}

bool can_run(Algorithm algorithm, Primitive primitive) {
  switch (algorithm) {
    case Algorithm::kRing:
      return has_halves(primitive) || primitive == Primitive::kBroadcast;
    case Algorithm::kDirect:
    case Algorithm::kNvls:
    case Algorithm::kHierarchical:
      return has_halves(primitive);
    case Algorithm::kTree:
      return primitive == Primitive::kAllReduce;
    case Algorithm::kPairwise:
      return primitive == Primitive::kAllToAll || primitive == Primitive::kShift ||
             primitive == Primitive::kTransfer;
  }
  return false;
}

std::optional<Seconds> seconds_of(const Way& way, Primitive primitive, const GroupShape& shape,
                                  const CollectiveSize& size) {
  const Group group(way, shape);
  switch (way.algorithm) {
    case Algorithm::kRing:
      return ring(group, primitive, size);
    case Algorithm::kDirect:
      return direct(group, primitive, size);
    case Algorithm::kTree:
      return tree(group, size);
    case Algorithm::kNvls:
      return nvls(group, primitive, size);
    case Algorithm::kHierarchical:
      return hierarchical(group, primitive, size);
    case Algorithm::kPairwise:
      return pairwise(group, primitive, size);
  }
  return std::nullopt;
}

PlainWays plain_ways(const Way& links) {
  constexpr std::array kPlain = {Algorithm::kRing, Algorithm::kHierarchical, Algorithm::kPairwise};
  PlainWays ways;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    ways[i] = links;
    ways[i].algorithm = kPlain[i];
  }
  return ways;
}

Seconds plain_seconds(const PlainWays& plain, Primitive primitive, const GroupShape& shape,
                      const CollectiveSize& size) {
  std::optional<Seconds> least;
  for (const Way& way : plain) {
    if (!can_run(way.algorithm, primitive)) continue;
    const std::optional<Seconds> one = seconds_of(way, primitive, shape, size);
    if (one && (!least || one->total < least->total)) least = one;
  }
  SEXTANT_INVARIANT(least.has_value(), "no plain way for {}", to_string(primitive));
  return *least;
}

}  // namespace sextant
