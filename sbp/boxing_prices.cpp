// Closed forms where all groups are alike, boxes of devices where they are not.
#include "sbp/boxing_prices.h"

#include "core/base/check.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace sextant {
namespace {

// An exchange looks at each member a few times.
constexpr std::size_t kMostWorkPerMember = 8;

bool is_exchange(const Change& change) { return change.primitive == Primitive::kAllToAll; }
bool is_transfer(const Change& change) { return change.kind == BoxingKind::kTransfer; }

}  // namespace

std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result))
    fail(ErrorCode::kInfeasible, "a boxing of more than 2^63 bytes");
  return result;
}

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
  common_.emplace(from, to);
  std::vector<std::size_t> order(from.size());
  for (std::size_t device = to.size(); device-- > 0;) {
    const std::optional<std::size_t> own = common_->source_of(device);
    if (!own) {
      new_device_ = device;
      continue;
    }
    order[*own] = device;
    ++num_common_;
  }
  if (num_common_ == from.size() && !new_device_) target_order_ = std::move(order);
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
    case Primitive::kShift:
    case Primitive::kTransfer:
      return 0;
  }
  return product(product(tensor, copies(change.to, change.axes)), members);
}

std::int64_t BoxingPrices::moved_bytes(const Change& change) {
  const Placement &from = *mesh(change.from.side).placement, &to = *mesh(change.to.side).placement;
  const Moves moves(boxes(change.from), boxes(change.to), *common_);
  std::int64_t moved = 0;
  for (std::size_t device = 0; device < to.ranks.size(); ++device)
    moves.visit_to(device, [&](std::size_t source, const Box& box) {
      work_.spend(kVisitWork);
      if (from.ranks[source] != to.ranks[device]) moved += box.elements();
    });
  return product(moved, element_of(change).value);
}

std::int64_t BoxingPrices::time(const Change& change) {
  if (!is_communication(change.kind)) return device_time(change);
  if (is_transfer(change)) return transfer_time(change);
  return is_exchange(change) ? exchange_time(change) : ring_time(change);
}

std::int64_t BoxingPrices::least_time(const Change& change) {
  if (is_transfer(change)) return least_transfer_time(change);
  if (is_exchange(change)) return least_exchange_time(change);
  return ring_time(change);
}

std::int64_t BoxingPrices::elements_that_stay(StateRef from, StateRef to) const {
  return elements_in_place(request_.type.shape, mesh(from.side).extents, state(from), state(to));
}

std::int64_t BoxingPrices::largest_part(StateRef ref) {
  std::vector<std::int64_t>& known = largest_parts_[index(ref.side)];
  if (known.size() <= ref.number) known.resize(mesh(ref.side).states.size(), -1);
  std::int64_t& elements = known[ref.number];
  if (elements < 0)
    elements = sextant::largest_part(request_.type.shape, mesh(ref.side).extents, state(ref));
  return elements;
}

BoxingPrices::OneDevice& BoxingPrices::device(BoxingWhere side) {
  std::optional<OneDevice>& device = devices_[index(side)];
  if (!device) device.emplace(DeviceTimes(request_.cost, *mesh(side).placement));
  return *device;
}

std::int64_t BoxingPrices::least_local_time(BoxingWhere side, std::int64_t elements) {
  if (request_.cost == nullptr) return 0;
  return device(side).times.local(0, elements, request_.type.dtype).value;
}

// Nobody executes a relabel.
std::int64_t BoxingPrices::device_time(const Change& change) {
  if (request_.cost == nullptr || change.from.side != change.to.side) return 0;
  OneDevice& device = this->device(change.from.side);
  const std::int64_t before = largest_part(change.from), after = largest_part(change.to);
  if (change.kind == BoxingKind::kCast && !device.casts) device.casts.emplace();
  if (change.kind == BoxingKind::kCast)
    return device.casts->of(
        change.key() | static_cast<std::uint64_t>(change.to_dtype), before,
        [&] { return device.times.cast(before, change.dtype, change.to_dtype).value; });
  std::optional<Remembered>& times = device.locals[static_cast<std::size_t>(change.dtype)];
  if (!times) times.emplace();
  return times->of(static_cast<std::uint64_t>(before), after,
                   [&] { return device.times.local(before, after, change.dtype).value; });
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
  return ring_times_.of(change.key(), bytes, [&] {
    for (std::size_t group = 0; group < along.size(); ++group)
      time = std::max(time, duration(change, members(group), Bytes(bytes), Bytes(0)));
    return time;
  });
}

// Axes of an exchange are split before, so that the members of a group hold different parts: each
// sends what others of the group want of its own. What a member wants is one stretch of each dim,
// and together the members want every choice of stretches equally often: so the sum over all
// others is a product over dims, and a group takes time like its members, not like their pairs.
std::int64_t BoxingPrices::exchange_time(const Change& change) {
  const AxisGroups& along = groups(change.from.side, change.axes);
  const std::span<const Interval> before = dims_of_devices(change.from);
  const std::span<const Interval> after = dims_of_devices(change.to);
  const std::size_t rank = request_.type.shape.rank();
  const BoxingMesh& on = mesh(change.from.side);
  const MeshState& words = state(change.to);
  auto repeats = static_cast<std::int64_t>(along.members);
  std::uint32_t cut_dims = 0;  // that the group divides among its members
  for (const std::size_t axis : on.axes) {
    if ((change.axes >> axis & 1U) == 0 || !words.is_split(axis)) continue;
    repeats /= on.extents[axis];
    cut_dims |= std::uint32_t{1} << words.dim(axis);
  }
  if (wanted_.size() < rank) wanted_.resize(rank);
  std::int64_t time = 0;
  for (std::size_t first = 0; first < along.devices.size(); first += along.members) {
    const std::span<const std::uint32_t> members =
        std::span(along.devices).subspan(first, along.members);
    work_.spend(
        static_cast<std::int64_t>(along.members * std::min(along.members, kMostWorkPerMember)));
    for (std::size_t dim = 0; dim < rank; ++dim) {
      const bool is_cut = (cut_dims >> dim & 1U) != 0;
      wanted_[dim].clear();
      for (const std::uint32_t member : is_cut ? members : members.first(1))
        wanted_[dim].add(after[member * rank + dim]);
      wanted_[dim].sort();
    }
    std::int64_t largest = 0, all = 0;
    for (const std::uint32_t own : members) {
      std::int64_t stays = 1, received = 1, sent = repeats;
      for (std::size_t dim = 0; dim < rank; ++dim) {
        const Interval &has = before[own * rank + dim], &wants = after[own * rank + dim];
        stays *= std::max<std::int64_t>(
            0, std::min(has.end(), wants.end()) - std::max(has.offset, wants.offset));
        received *= wants.extent;
        sent *= wanted_[dim].shared_with(has);
      }
      received -= stays;
      sent -= stays;
      largest = std::max({largest, sent, received});
      all += received;
    }
    time = std::max(time, duration(change, std::span(along.ranks).subspan(first, along.members),
                                   element_of(change) * all, element_of(change) * largest));
  }
  return time;
}

void BoxingPrices::Stretches::sort() {
  std::sort(all_.begin(), all_.end(),
            [](const Interval& a, const Interval& b) { return a.offset < b.offset; });
  all_.erase(std::unique(all_.begin(), all_.end()), all_.end());
  below_.clear();
  std::int64_t below = 0;
  for (const Interval& stretch : all_) {
    below_.push_back(below);
    below += stretch.extent;
  }
}

std::int64_t BoxingPrices::Stretches::below(std::int64_t end) const {
  const auto behind = std::upper_bound(
      all_.begin(), all_.end(), end,
      [](std::int64_t at, const Interval& stretch) { return at < stretch.offset; });
  if (behind == all_.begin()) return 0;
  const auto last = static_cast<std::size_t>(behind - all_.begin()) - 1;
  return below_[last] + std::min(end - all_[last].offset, all_[last].extent);
}

std::int64_t BoxingPrices::transfer_time(const Change& change) {
  std::int64_t time = 0;
  for (const GroupCost& group :
       transfer_costs(boxes(change.from), *mesh(change.from.side).placement, boxes(change.to),
                      *mesh(change.to.side).placement, *common_, element_of(change), &work_))
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

BoxingPrices::Held& BoxingPrices::held(StateRef ref) {
  auto& known = held_[index(ref.side)];
  const BoxingMesh& on = mesh(ref.side);
  if (known.size() <= ref.number) known.resize(on.states.size());
  if (!known[ref.number]) {
    known[ref.number] = std::make_unique<Held>(
        Held{MeshBoxes(state(ref).words(on.extents.size()), *on.placement, request_.type.shape),
             {},
             {},
             {}});
    Held& made = *known[ref.number];
    made.first = made.boxes.box_at({});
    made.last = made.boxes.box_at(made.boxes.coordinates_of(on.placement->ranks.size() - 1));
  }
  return *known[ref.number];
}

std::span<const Interval> BoxingPrices::dims_of_devices(StateRef ref) {
  Held& known = held(ref);
  const std::size_t num_devices = mesh(ref.side).placement->ranks.size();
  const std::size_t rank = request_.type.shape.rank();
  if (known.dims.empty() && rank > 0) {
    known.dims.reserve(num_devices * rank);
    for (std::size_t device = 0; device < num_devices; ++device) {
      const Box box = known.boxes.box_at(known.boxes.coordinates_of(device));
      known.dims.insert(known.dims.end(), box.dims.begin(), box.dims.begin() + rank);
    }
  }
  return known.dims;
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
