// Bounds from below, without pricing anything box by box: of a step, and of what is left of a path.
#include "sbp/boxing_nodes.h"
#include "sbp/boxing_prices.h"

#include <algorithm>
#include <limits>

namespace sextant {

// A time that grows with the bytes, ever more slowly, lies above its chord.
std::int64_t BoxingPrices::least_time_to_deliver(BoxingWhere side, std::int64_t bytes) {
  std::optional<Delivery>& known = deliveries_of_[index(side)];
  if (!known) {
    const std::int64_t most = product(tensor_bytes(DType::kF64), 2);
    known = {fastest_step(side, 0), fastest_step(side, most), most};
  }
  const auto devices = static_cast<double>(
      std::max(mesh(side).placement->ranks.size(), meshes_[1]->placement->ranks.size()));
  return chord(*known, static_cast<double>(bytes) / devices);
}

std::int64_t BoxingPrices::chord(const Delivery& delivery, double bytes) {
  if (delivery.most_bytes == 0) return delivery.of_nothing;
  // Prices are rounded step by step.
  constexpr double kRounding = 16, kExact = 1 - 1e-12;
  const double rise = static_cast<double>(delivery.of_most - delivery.of_nothing) *
                      (bytes / static_cast<double>(delivery.most_bytes));
  return delivery.of_nothing + static_cast<std::int64_t>(std::max(0.0, rise * kExact - kRounding));
}

std::int64_t BoxingPrices::fastest_step(BoxingWhere side, std::int64_t bytes) {
  if (side == BoxingWhere::kTarget || meshes_[0] == meshes_[1])
    return fastest_collective(side, bytes);
  return std::min({fastest_collective(BoxingWhere::kSource, bytes),
                   fastest_collective(BoxingWhere::kTarget, bytes), fastest_pair(bytes)});
}

// A ring of n that works on X brings each member X (n - 1) / n, an all_reduce twice that.
std::int64_t BoxingPrices::fastest_collective(BoxingWhere side, std::int64_t bytes) {
  std::int64_t fastest = std::numeric_limits<std::int64_t>::max();
  const std::uint32_t all = mesh(side).all_axes;
  for (std::uint32_t axes = all; axes != 0; axes = (axes - 1) & all) {
    const AxisGroups& along = groups(side, axes);
    const auto n = static_cast<std::int64_t>(along.members);
    const std::int64_t ring = bytes / (n - 1) * n;
    for (std::size_t group = 0; group < along.size(); ++group) {
      const auto members = std::span(along.ranks).subspan(group * along.members, along.members);
      const auto take = [&](Primitive primitive, std::int64_t global, std::int64_t largest) {
        const Change change{BoxingKind::kCollective, primitive, axes, {side, 0}, {side, 0},
                            request_.type.dtype};
        fastest = std::min(fastest, duration(change, members, Bytes(global), Bytes(largest)));
      };
      take(Primitive::kAllGather, ring, 0);
      take(Primitive::kReduceScatter, ring, 0);
      take(Primitive::kAllReduce, ring / 2, 0);
      take(Primitive::kAllToAll, bytes, bytes);
    }
  }
  return fastest;
}

// Between so many devices that all pairs are too many, those of near rank are taken for the
// nearest.
std::int64_t BoxingPrices::fastest_pair(std::int64_t bytes) {
  constexpr std::size_t kAllPairs = 4096;
  const std::vector<Rank>&from = mesh(BoxingWhere::kSource).placement->ranks,
        &to = mesh(BoxingWhere::kTarget).placement->ranks;
  const bool all = from.size() * to.size() <= kAllPairs;
  const Change change{BoxingKind::kTransfer,     Primitive::kTransfer,      0,
                      {BoxingWhere::kSource, 0}, {BoxingWhere::kTarget, 0}, request_.type.dtype};
  std::int64_t fastest = std::numeric_limits<std::int64_t>::max();
  const auto take = [&](Rank sender, Rank receiver) {
    if (sender == receiver) return;
    const std::array<Rank, 2> pair = {sender, receiver};
    fastest = std::min(fastest, duration(change, pair, Bytes(bytes), Bytes(bytes)));
  };
  std::vector<Rank> sorted = from;
  std::sort(sorted.begin(), sorted.end());
  for (const Rank receiver : to) {
    const auto next = std::lower_bound(sorted.begin(), sorted.end(), receiver);
    for (auto near = next - std::min<std::ptrdiff_t>(1, next - sorted.begin());
         near != sorted.end() && near - next <= 1; ++near)
      take(*near, receiver);
    if (all)
      for (const Rank sender : from) take(sender, receiver);
  }
  return fastest == std::numeric_limits<std::int64_t>::max() ? 0 : fastest;
}

// The first and the last device receive what they want and do not have; the last more often has
// nothing of it.
std::int64_t BoxingPrices::least_exchange_time(const Change& change) {
  const Held &from = held(change.from), &to = held(change.to);
  const AxisGroups& along = groups(change.from.side, change.axes);
  const auto missing_time = [&](const Box& have, const Box& want, std::size_t first,
                                std::uint64_t which) {
    const std::int64_t missing =
        (want.elements() - want.elements_shared_with(have)) * element_of(change).value;
    return deliveries_.of(change.key() | which << 60U, missing, [&] {
      return duration(change, std::span(along.ranks).subspan(first, along.members), Bytes(missing),
                      Bytes(missing));
    });
  };
  return std::max(missing_time(from.first, to.first, 0, 0),
                  missing_time(from.last, to.last, along.ranks.size() - along.members, 1));
}

// Somebody brings one device what it wants and does not have, and some source sends at least its
// part of all that is sent.
std::int64_t BoxingPrices::least_transfer_time(const Change& change) {
  if (!is_disjoint()) return compute_least_transfer_time(change);
  // It depends on what arrives and in how many shares.
  const std::uint64_t key =
      static_cast<std::uint64_t>(change.to.number) << 8U | static_cast<std::uint64_t>(change.dtype);
  return least_transfers_.of(key, num_shares(change.from),
                             [&] { return compute_least_transfer_time(change); });
}

std::int64_t BoxingPrices::compute_least_transfer_time(const Change& change) {
  const auto sources = static_cast<std::int64_t>(mesh(change.from.side).placement->ranks.size());
  const std::int64_t sent = least_bytes(change) / sources;
  const std::int64_t received = least_received(change);
  std::int64_t time = 0;
  if (sent > received) time = least_pair_time(sent);
  if (received == 0) return time;
  return std::max(time, fastest_delivery(change, new_device_.value_or(0), received));
}

// Of a device that the source lacks, or of the first. Under partial words of the target it may get
// nothing; in a disjoint placement the first always gets a share.
std::int64_t BoxingPrices::least_received(const Change& change) {
  const bool gets_all = num_shares(change.to) == 1;
  if (!gets_all && !is_disjoint()) return 0;
  const std::size_t device = new_device_.value_or(0);
  const MeshBoxes& to = boxes(change.to);
  const Box wanted = device == 0 ? held(change.to).first : to.box_at(to.coordinates_of(device));
  std::int64_t missing = wanted.elements() * (gets_all ? num_shares(change.from) : 1);
  if (!new_device_) {
    const MeshBoxes& from = boxes(change.from);
    const std::size_t own = *common_->source_of(device);
    missing -= wanted.elements_shared_with(from.box_at(from.coordinates_of(own)));
  }
  return missing * element_of(change).value;
}

// On the chord of the times of the fastest pair.
std::int64_t BoxingPrices::least_pair_time(std::int64_t bytes) {
  if (!pair_delivery_) {
    const std::int64_t most = product(tensor_bytes(DType::kF64), 2);
    pair_delivery_ = {fastest_pair(0), fastest_pair(most), most};
  }
  return chord(*pair_delivery_, static_cast<double>(bytes));
}

std::int64_t BoxingPrices::fastest_delivery(const Change& change, std::size_t device,
                                            std::int64_t bytes) {
  return deliveries_.of(change.key(), bytes, [&] {
    const Rank receiver = mesh(change.to.side).placement->ranks[device];
    std::optional<std::int64_t> fastest;
    for (const Rank sender : mesh(change.from.side).placement->ranks) {
      if (sender == receiver) continue;
      const std::array<Rank, 2> pair = {sender, receiver};
      const std::int64_t time = duration(change, pair, Bytes(bytes), Bytes(bytes));
      fastest = fastest ? std::min(*fastest, time) : time;
    }
    return fastest.value_or(0);
  });
}

// The first device of a mesh holds a largest box.
std::int64_t BoxingPrices::least_missing(StateRef from, StateRef to) {
  const std::int64_t wanted = product(product(elements_, copies_of_shares(to)), num_shares(from));
  if (is_disjoint()) return wanted;
  const std::int64_t largest = std::min(held(from).first.elements(), held(to).first.elements());
  return std::max<std::int64_t>(0,
                                wanted - product(static_cast<std::int64_t>(num_common_), largest));
}

BoxingRest::BoxingRest(BoxingNodes& nodes) : nodes_(nodes), rests_(nodes.size(), -1) {
  const BoxingPrices& prices = nodes.prices();
  if (nodes.has_reducing_layer())
    reducing_tensor_bytes_ = prices.tensor_bytes(nodes.reducing_type());
  num_wanted_shares_ = prices.num_shares(nodes.ref_of(nodes.goal()));
  least_tensor_bytes_ = prices.tensor_bytes(nodes.layers().front());
  for (const DType dtype : nodes.layers())
    least_tensor_bytes_ = std::min(least_tensor_bytes_, prices.tensor_bytes(dtype));
}

std::int64_t BoxingRest::least(NodeNumber node) {
  if (rests_[node] < 0) rests_[node] = compute(node);
  return rests_[node];
}

// What devices do alone is bounded where nothing crosses and no type changes.
bool BoxingRest::bounds_local_times() const {
  return nodes_.task().has_device_times && nodes_.layers().size() == 1;
}

std::int64_t BoxingRest::least_fill() {
  if (!least_fill_)
    least_fill_ = nodes_.prices().least_local_time(nodes_.ref_of(nodes_.goal()).side, 0);
  return *least_fill_;
}

// Of the last step, and of the last ones where one of them must be a fill.
std::int64_t BoxingRest::least_end(bool fills) {
  if (!least_last_local_) {
    const StateRef goal = nodes_.ref_of(nodes_.goal());
    least_last_local_ =
        nodes_.prices().least_local_time(goal.side, nodes_.prices().largest_part(goal));
  }
  const std::int64_t latency =
      nodes_.prices().least_time_to_deliver(nodes_.ref_of(nodes_.goal()).side, 0);
  return std::min(*least_last_local_, latency + (fills ? least_fill() : 0));
}

// Words become partial in local steps only.
bool BoxingRest::wants_fill(const MeshState& state) const {
  if (!nodes_.task().wanted) return false;
  const std::vector<std::size_t>& axes = nodes_.mesh(BoxingWhere::kTarget).axes;
  return std::any_of(axes.begin(), axes.end(), [&](std::size_t axis) {
    return nodes_.task().goal.is_partial(axis) && !state.is_partial(axis);
  });
}

std::int64_t BoxingRest::compute(NodeNumber node) {
  const StateRef ref = nodes_.ref_of(node);
  const std::int64_t bytes = least_bytes_left(node);
  if (!nodes_.task().by_time) return bytes;
  if (nodes_.must_cross(node))
    return bytes == 0 ? 0 : nodes_.prices().least_time_to_deliver(ref.side, bytes);
  if (node == nodes_.goal()) return 0;
  const bool fills = bounds_local_times() && wants_fill(nodes_.state_of(node));
  if (bytes == 0 && nodes_.is_near_goal(nodes_.state_of(node)))
    return bounds_local_times() ? least_end(fills) : 0;
  return nodes_.prices().least_time_to_deliver(ref.side, bytes) + (fills ? least_fill() : 0);
}

// Of every element, k copies of the value (or of shares that make it) are wanted. What needs no
// reduction is delivered where it does not lie already.
std::int64_t BoxingRest::least_bytes_left(NodeNumber node) {
  const StateRef ref = nodes_.ref_of(node), goal = nodes_.ref_of(nodes_.goal());
  if (nodes_.prices().num_shares(ref) > 1) return least_bytes_of_shares(node);
  const std::int64_t elements = nodes_.task().request.type.shape.elements();
  if (elements == 0) return 0;
  const std::int64_t element = least_tensor_bytes_ / elements;
  const std::int64_t wanted = nodes_.prices().copies_of_shares(goal);
  if (nodes_.must_cross(node)) return nodes_.prices().least_missing(ref, goal) * element;
  if (!nodes_.task().wanted)
    return (elements * wanted - nodes_.prices().elements_that_stay(ref, goal)) * element;
  return std::max<std::int64_t>(0, wanted - nodes_.prices().copies_of_shares(ref)) *
         least_tensor_bytes_;
}

// When the first copy has got what it lacks of K shares, each of the others needs at least one more
// message per element.
std::int64_t BoxingRest::least_bytes_of_shares(NodeNumber node) {
  const StateRef ref = nodes_.ref_of(node), goal = nodes_.ref_of(nodes_.goal());
  const MeshState& state = nodes_.state_of(node);
  const std::int64_t shares = nodes_.prices().num_shares(ref);
  const std::int64_t wanted = nodes_.prices().copies_of_shares(goal);
  const bool none_there = nodes_.must_cross(node) && nodes_.prices().is_disjoint();
  if (state.pending_reduction() != nodes_.task().wanted)
    return (shares - 1) * reducing_tensor_bytes_ +
           (wanted - (none_there ? 0 : 1)) * least_tensor_bytes_;
  // Shares may stay shares.
  if (none_there) return wanted * least_tensor_bytes_;
  if (nodes_.must_cross(node))
    return std::max<std::int64_t>(0, shares - num_wanted_shares_) * reducing_tensor_bytes_;
  std::int64_t kept = 1;
  bool wants_more = false;  // axes to be partial that are not
  for (const std::size_t axis : nodes_.mesh(ref.side).axes) {
    if (state.is_partial(axis) && nodes_.task().goal.is_partial(axis))
      kept *= nodes_.mesh(ref.side).extents[axis];
    wants_more = wants_more || (nodes_.task().goal.is_partial(axis) && !state.is_partial(axis));
  }
  if (kept < shares)
    return (shares - kept) * reducing_tensor_bytes_ + (wanted - 1) * least_tensor_bytes_;
  const std::int64_t elements = nodes_.task().request.type.shape.elements();
  if (wants_more || elements == 0) return 0;
  // Nobody else has any share of what a copy lacks, so the first to get it gets all of them.
  const std::int64_t missing =
      elements * wanted - nodes_.prices().elements_that_stay(ref, goal) / shares;
  return (missing + (shares - 1) * (missing / wanted)) * (least_tensor_bytes_ / elements);
}

}  // namespace sextant
