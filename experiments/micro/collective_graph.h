// All-reduces as the collectives they are: one communication each, over a flat ring or by levels
// (reduce-scatter in the node, all-reduce across nodes, all-gather in the node), after one kernel
// per rank. The messages inside are the network model's.
#pragma once

#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

struct CollectiveSpec {
  std::int64_t ranks = 8;
  std::int64_t node = 8;  // ranks of a node
  bool hierarchical = false;
  std::int64_t bytes = 0;
  double flops = 0;  // of each rank before its first collective
};

// Of rings with a part per member: what ring_graph.h has one launch pair each for.
inline std::int64_t num_messages(const CollectiveSpec& spec) {
  const std::int64_t nodes = spec.ranks / spec.node;
  return spec.ranks *
         (spec.hierarchical ? 2 * (spec.node - 1) + 2 * (nodes - 1) : 2 * (spec.ranks - 1));
}

class CollectiveGraph {
 public:
  static PhysicalGraph make(const CollectiveSpec& spec) { return CollectiveGraph(spec).graph_; }

 private:
  explicit CollectiveGraph(const CollectiveSpec& spec) : spec_(spec) {
    Placement all{{{"node", spec.ranks / spec.node}, {"gpu", spec.node}}, {}};
    for (std::int64_t r = 0; r < spec.ranks; ++r) all.ranks.emplace_back(static_cast<int>(r));
    graph_.placements.push_back(std::move(all));
    for (std::int64_t r = 0; r < spec.ranks; ++r)
      graph_.ranks.push_back({ProgramId(0), static_cast<std::int32_t>(r), {}});
    if (spec.hierarchical)
      add_levels();
    else
      add_ring();
    graph_.programs.push_back(std::move(program_));
  }

  void add_ring() {
    add_group(0, 1, spec_.ranks);
    start(1);
    reduce(Primitive::kAllReduce, 0, {Sbp::partial(ReduceOp::kSum), Sbp::partial(ReduceOp::kSum)},
           {Sbp::broadcast(), Sbp::broadcast()});
  }

  void add_levels() {
    const std::int64_t nodes = spec_.ranks / spec_.node;
    for (std::int64_t n = 0; n < nodes; ++n) add_group(n * spec_.node, 1, spec_.node);
    for (std::int64_t i = 0; i < spec_.node; ++i) add_group(i, spec_.node, nodes);
    start(2);
    const Sbp partial = Sbp::partial(ReduceOp::kSum), split = Sbp::split(0);
    reduce(Primitive::kReduceScatter, 0, {partial, partial}, {partial, split});
    reduce(Primitive::kAllReduce, 1, {partial, split}, {Sbp::broadcast(), split});
    reduce(Primitive::kAllGather, 0, {Sbp::broadcast(), split},
           {Sbp::broadcast(), Sbp::broadcast()});
  }

  void add_group(std::int64_t first, std::int64_t stride, std::int64_t count) {
    DeviceGroup group{std::to_string(first) + "+" + std::to_string(stride), {}};
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t rank = first + i * stride;
      group.ranks.emplace_back(static_cast<int>(rank));
      graph_.ranks[group.ranks.back()].groups.push_back(GroupId(graph_.groups.size()));
    }
    graph_.groups.push_back(std::move(group));
  }

  LayoutId layout(NdSbp words) {
    graph_.layouts.push_back(
        {{Shape{spec_.bytes}, DType::kBool}, std::move(words), PlacementId(0)});
    return LayoutId(graph_.layouts.size() - 1);
  }

  void start(std::int32_t roles) {
    program_.name = "all_reduce";
    program_.placement = PlacementId(0);
    program_.num_group_roles = roles;
    program_.arena.peak_by_class.resize(kNumMemoryClasses);
    Actor actor;
    actor.kind = actor.name = "source";
    actor.work.flops = spec_.flops;
    add_instance(std::move(actor), layout({Sbp::broadcast(), Sbp::broadcast()}));
  }

  void reduce(Primitive primitive, GroupRole role, NdSbp from, NdSbp to) {
    Actor actor;
    actor.kind = actor.name = std::string(to_string(primitive));
    actor.phase = Phase::kCommunication;
    actor.queue = QueueRole::kCollective;
    const LayoutId before = layout(std::move(from)), after = layout(std::move(to));
    actor.communication =
        Communication{primitive, Side::kBoth, role, ReduceOp::kSum, DType::kBool, before, after};
    add_instance(std::move(actor), after);
  }

  // One actor with one register, which reads that of the instance before.
  void add_instance(Actor actor, LayoutId of_register) {
    Block block;
    block.name = actor.name;
    block.phase = actor.phase;
    const bool reads = !program_.instances.empty();
    if (reads) {
      block.ports.push_back({"in", {Shape{1}, DType::kBool}, {0}});
      actor.in.push_back({Operand::Source::kPort, 0});
    }
    actor.out = {0};
    block.actors.push_back(std::move(actor));
    block.frames.push_back({});
    block.frames.back().size = Bytes(256);
    block.registers.push_back({"r", of_register, {Shape{1}, DType::kBool}, 0, Bytes(0)});
    graph_.blocks.push_back(std::move(block));
    Instance instance;
    instance.block = BlockId(graph_.blocks.size() - 1);
    instance.name = graph_.blocks.back().name;
    instance.frames.push_back({1, {0}, {program_.arena.size}});
    program_.arena.size += Bytes(256);
    program_.instances.push_back(std::move(instance));
    const InstanceId added(program_.instances.size() - 1);
    if (reads) program_.links.push_back({InstanceId(added.index() - 1), 0, added, 0, 1});
    program_.order.push_back({added, 0, 1, 0, {}});
  }

  const CollectiveSpec& spec_;
  PhysicalGraph graph_;
  RankProgram program_;
};

}  // namespace sextant
