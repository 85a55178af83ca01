// Closed forms where all groups are alike, boxes of devices where they are not.
#include "sbp/boxing_prices.h"

#include "core/check.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace sextant {
namespace {

std::size_t index(BoxingWhere side) { return static_cast<std::size_t>(side); }

std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result))
    fail(ErrorCode::kInfeasible, "a boxing of more than 2^63 bytes");
  return result;
}

std::uint64_t key_of(const Change& change) {
  return static_cast<std::uint64_t>(change.primitive) | index(change.from.side) << 8U |
         std::uint64_t{change.axes} << 16U | static_cast<std::uint64_t>(change.dtype) << 56U;
}

bool is_exchange(const Change& change) { return change.primitive == Primitive::kAllToAll; }
bool is_transfer(const Change& change) { return change.kind == BoxingKind::kTransfer; }

}  // namespace

BoxingMesh::BoxingMesh(const Placement& on) : placement(&on), extents(on.hierarchy()) {
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (extents[axis] > 1) {
      axes.push_back(axis);
      all_axes |= std::uint32_t{1} << axis;
    }
}

BoxingPrices::BoxingPrices(const BoxingRequest& request, const BoxingMesh& source,
                           const BoxingMesh& target, WorkBudget& work)
    : request_(request),
      work_(work),
      meshes_{&source, &target},
      elements_(request.type.shape.elements()) {
  if (&source == &target) {
    num_common_ = source.placement->ranks.size();
    return;
  }
  const std::vector<Rank>&from = source.placement->ranks, &to = target.placement->ranks;
  std::vector<std::pair<Rank, std::size_t>> numbers;
  for (std::size_t device = 0; device < to.size(); ++device)
    numbers.emplace_back(to[device], device);
  if (!std::is_sorted(numbers.begin(), numbers.end())) std::sort(numbers.begin(), numbers.end());
  std::vector<bool> is_common(to.size());
  for (const Rank rank : from) {
    const auto found =
        std::lower_bound(numbers.begin(), numbers.end(), std::pair(rank, std::size_t{0}));
    if (found == numbers.end() || found->first != rank) continue;
    is_common[found->second] = true;
    target_order_.push_back(found->second);
  }
  num_common_ = target_order_.size();
  for (std::size_t device = to.size(); device-- > 0;)
    if (!is_common[device]) new_device_ = device;
  if (num_common_ != from.size() || new_device_) target_order_.clear();
}

std::int64_t BoxingPrices::tensor_bytes(DType dtype) const {
  return product(elements_, size_of(dtype).value);
}

std::int64_t BoxingPrices::num_shares(StateRef ref) const {
  std::int64_t shares = 1;
  for (const std::size_t axis : mesh(ref.side).axes)
    if (state(ref).is_partial(axis)) shares *= mesh(ref.side).extents[axis];
  return shares;
}

// How often the axes other than `without` repeat each element.
std::int64_t BoxingPrices::copies(StateRef ref, std::uint32_t without) const {
  std::int64_t copies = 1;
  for (const std::size_t axis : mesh(ref.side).axes)
    if (!state(ref).is_split(axis) && (without >> axis & 1U) == 0)
      copies *= mesh(ref.side).extents[axis];
  return copies;
}

std::int64_t BoxingPrices::parts(StateRef ref) const {
  std::int64_t parts = 1;
  for (const std::size_t axis : mesh(ref.side).axes)
    if (state(ref).is_split(axis)) parts *= mesh(ref.side).extents[axis];
  return parts;
}

bool BoxingPrices::splits_evenly(StateRef ref) const {
  const BoxingMesh& on = mesh(ref.side);
  const MeshState& words = state(ref);
  for (std::size_t at = 0; at < on.axes.size(); ++at) {
    if (!words.is_split(on.axes[at])) continue;
    const std::size_t dim = words.dim(on.axes[at]);
    std::int64_t parts = 1;
    for (const std::size_t axis : on.axes)
      if (words.is_split(axis) && words.dim(axis) == dim) parts *= on.extents[axis];
    if (request_.type.shape[dim] % parts != 0) return false;
  }
  return true;
}

// The closed forms of README, "Steps".
std::int64_t BoxingPrices::bytes(const Change& change) {
  if (is_transfer(change)) return is_disjoint() ? least_bytes(change) : moved_bytes(change);
  if (!is_exchange(change)) return least_bytes(change);
  const BoxingMesh& on = mesh(change.from.side);
  return product(
      product(elements_, copies(change.to, 0)) -
          elements_in_place(request_.type.shape, on.extents, state(change.from), state(change.to)),
      element_of(change).value);
}

std::int64_t BoxingPrices::least_bytes(const Change& change) {
  const std::int64_t tensor = tensor_bytes(change.dtype);
  if (is_transfer(change)) {
    if (is_disjoint())
      return product(tensor, product(copies_of_shares(change.to), num_shares(change.from)));
    return product(least_missing(change.from, change.to), element_of(change).value);
  }
  std::int64_t members = 1;
  for (const std::size_t axis : mesh(change.from.side).axes)
    if ((change.axes >> axis & 1U) != 0) members *= mesh(change.from.side).extents[axis];
  switch (change.primitive) {
    case Primitive::kAllReduce:
      members = 2 * (members - 1);
      break;
    case Primitive::kAllGather:
    case Primitive::kReduceScatter:
      members = members - 1;
      break;
    case Primitive::kAllToAll:
    case Primitive::kBroadcast:
    case Primitive::kTransfer:
      return 0;
  }
  return product(product(tensor, copies(change.to, change.axes)), members);
}

// The first device of a mesh holds a largest box.
std::int64_t BoxingPrices::least_missing(StateRef from, StateRef to) {
  const std::int64_t wanted = product(product(elements_, copies_of_shares(to)), num_shares(from));
  if (is_disjoint()) return wanted;
  const std::int64_t largest =
      std::min(boxes(from).box_at({}).elements(), boxes(to).box_at({}).elements());
  return std::max<std::int64_t>(0,
                                wanted - product(static_cast<std::int64_t>(num_common_), largest));
}

std::int64_t BoxingPrices::moved_bytes(const Change& change) {
  const Placement &from = *mesh(change.from.side).placement, &to = *mesh(change.to.side).placement;
  const Moves moves(boxes(change.from), from.ranks, boxes(change.to), to.ranks);
  std::int64_t moved = 0;
  for (std::size_t device = 0; device < to.ranks.size(); ++device)
    moves.visit_to(device, [&](std::size_t source, const Box& box) {
      work_.spend(kVisitWork);
      if (from.ranks[source] != to.ranks[device]) moved += box.elements();
    });
  return product(moved, element_of(change).value);
}

std::int64_t BoxingPrices::time(const Change& change) {
  const Placement &from = *mesh(change.from.side).placement, &to = *mesh(change.to.side).placement;
  if (is_transfer(change))
    return slowest(change, transfer_costs(boxes(change.from), from, boxes(change.to), to,
                                          element_of(change), &work_));
  if (is_exchange(change))
    return slowest(change, exchange_costs(groups(change.from.side, change.axes), boxes(change.from),
                                          boxes(change.to), from, element_of(change), &work_));
  return ring_time(change);
}

std::int64_t BoxingPrices::least_time(const Change& change) {
  if (is_transfer(change)) return least_transfer_time(change);
  if (is_exchange(change)) return least_exchange_time(change);
  return ring_time(change);
}

// A time that grows with the bytes, ever more slowly, lies above its chord.
std::int64_t BoxingPrices::least_time_to_deliver(BoxingWhere side, std::int64_t bytes) {
  std::optional<Delivery>& known = deliveries_of_[index(side)];
  if (!known) {
    const std::int64_t most = product(tensor_bytes(DType::kF64), 2);
    known = {fastest_step(side, 0), fastest_step(side, most), most};
  }
  if (known->most_bytes == 0) return known->of_nothing;
  const auto devices = static_cast<std::int64_t>(
      std::max(mesh(side).placement->ranks.size(), meshes_[1]->placement->ranks.size()));
  const auto each = static_cast<double>(bytes) / static_cast<double>(devices);
  const auto rise = static_cast<double>(known->of_most - known->of_nothing) *
                    (each / static_cast<double>(known->most_bytes));
  // Prices are rounded step by step.
  constexpr double kRounding = 16;
  return known->of_nothing +
         static_cast<std::int64_t>(std::max(0.0, rise * (1 - 1e-12) - kRounding));
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

std::int64_t BoxingPrices::elements_that_stay(StateRef from, StateRef to) const {
  return elements_in_place(request_.type.shape, mesh(from.side).extents, state(from), state(to));
}

// All groups hold boxes of one size where the splits are even: then their sizes are known without
// looking, and states with equal sizes have equal times.
std::int64_t BoxingPrices::ring_time(const Change& change) {
  const StateRef whole = change.primitive == Primitive::kAllGather ? change.to : change.from;
  const AxisGroups& along = groups(change.from.side, change.axes);
  const auto members = [&](std::size_t group) {
    return std::span(along.ranks).subspan(group * along.members, along.members);
  };
  std::int64_t time = 0;
  if (!splits_evenly(whole)) {
    const MeshBoxes& held = boxes(whole);
    for (std::size_t group = 0; group < along.size(); ++group) {
      const std::uint32_t device = along.devices[group * along.members];
      const Bytes bytes = element_of(change) * held.box_at(held.coordinates_of(device)).elements();
      time = std::max(time, duration(change, members(group), bytes, Bytes(0)));
    }
    return time;
  }
  const std::int64_t bytes = tensor_bytes(change.dtype) / parts(whole);
  return remembered(ring_times_, key_of(change), bytes, [&] {
    for (std::size_t group = 0; group < along.size(); ++group)
      time = std::max(time, duration(change, members(group), Bytes(bytes), Bytes(0)));
    return time;
  });
}

// The first device receives what it wants and does not have.
std::int64_t BoxingPrices::least_exchange_time(const Change& change) {
  const Box wanted = boxes(change.to).box_at({});
  const std::int64_t missing =
      (wanted.elements() - wanted.elements_shared_with(boxes(change.from).box_at({}))) *
      element_of(change).value;
  return remembered(deliveries_, key_of(change), missing, [&] {
    const AxisGroups& along = groups(change.from.side, change.axes);
    return duration(change, std::span(along.ranks).first(along.members), Bytes(missing),
                    Bytes(missing));
  });
}

// Somebody brings one device what it wants and does not have: a device that the source lacks, or
// the first. Under partial words of the target it may get nothing; in a disjoint placement the
// first always gets a share.
std::int64_t BoxingPrices::least_transfer_time(const Change& change) {
  const MeshBoxes& to = boxes(change.to);
  const std::int64_t shares = num_shares(change.from);
  const std::size_t device = new_device_.value_or(0);
  const bool gets_all = num_shares(change.to) == 1;
  if (!gets_all && !is_disjoint()) return 0;
  const Box wanted = to.box_at(to.coordinates_of(device));
  std::int64_t missing = wanted.elements() * (gets_all ? shares : 1);
  if (!new_device_) {
    const MeshBoxes& from = boxes(change.from);
    const Rank rank = mesh(change.to.side).placement->ranks[device];
    const std::vector<Rank>& sources = mesh(change.from.side).placement->ranks;
    const auto own =
        static_cast<std::size_t>(std::find(sources.begin(), sources.end(), rank) - sources.begin());
    missing -= wanted.elements_shared_with(from.box_at(from.coordinates_of(own)));
  }
  if (missing == 0) return 0;
  return fastest_delivery(change, device, missing * element_of(change).value);
}

std::int64_t BoxingPrices::fastest_delivery(const Change& change, std::size_t device,
                                            std::int64_t bytes) {
  return remembered(deliveries_, key_of(change), bytes, [&] {
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

std::int64_t BoxingPrices::slowest(const Change& change, const std::vector<GroupCost>& groups) {
  std::int64_t time = 0;
  for (const GroupCost& group : groups)
    time =
        std::max(time, duration(change, group.members, group.global_bytes, group.largest_volume));
  return time;
}

std::int64_t BoxingPrices::duration(const Change& change, std::span<const Rank> members,
                                    Bytes global, Bytes largest) {
  if (members.size() < 2) return 0;
  communication_.primitive = change.primitive;
  communication_.dtype = change.dtype;
  return request_.network
      ->duration({.communication = &communication_,
                  .members = members,
                  .global_bytes = global,
                  .largest_volume = largest})
      .value;
}

template <typename Compute>
std::int64_t BoxingPrices::remembered(std::vector<Known>& known, std::uint64_t key,
                                      std::int64_t bytes, const Compute& compute) {
  for (const Known& one : known)
    if (one.key == key && one.bytes == bytes) return one.time;
  const std::int64_t time = compute();
  known.push_back({key, bytes, time});
  return time;
}

const MeshBoxes& BoxingPrices::boxes(StateRef ref) {
  auto& known = boxes_[index(ref.side)];
  if (known.size() <= ref.number) known.resize(mesh(ref.side).states.size());
  if (!known[ref.number])
    known[ref.number] = std::make_unique<MeshBoxes>(state(ref).words(mesh(ref.side).extents.size()),
                                                    *mesh(ref.side).placement, request_.type.shape);
  return *known[ref.number];
}

const AxisGroups& BoxingPrices::groups(BoxingWhere side, std::uint32_t axes) {
  auto& known = groups_[index(side)];
  if (known.size() <= axes) known.resize(mesh(side).all_axes + 1U);
  if (!known[axes])
    known[axes] = std::make_unique<AxisGroups>(groups_along(axes, *mesh(side).placement));
  return *known[axes];
}

// Boxes of devices and, for each, the first device that holds the same box and share.
BoxingPrices::Contents BoxingPrices::contents(StateRef ref) {
  const MeshBoxes& held = boxes(ref);
  const std::size_t num_devices = target_order_.size();
  std::vector<std::int64_t> first(num_devices, -1);  // by the number of the replica at 0, 0, ...
  Contents contents;
  for (std::size_t position = 0; position < num_devices; ++position) {
    const std::size_t device =
        ref.side == BoxingWhere::kSource ? position : target_order_[position];
    MeshBoxes::Coordinates at = held.coordinates_of(device);
    const Box box = held.box_at(at);
    if (box.elements() == 0) {  // all empty boxes are alike
      contents.push_back(-1);
      continue;
    }
    for (std::size_t dim = 0; dim < box.rank; ++dim) {
      contents.push_back(box.dims[dim].offset);
      contents.push_back(box.dims[dim].extent);
    }
    held.go_to_replica(0, at);
    std::int64_t& same = first[held.device_at(at)];
    if (same < 0) same = static_cast<std::int64_t>(position);
    contents.push_back(same);
  }
  return contents;
}

std::uint64_t BoxingPrices::hash_of_contents(StateRef ref) {
  auto& known = hashes_[index(ref.side)];
  if (known.size() <= ref.number) known.resize(mesh(ref.side).states.size());
  if (!known[ref.number]) {
    std::uint64_t hash = 14695981039346656037U;
    for (const std::int64_t number : contents(ref))
      hash = (hash ^ static_cast<std::uint64_t>(number)) * 1099511628211U;
    known[ref.number] = hash;
  }
  return *known[ref.number];
}

bool BoxingPrices::hold_the_same(StateRef source, StateRef target) {
  if (target_order_.empty()) return false;
  return hash_of_contents(source) == hash_of_contents(target) &&
         contents(source) == contents(target);
}

}  // namespace sextant
