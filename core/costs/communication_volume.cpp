// Boxes by intersection of what each member holds with what each member wants; rings by what each
// member need not pass on.
#include "core/costs/communication_volume.h"

#include "core/base/check.h"
#include "core/graphs/launch_bucket.h"
#include "core/tensors/mesh_boxes.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

namespace sextant {

namespace {

// Where each rank stands in a list; groups may have thousands of members that all look each other
// up.
class Positions {
 public:
  explicit Positions(std::span<const Rank> ranks) : ranks_(ranks) {
    for (std::size_t at = 0; at < ranks.size() && follow_; ++at)
      follow_ = ranks[at].value == ranks.front().value + static_cast<std::int32_t>(at);
    if (follow_ || ranks.size() <= kFew) return;
    places_.reserve(ranks.size());
    for (std::size_t at = 0; at < ranks.size(); ++at) places_.emplace(ranks[at].value, at);
  }
  std::optional<std::size_t> of(Rank rank) const {
    if (follow_) {
      const std::int64_t at = ranks_.empty() ? -1 : rank.value - ranks_.front().value;
      const bool is_known = at >= 0 && static_cast<std::size_t>(at) < ranks_.size();
      return is_known ? std::optional(static_cast<std::size_t>(at)) : std::nullopt;
    }
    if (ranks_.size() <= kFew) {
      for (std::size_t at = 0; at < ranks_.size(); ++at)
        if (ranks_[at] == rank) return at;
      return std::nullopt;
    }
    const auto found = places_.find(rank.value);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  static constexpr std::size_t kFew = 8;  // are looked through

  std::span<const Rank> ranks_;
  bool follow_ = true;  // one after the other, as they mostly do
  std::unordered_map<std::int32_t, std::size_t> places_;
};

// Elements of the box of each device, where all splits leave equal parts.
std::optional<std::int64_t> equal_elements(const MeshBoxes& boxes) {
  Box box = boxes.whole();
  for (const MeshBoxes::Cut& cut : boxes.cuts()) {
    std::int64_t& extent = box.dims[cut.dim].extent;
    if (extent % cut.parts != 0) return std::nullopt;
    extent /= cut.parts;
  }
  return box.elements();
}

// What every device of one side holds.
struct HeldBoxes {
  HeldBoxes(const Shape& global, WordsOnPlacement side)
      : placement(side.placement),
        boxes(*side.words, *side.placement, global),
        devices(side.placement->ranks),
        equal(equal_elements(boxes)) {}

  // Of the box of a member; 0 outside the placement.
  std::int64_t elements_of(Rank member) const {
    const auto device = devices.of(member);
    if (!device) return 0;
    return equal ? *equal : boxes.box_at(boxes.coordinates_of(*device)).elements();
  }
  std::vector<std::int64_t> elements(std::span<const Rank> members) const {
    std::vector<std::int64_t> held;
    held.reserve(members.size());
    for (const Rank member : members) held.push_back(elements_of(member));
    return held;
  }
  std::int64_t most_elements(std::span<const Rank> members) const {
    std::int64_t most = 0;
    for (const Rank member : members) {
      most = std::max(most, elements_of(member));
      if (most == equal) break;
    }
    return most;
  }

  const Placement* placement;
  MeshBoxes boxes;
  Positions devices;
  std::optional<std::int64_t> equal;  // elements of all boxes
};

// Calls visit(source, destination, box), positions among the members; by destination.
template <typename Visit>
void for_each_move(const HeldBoxes& from, const HeldBoxes& to, const CommonDevices& common,
                   std::span<const Rank> members, const Visit& visit) {
  const Moves all(from.boxes, to.boxes, common);
  const Positions positions(members);
  for (std::size_t member = 0; member < members.size(); ++member) {
    const auto device = to.devices.of(members[member]);
    if (!device) continue;
    all.visit_to(*device, [&](std::size_t source, const Box& box) {
      const Rank rank = from.placement->ranks[source];
      const auto sender = positions.of(rank);
      SEXTANT_INVARIANT(sender.has_value(), "a group lacks device {}, which it takes from",
                        rank.value);
      visit(*sender, member, box);
    });
  }
}

std::vector<BoxMove> moves_between(const HeldBoxes& from, const HeldBoxes& to,
                                   const CommonDevices& common, std::span<const Rank> members) {
  std::vector<BoxMove> moves;
  for_each_move(from, to, common, members,
                [&](std::size_t source, std::size_t destination, const Box& box) {
                  moves.push_back({static_cast<std::int32_t>(source),
                                   static_cast<std::int32_t>(destination), box.shard()});
                });
  std::stable_sort(moves.begin(), moves.end(), [](const BoxMove& a, const BoxMove& b) {
    return std::pair(a.destination, a.source) < std::pair(b.destination, b.source);
  });
  return moves;
}

// Elements that each member of a ring sends to the next one.
std::vector<std::int64_t> ring_elements(Primitive primitive, const std::vector<std::int64_t>& held,
                                        const std::vector<std::int64_t>& wanted) {
  const auto n = static_cast<std::int64_t>(held.size());
  std::vector<std::int64_t> sent;
  for (std::int64_t member = 0; member < n; ++member) {
    const std::int64_t after = (member + 1) % n;
    const auto chunk = [&](std::int64_t owner) {
      return balanced_part(held.front(), n, owner).extent;
    };
    switch (primitive) {
      case Primitive::kReduceScatter:
        sent.push_back(held.front() - wanted[static_cast<std::size_t>(member)]);
        break;
      case Primitive::kAllGather:
        sent.push_back(wanted.front() - held[static_cast<std::size_t>(after)]);
        break;
      case Primitive::kAllReduce:
        sent.push_back(2 * held.front() - chunk(member) - chunk(after));
        break;
      case Primitive::kBroadcast:  // a chain: the last member passes nothing on
        sent.push_back(after == 0 ? 0 : held.front());
        break;
      case Primitive::kShift:
        sent.push_back(held[static_cast<std::size_t>(member)]);
        break;
      case Primitive::kAllToAll:
      case Primitive::kTransfer:
        fail(ErrorCode::kInternal, "{} is no ring", to_string(primitive));
    }
  }
  return sent;
}

void set_moved_volumes(CollectiveCost& cost, const HeldBoxes& from, const HeldBoxes& to,
                       const CommonDevices& common, Bytes element) {
  std::vector<std::int64_t> sent(cost.members.size()), received(cost.members.size());
  for_each_move(from, to, common, cost.members,
                [&](std::size_t source, std::size_t destination, const Box& box) {
                  if (source == destination) return;
                  const std::int64_t elements = box.elements();
                  sent[source] += elements;
                  received[destination] += elements;
                  cost.global_bytes += element * elements;
                });
  for (std::size_t member = 0; member < sent.size(); ++member)
    cost.largest_volume =
        std::max(cost.largest_volume, element * std::max(sent[member], received[member]));
}

struct Sides {
  WordsOnPlacement from, to;
};

Sides sides_of(const PhysicalGraph& graph, const Communication& communication) {
  const auto side = [&](LayoutId id) {
    const Layout& layout = graph.layouts[id];
    return WordsOnPlacement{&layout.words, &graph.placements[layout.placement]};
  };
  return {side(communication.from), side(communication.to)};
}

const Actor& communicating(const PhysicalGraph& graph, ProgramId program, RunId id) {
  const RankProgram& owner = graph.programs[program];
  const Run& run = owner.order[id];
  const Block& block = graph.block_of(owner.instances[run.instance]);
  return block.actors[static_cast<std::size_t>(run.first_actor)];
}

// The neighbours in one launch group with this run: [first, second).
Range<RunId> launch_group_of(const Table<RunId, Run>& order, RunId run) {
  RunId first = run, end = run.plus(1);
  const LaunchGroupId group = order[run].launch_group;
  while (first > RunId(0) && order[first.plus(-1)].launch_group == group) first = first.plus(-1);
  while (order.contains(end) && order[end].launch_group == group) ++end;
  return {first, end};
}

}  // namespace

Shard held_box(const PhysicalGraph& graph, const Layout& layout, Rank rank) {
  const Placement& placement = graph.placements[layout.placement];
  const std::optional<std::size_t> index = placement.index_of(rank);
  if (!index) return Shard{std::vector<Interval>(layout.global.shape.rank())};
  return shard_of(layout.global.shape, layout.words, placement.hierarchy(),
                  placement.coordinates_of(*index));
}

std::optional<ReduceOp> pending_reduction(const PhysicalGraph& graph, const Layout& layout) {
  const Placement& placement = graph.placements[layout.placement];
  for (std::size_t axis = 0; axis < layout.words.size(); ++axis)
    if (layout.words[axis].is_partial() && placement.axes[axis].extent > 1)
      return layout.words[axis].reduce;
  return std::nullopt;
}

std::vector<BoxMove> box_moves(const Shape& global, WordsOnPlacement from, WordsOnPlacement to,
                               std::span<const Rank> members) {
  return moves_between({global, from}, {global, to},
                       CommonDevices(from.placement->ranks, to.placement->ranks), members);
}

std::vector<PairBytes> pairs_of(const Traffic& traffic) {
  std::vector<PairBytes> pairs;
  for (const auto& [pair, bytes] : traffic)
    if (bytes > Bytes(0)) pairs.push_back({pair.first, pair.second, bytes});
  return pairs;
}

void add_traffic(const Communication& communication, const Shape& global, WordsOnPlacement from,
                 WordsOnPlacement to, std::span<const Rank> members, Traffic& traffic) {
  const Bytes element = size_of(communication.dtype);
  const auto add = [&](std::size_t source, std::size_t destination, std::int64_t elements) {
    if (source != destination && elements > 0)
      traffic[{members[source], members[destination]}] += element * elements;
  };
  switch (communication.primitive) {
    case Primitive::kAllReduce:
    case Primitive::kAllGather:
    case Primitive::kReduceScatter:
    case Primitive::kBroadcast:
    case Primitive::kShift: {
      const auto sent =
          ring_elements(communication.primitive, HeldBoxes(global, from).elements(members),
                        HeldBoxes(global, to).elements(members));
      for (std::size_t member = 0; member < sent.size(); ++member)
        add(member, (member + 1) % sent.size(), sent[member]);
      break;
    }
    case Primitive::kAllToAll:
    case Primitive::kTransfer:
      for (const BoxMove& move : box_moves(global, from, to, members))
        add(static_cast<std::size_t>(move.source), static_cast<std::size_t>(move.destination),
            move.box.elements());
      break;
  }
}

void add_traffic(const PhysicalGraph& graph, const Communication& communication,
                 std::span<const Rank> members, Traffic& traffic) {
  const auto [from, to] = sides_of(graph, communication);
  add_traffic(communication, graph.layouts[communication.from].global.shape, from, to, members,
              traffic);
}

struct CollectiveSizes::Sides {
  Sides(Primitive primitive, const Shape& global, WordsOnPlacement source, WordsOnPlacement target)
      : from(global, source), to(global, target) {
    if (primitive == Primitive::kAllToAll || primitive == Primitive::kTransfer)
      common.emplace(source.placement->ranks, target.placement->ranks);
  }
  HeldBoxes from, to;
  std::optional<CommonDevices> common;  // where boxes move
};

CollectiveSizes::CollectiveSizes(const Communication& communication, const Shape& global,
                                 WordsOnPlacement from, WordsOnPlacement to)
    : communication_(&communication),
      sides_(std::make_unique<Sides>(communication.primitive, global, from, to)) {}
CollectiveSizes::CollectiveSizes(const PhysicalGraph& graph, const Communication& communication)
    : CollectiveSizes(communication, graph.layouts[communication.from].global.shape,
                      sides_of(graph, communication).from, sides_of(graph, communication).to) {}
CollectiveSizes::~CollectiveSizes() = default;
CollectiveSizes::CollectiveSizes(CollectiveSizes&&) noexcept = default;

CollectiveCost CollectiveSizes::of(std::span<const Rank> members) const {
  const Bytes element = size_of(communication_->dtype);
  CollectiveCost cost;
  cost.communication = communication_;
  cost.members = members;
  switch (communication_->primitive) {
    case Primitive::kAllReduce:
    case Primitive::kReduceScatter:
      cost.global_bytes = element * sides_->from.most_elements(members);
      break;
    case Primitive::kAllGather:
    case Primitive::kBroadcast:
      cost.global_bytes = element * sides_->to.most_elements(members);
      break;
    case Primitive::kShift:
      cost.global_bytes =
          element * sides_->from.most_elements(members) * static_cast<std::int64_t>(members.size());
      break;
    case Primitive::kAllToAll:
    case Primitive::kTransfer:
      set_moved_volumes(cost, sides_->from, sides_->to, *sides_->common, element);
      break;
  }
  return cost;
}

CollectiveCost collective_cost(const Communication& communication, const Shape& global,
                               WordsOnPlacement from, WordsOnPlacement to,
                               std::span<const Rank> members) {
  return CollectiveSizes(communication, global, from, to).of(members);
}

CollectiveCost launched_cost(const PhysicalGraph& graph, ProgramId program, RunId run,
                             std::span<const Rank> members) {
  const Table<RunId, Run>& order = graph.programs[program].order;
  const Actor& actor = communicating(graph, program, run);
  CollectiveCost cost = collective_cost(graph, *actor.communication, members);
  if (!order[run].launch_group.is_valid()) return cost;
  for (const RunId other : launch_group_of(order, run)) {
    if (other == run) continue;
    const Actor& peer = communicating(graph, program, other);
    if (!share_bucket(actor, peer)) continue;
    if (other < run) {
      cost.global_bytes = cost.largest_volume = Bytes(0);
      return cost;
    }
    const CollectiveCost more = collective_cost(graph, *peer.communication, members);
    cost.global_bytes += more.global_bytes;
    cost.largest_volume += more.largest_volume;
  }
  return cost;
}

CollectiveCost collective_cost(const PhysicalGraph& graph, const Communication& communication,
                               std::span<const Rank> members) {
  return CollectiveSizes(graph, communication).of(members);
}

}  // namespace sextant
