// Collectives as the messages they consist of: a physical graph in which every rank sends to its
// neighbour and receives from the other, hop after hop, each send after the receive before it. A
// message is a broadcast from one rank to one other: the halves of a transfer hold different boxes,
// which is more than all ranks can say with one program.
#pragma once

#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// Rings that a rank is in, and how many hops they go, one after the other.
struct RingPhase {
  bool across = false;  // of the ranks at one place of all nodes; else of the ranks of a node
  std::int64_t hops = 0;
  std::int64_t bytes = 0;  // of a message
};

struct RingSpec {
  std::int64_t ranks = 8;
  std::int64_t node = 8;  // ranks of a node
  std::vector<RingPhase> phases;
  double flops = 0;  // of each rank before its first message
};

// n - 1 hops that reduce and n - 1 that gather, in one ring over all ranks.
inline RingSpec ring_all_reduce(std::int64_t ranks, std::int64_t bytes) {
  return {ranks, ranks, {{false, 2 * (ranks - 1), bytes / ranks}}};
}

// Reduce-scatter in the node, all-reduce across nodes, all-gather in the node.
inline RingSpec hierarchical_all_reduce(std::int64_t ranks, std::int64_t node, std::int64_t bytes) {
  const std::int64_t nodes = ranks / node;
  return {ranks,
          node,
          {{false, node - 1, bytes / node},
           {true, 2 * (nodes - 1), bytes / ranks},
           {false, node - 1, bytes / node}}};
}

inline std::int64_t num_messages(const RingSpec& spec) {
  std::int64_t hops = 0;
  for (const RingPhase& phase : spec.phases) hops += phase.hops;
  return hops * spec.ranks;
}

class RingGraph {
 public:
  static PhysicalGraph make(const RingSpec& spec) { return RingGraph(spec).graph_; }

 private:
  explicit RingGraph(const RingSpec& spec) : spec_(spec) {
    Placement all{{{"x", spec.ranks}}, {}};
    for (std::int64_t r = 0; r < spec.ranks; ++r) all.ranks.emplace_back(static_cast<int>(r));
    graph_.placements.push_back(std::move(all));
    for (std::int64_t r = 0; r < spec.ranks; ++r) {
      RankBinding binding{ProgramId(0), static_cast<std::int32_t>(r), {}};
      binding.groups.resize(4);
      graph_.ranks.push_back(std::move(binding));
    }
    const std::int64_t nodes = spec.ranks / spec.node;
    for (std::int64_t n = 0; n < nodes; ++n)
      for (std::int64_t i = 0; i < spec.node; ++i)
        add_edge(0, n * spec.node + i, n * spec.node + (i + 1) % spec.node);
    for (std::int64_t i = 0; nodes > 1 && i < spec.node; ++i)
      for (std::int64_t n = 0; n < nodes; ++n)
        add_edge(2, n * spec.node + i, (n + 1) % nodes * spec.node + i);
    add_program(nodes > 1 ? 4 : 2);
  }

  // Roles: to the next and from the one before, in the node and across.
  void add_edge(std::size_t role, std::int64_t from, std::int64_t to) {
    const Rank sender(static_cast<int>(from)), receiver(static_cast<int>(to));
    const GroupId group =
        graph_.groups.add({std::to_string(from) + "->" + std::to_string(to), {sender, receiver}});
    graph_.ranks[sender].groups[role] = group;
    graph_.ranks[receiver].groups[role + 1] = group;
  }

  LayoutId layout(std::int64_t bytes) {
    graph_.layouts.push_back({{Shape{bytes}, DType::kBool}, {Sbp::broadcast()}, PlacementId(0)});
    return LayoutId(graph_.layouts.size() - 1);
  }

  static void add_register(Block& block, LayoutId layout) {
    block.frames.push_back({});
    block.frames.back().size = Bytes(256);
    block.registers.push_back({"r", layout, {Shape{1}, DType::kBool}, 0, Bytes(0)});
  }

  BlockId source_block() {
    Block block;
    block.name = "source";
    Actor actor;
    actor.kind = actor.name = "source";
    actor.work.flops = spec_.flops;
    actor.out = {0};
    block.actors.push_back(std::move(actor));
    add_register(block, layout(1));
    graph_.blocks.push_back(std::move(block));
    return BlockId(graph_.blocks.size() - 1);
  }

  BlockId hop_block(const RingPhase& phase) {
    const LayoutId words = layout(phase.bytes);
    Block block;
    block.name = phase.across ? "across" : "within";
    const auto half = [&](Side side, QueueRole queue) {
      Actor actor;
      actor.kind = actor.name = "message";
      actor.phase = Phase::kCommunication;
      actor.queue = queue;
      const GroupRole role = (phase.across ? 2 : 0) + (side == Side::kReceive ? 1 : 0);
      actor.communication = Communication{Primitive::kBroadcast, side,  role, ReduceOp::kSum,
                                          DType::kBool,          words, words};
      return actor;
    };
    block.ports.push_back({"in", {Shape{1}, DType::kBool}, {0}});
    block.actors.push_back(half(Side::kSend, QueueRole::kTransferOutForward));
    block.actors.back().in.push_back({Operand::Source::kPort, 0});
    block.actors.push_back(half(Side::kReceive, QueueRole::kTransferInForward));
    block.actors.back().out = {0};
    add_register(block, words);
    graph_.blocks.push_back(std::move(block));
    return BlockId(graph_.blocks.size() - 1);
  }

  InstanceId add_instance(RankProgram& program, BlockId block) {
    Instance instance;
    instance.block = block;
    instance.name = graph_.blocks[block].name;
    instance.frames.push_back({1, {0}, {program.arena.size}});
    program.arena.size += Bytes(256);
    program.instances.push_back(std::move(instance));
    return InstanceId(program.instances.size() - 1);
  }

  void add_program(std::int32_t roles) {
    for (RankBinding& rank : graph_.ranks) rank.groups.resize(static_cast<std::size_t>(roles));
    RankProgram program;
    program.name = "ring";
    program.placement = PlacementId(0);
    program.num_group_roles = roles;
    program.arena.peak_by_class.resize(kNumMemoryClasses);
    InstanceId before = add_instance(program, source_block());
    program.order.push_back({before, 0, 1, 0, {}});
    LaunchGroupId group(0);
    for (const RingPhase& phase : spec_.phases) {
      const BlockId block = hop_block(phase);
      for (std::int64_t hop = 0; hop < phase.hops; ++hop) {
        const InstanceId instance = add_instance(program, block);
        program.links.push_back({before, 0, instance, 0, 1});
        program.order.push_back({instance, 0, 1, 0, group});
        program.order.push_back({instance, 1, 1, 0, group});
        ++group;
        before = instance;
      }
    }
    graph_.programs.push_back(std::move(program));
  }

  const RingSpec& spec_;
  PhysicalGraph graph_;
};

}  // namespace sextant
