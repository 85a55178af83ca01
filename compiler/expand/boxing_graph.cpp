// A block per rank, programs per class of equal blocks; addresses and guards as for any program.
#include "compiler/expand/boxing_graph.h"

#include "actor/bytes/byte_order.h"
#include "compiler/memory/memory_plan.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "core/costs/words_at.h"
#include "core/graphs/operator.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

// Words that say the same of every device: equal boxes, equal pending reductions.
bool hold_equal_parts(const Shape& shape, const NdSbp& a, const NdSbp& b,
                      const Placement& placement) {
  if (a == b) return true;
  const std::vector<std::int64_t> hierarchy = placement.hierarchy();
  if (a.size() != hierarchy.size() || b.size() != hierarchy.size()) return false;
  const auto pending = [&](const NdSbp& words, std::size_t axis) {
    return words[axis].is_partial() && hierarchy[axis] > 1 ? words[axis] : Sbp::broadcast();
  };
  for (std::size_t axis = 0; axis < hierarchy.size(); ++axis)
    if (pending(a, axis) != pending(b, axis)) return false;
  for (std::size_t device = 0; device < placement.ranks.size(); ++device) {
    const std::vector<std::int64_t> at = placement.coordinates_of(device);
    if (shard_of(shape, a, hierarchy, at) != shard_of(shape, b, hierarchy, at)) return false;
  }
  return true;
}

// Groups of one communication, as every rank finds them; steps with equal groups share them.
struct GroupSet {
  BoxingKind kind = BoxingKind::kCollective;
  std::vector<std::vector<Rank>> members;
  std::vector<std::int32_t> of_rank;  // -1: in none
  std::vector<GroupId> ids;           // by entry of `members`; invalid: nothing to communicate
};

// A step with its layouts in the graph's tables.
struct PlacedStep {
  const BoxingStep* step = nullptr;
  LayoutId from, to;
  std::int32_t groups = -1;  // in BoxingExpansion::group_sets_
};

// The actors of one rank, in order.
class RankBlock {
 public:
  RankBlock(const PhysicalGraph& graph, Rank rank) : graph_(graph), rank_(rank) {
    block_.name = "boxing";
    block_.phase = Phase::kForward;
  }

  std::int32_t add_register(std::string name, LayoutId layout) {
    const TensorType local = local_type(layout);
    const auto frame = static_cast<std::int32_t>(block_.frames.size());
    block_.frames.push_back({.size = Bytes(aligned(size_of(local).value)),
                             .memory = MemoryClass::kActivations,
                             .region = Region::kPrivate});
    return append({.name = std::move(name),
                   .layout = layout,
                   .local = local,
                   .frame = frame,
                   .offset = Bytes(0)});
  }
  // In the bytes of another register, under other words.
  std::int32_t add_register_over(std::string name, LayoutId layout, std::int32_t other) {
    Register copy = at(block_.registers, other);
    copy.name = std::move(name);
    copy.layout = layout;
    copy.local = local_type(layout);
    return append(std::move(copy));
  }

  Actor& add_actor(std::string kind, std::string name, QueueRole queue,
                   std::optional<std::int32_t> in, std::optional<std::int32_t> out) {
    Actor actor;
    actor.kind = std::move(kind);
    actor.name = std::move(name);
    actor.phase = block_.phase;
    actor.queue = queue;
    actor.work.kernel = "none";
    if (in) {
      actor.in.push_back({Operand::Source::kRegister, *in});
      block_.edges.push_back({*in, static_cast<std::int32_t>(block_.actors.size()), 1, false});
    }
    if (out) actor.out.push_back(*out);
    block_.actors.push_back(std::move(actor));
    return block_.actors.back();
  }

  // An operator of the registry, with its work on this rank's part.
  void add_operator(std::string kind, std::string name, Attributes attributes,
                    std::optional<std::int32_t> in, std::int32_t out) {
    const OperatorDef& def = builtin_operators().get(kind);
    std::vector<TensorType> inputs;
    if (in) inputs.push_back(at(block_.registers, *in).local);
    const std::vector<TensorType> outputs{at(block_.registers, out).local};
    Actor& actor = add_actor(std::move(kind), std::move(name), QueueRole::kCompute, in, out);
    actor.work = def.work(inputs, outputs, attributes);
    actor.attributes = std::move(attributes);
  }

  LayoutId layout_of(std::int32_t reg) const { return at(block_.registers, reg).layout; }
  bool is_written_by_host(std::int32_t reg) const {
    return std::any_of(block_.actors.begin(), block_.actors.end(), [&](const Actor& actor) {
      return actor.queue == QueueRole::kHost && actor.out == std::vector{reg};
    });
  }
  Block take() { return std::move(block_); }

 private:
  TensorType local_type(LayoutId id) const {
    const Layout& layout = graph_.layouts[id];
    const Placement& placement = graph_.placements[layout.placement];
    const Shard box = shard_of(layout.global.shape, layout.words, placement.hierarchy(),
                               placement.coordinates_of(placement.index_of(rank_).value()));
    return {box.local_shape(), layout.global.dtype};
  }
  std::int32_t append(Register reg) {
    block_.registers.push_back(std::move(reg));
    return static_cast<std::int32_t>(block_.registers.size()) - 1;
  }

  const PhysicalGraph& graph_;
  Rank rank_;
  Block block_;
};

class BoxingExpansion {
 public:
  BoxingExpansion(const BoxingRequest& request, std::span<const BoxingStep> steps)
      : request_(request) {
    add_placements();
    check_chain(steps);
    for (const BoxingStep& step : steps) steps_.push_back(place(step));
    source_layout_ =
        intern(request.type.dtype, steps.empty() ? request.from : steps.front().from, source_);
    target_layout_ = intern(request.to_dtype.value_or(request.type.dtype),
                            steps.empty() ? request.to : steps.back().to, target_);
  }

  PhysicalGraph run() {
    graph_.ranks.resize(num_ranks_);
    for (std::size_t rank = 0; rank < num_ranks_; ++rank) bind(Rank(rank));
    for (const ProgramId program : graph_.programs.keys()) {
      RankProgram& made = graph_.programs[program];
      MemoryPlan plan(graph_, made, {});
      plan.improve(plan.lower_bound());
      plan.finish();
      made.guards = missing_guards(graph_, program);
    }
    return std::move(graph_);
  }

 private:
  const Placement& placement(PlacementId id) const { return graph_.placements[id]; }
  bool is_in(PlacementId id, Rank rank) const { return placement(id).index_of(rank).has_value(); }

  template <typename Key, typename Value>
  static Key intern_in(Table<Key, Value>& table, Value wanted) {
    const auto known = std::find(table.begin(), table.end(), wanted);
    return known != table.end() ? table.key_of(known) : table.add(std::move(wanted));
  }
  PlacementId intern(const Placement& wanted) { return intern_in(graph_.placements, wanted); }
  LayoutId intern(DType dtype, const NdSbp& words, PlacementId where) {
    return intern_in(graph_.layouts, Layout{{request_.type.shape, dtype}, words, where});
  }

  void add_placements() {
    source_ = intern(*request_.from_placement);
    target_ = intern(*request_.to_placement);
    for (const Placement* side : {request_.from_placement, request_.to_placement})
      for (const Rank rank : side->ranks) num_ranks_ = std::max(num_ranks_, rank.index() + 1);
    Placement idle;
    for (std::size_t rank = 0; rank < num_ranks_; ++rank)
      if (!is_in(source_, Rank(rank)) && !is_in(target_, Rank(rank)))
        idle.ranks.push_back(Rank(rank));
    if (idle.ranks.empty()) return;
    idle.axes = {{"idle", static_cast<std::int64_t>(idle.ranks.size())}};
    idle_ = intern(idle);
  }

  PlacementId reads_on(const BoxingStep& step) const {
    return step.where == BoxingWhere::kTarget ? target_ : source_;
  }
  PlacementId writes_on(const BoxingStep& step) const {
    return step.where == BoxingWhere::kSource ? source_ : target_;
  }

  // Where the tensor is, under which words and in which type, from step to step.
  void check_chain(std::span<const BoxingStep> steps) const {
    NdSbp words = request_.from;
    PlacementId where = source_;
    DType dtype = request_.type.dtype;
    const auto is_at = [&](PlacementId there, const NdSbp& wanted, DType wanted_dtype) {
      return where == there && dtype == wanted_dtype &&
             hold_equal_parts(request_.type.shape, words, wanted, placement(there));
    };
    for (const BoxingStep& step : steps) {
      require(is_at(reads_on(step), step.from, step.dtype), ErrorCode::kUsage,
              "'{}' in {} does not continue from {} in {}", to_string(step), to_string(step.dtype),
              to_string(words, placement(where)), to_string(dtype));
      words = step.to;
      where = writes_on(step);
      dtype = step.to_dtype;
    }
    const DType wanted = request_.to_dtype.value_or(request_.type.dtype);
    require(is_at(target_, request_.to, wanted), ErrorCode::kUsage,
            "the steps end at {} in {}, wanted {} in {}", to_string(words, placement(where)),
            to_string(dtype), to_string(request_.to, placement(target_)), to_string(wanted));
  }

  PlacedStep place(const BoxingStep& step) {
    PlacedStep placed;
    placed.step = &step;
    placed.from = intern(step.dtype, step.from, reads_on(step));
    placed.to = intern(step.to_dtype, step.to, writes_on(step));
    if (is_communication(step.kind)) placed.groups = groups_of_step(step);
    return placed;
  }

  std::int32_t groups_of_step(const BoxingStep& step) {
    GroupSet set;
    set.kind = step.kind;
    set.members =
        groups_of(step, {request_.type.shape, step.dtype}, placement(source_), placement(target_));
    for (std::size_t known = 0; known < group_sets_.size(); ++known)
      if (group_sets_[known].kind == set.kind && group_sets_[known].members == set.members)
        return static_cast<std::int32_t>(known);
    set.of_rank.assign(num_ranks_, -1);
    for (std::size_t group = 0; group < set.members.size(); ++group) {
      const std::vector<Rank>& members = set.members[group];
      for (const Rank rank : members) set.of_rank[rank.index()] = static_cast<std::int32_t>(group);
      set.ids.push_back(communicates(step, members) ? add_group(step, members, group) : GroupId());
    }
    group_sets_.push_back(std::move(set));
    return static_cast<std::int32_t>(group_sets_.size()) - 1;
  }

  // Who only sends or only receives has nothing to do alone.
  bool communicates(const BoxingStep& step, const std::vector<Rank>& members) const {
    return step.kind == BoxingKind::kCollective || members.size() > 1 ||
           (is_in(source_, members.front()) && is_in(target_, members.front()));
  }

  GroupId add_group(const BoxingStep& step, const std::vector<Rank>& members, std::size_t number) {
    graph_.groups.push_back(
        {fmt::format("{}{}[{}]", to_string(step.primitive), group_sets_.size(), number), members});
    return GroupId(graph_.groups.size() - 1);
  }

  // Blocks, programs and bindings of one rank after the other.
  void bind(Rank rank) {
    const bool idles = !is_in(source_, rank) && !is_in(target_, rank);
    const PlacementId home = idles ? idle_ : is_in(source_, rank) ? source_ : target_;
    RankBinding& binding = graph_.ranks[rank];
    binding.index_in_placement = static_cast<std::int32_t>(placement(home).index_of(rank).value());
    std::vector<std::int32_t> roles;  // the group set of each
    std::optional<Block> block;
    if (!idles) block = block_of(rank, roles);
    binding.program = program_of(home, std::move(block), roles.size());
    for (const std::int32_t set : roles) binding.groups.push_back(group_of(set, rank));
  }

  GroupId group_of(std::int32_t set, Rank rank) const {
    const GroupSet& groups = at(group_sets_, set);
    const std::int32_t group = groups.of_rank[rank.index()];
    return group < 0 ? GroupId() : at(groups.ids, group);
  }

  Block block_of(Rank rank, std::vector<std::int32_t>& roles) {
    RankBlock block(graph_, rank);
    std::optional<std::int32_t> current;
    if (is_in(source_, rank)) {
      current = block.add_register("from", source_layout_);
      block.add_actor("input", "from", QueueRole::kHost, std::nullopt, current);
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const PlacedStep& placed = steps_[i];
      if (is_in(reads_on(*placed.step), rank) || is_in(writes_on(*placed.step), rank))
        current = add_step(placed, fmt::format("step{}", i), rank, current, block, roles);
    }
    if (!is_in(target_, rank)) return block.take();
    // Between two host actors there must be something for the device to do; and words that only say
    // the same become those that were asked for.
    if (block.is_written_by_host(*current) || block.layout_of(*current) != target_layout_) {
      const std::int32_t copy = block.add_register("copy", target_layout_);
      block.add_operator("box_local", "copy", {}, current, copy);
      current = copy;
    }
    block.add_actor("output", "to", QueueRole::kHost, current, std::nullopt);
    return block.take();
  }

  // Returns the register that the rank holds after the step; nothing: it is no device of the
  // target.
  std::optional<std::int32_t> add_step(const PlacedStep& placed, const std::string& name, Rank rank,
                                       std::optional<std::int32_t> current, RankBlock& block,
                                       std::vector<std::int32_t>& roles) const {
    const BoxingStep& step = *placed.step;
    const bool takes = is_in(writes_on(step), rank);
    if (placed.groups >= 0 && group_of(placed.groups, rank).is_valid())
      return add_communication(placed, name, takes, current, block, roles);
    if (!takes) return std::nullopt;
    const bool relabels = step.kind == BoxingKind::kLocal && step.where == BoxingWhere::kBetween;
    // What a host actor writes stays its own: nobody writes over it in place.
    if (relabels && current && !block.is_written_by_host(*current)) {
      const std::int32_t same = block.add_register_over(name, placed.to, *current);
      block.add_actor("box_local", name, QueueRole::kCompute, current, same).in_place =
          Actor::InPlace{.in = 0, .out = 0};
      return same;
    }
    const std::int32_t out = block.add_register(name, placed.to);
    Attributes attributes;
    if (step.kind == BoxingKind::kCast)
      attributes.set("dtype", std::string(to_string(step.to_dtype)));
    block.add_operator(step.kind == BoxingKind::kCast ? "cast" : "box_local", name,
                       std::move(attributes), current, out);
    return out;
  }

  std::optional<std::int32_t> add_communication(const PlacedStep& placed, const std::string& name,
                                                bool takes, std::optional<std::int32_t> current,
                                                RankBlock& block,
                                                std::vector<std::int32_t>& roles) const {
    const auto known = std::find(roles.begin(), roles.end(), placed.groups);
    const auto role = static_cast<GroupRole>(known - roles.begin());
    if (known == roles.end()) roles.push_back(placed.groups);
    const Side side = !takes ? Side::kSend : current ? Side::kBoth : Side::kReceive;
    const QueueRole queue = side == Side::kSend      ? QueueRole::kTransferOutForward
                            : side == Side::kReceive ? QueueRole::kTransferInForward
                                                     : QueueRole::kCollective;
    std::optional<std::int32_t> out;
    if (takes) out = block.add_register(name, placed.to);
    const BoxingStep& step = *placed.step;
    block.add_actor(std::string(to_string(step.primitive)), name, queue, current, out)
        .communication = Communication{.primitive = step.primitive,
                                       .side = side,
                                       .group = role,
                                       .reduce = step.reduce,
                                       .dtype = step.dtype,
                                       .from = placed.from,
                                       .to = placed.to};
    return out;
  }

  ProgramId program_of(PlacementId home, std::optional<Block> block, std::size_t num_roles) {
    for (const ProgramId i : graph_.programs.keys()) {
      const RankProgram& known = graph_.programs[i];
      const bool is_idle = known.instances.empty();
      if (known.placement == home && is_idle == !block &&
          (is_idle || graph_.block_of(known.instances.front()) == *block))
        return i;
    }
    RankProgram program;
    program.name = fmt::format("class{}", graph_.programs.size());
    program.placement = home;
    program.num_group_roles = static_cast<std::int32_t>(num_roles);
    program.arena.peak_by_class.resize(kNumMemoryClasses);
    if (block) add_instance(std::move(*block), program);
    graph_.programs.push_back(std::move(program));
    return ProgramId(graph_.programs.size() - 1);
  }

  // Every actor of the device is a run of its own.
  void add_instance(Block block, RankProgram& program) {
    Instance instance;
    instance.block = BlockId(graph_.blocks.size());
    instance.name = block.name;
    instance.frames.resize(block.frames.size());
    program.instances.push_back(std::move(instance));
    for (std::size_t actor = 0; actor < block.actors.size(); ++actor)
      if (block.actors[actor].queue != QueueRole::kHost)
        program.order.push_back({InstanceId(0), static_cast<std::int32_t>(actor), 1, 0, {}});
    graph_.blocks.push_back(std::move(block));
  }

  const BoxingRequest& request_;
  PhysicalGraph graph_;
  PlacementId source_, target_, idle_;
  std::size_t num_ranks_ = 0;
  std::vector<PlacedStep> steps_;
  std::vector<GroupSet> group_sets_;
  LayoutId source_layout_, target_layout_;
};

}  // namespace

PhysicalGraph make_boxing_graph(const BoxingRequest& request, std::span<const BoxingStep> steps) {
  return BoxingExpansion(request, steps).run();
}

}  // namespace sextant
