// A physical graph of the size of a large model's stage, for measuring the actors alone: forward
// and backward instances per layer, m micro-batches, accumulated gradients, state, no
// communication.
#pragma once

#include "core/graphs/physical_graph.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

struct LayeredSpec {
  std::int32_t layers = 12;
  std::int32_t micro_batches = 128;
  std::int32_t actors = 12;  // per run
};

namespace layered {

inline std::int32_t add_register(Block& block, const std::string& name, std::int32_t frame) {
  Frame& home = block.frames[static_cast<std::size_t>(frame)];
  Register reg;
  reg.name = name;
  reg.layout = LayoutId(0);
  reg.local = {Shape{64}, DType::kF32};
  reg.frame = frame;
  reg.offset = home.size;
  home.size += Bytes(256);
  block.registers.push_back(reg);
  return static_cast<std::int32_t>(block.registers.size()) - 1;
}

inline std::int32_t add_port(Block& block, const std::string& name) {
  block.ports.push_back({name, {Shape{64}, DType::kF32}, {}});
  return static_cast<std::int32_t>(block.ports.size()) - 1;
}

// Actors in a row on the compute queue, each reading the one before it and all ports.
inline Block row_of_actors(const std::string& name, std::int32_t ports, std::int32_t actors) {
  Block block;
  block.name = name;
  block.frames.resize(1);
  for (std::int32_t p = 0; p < ports; ++p) add_port(block, "in" + std::to_string(p));
  for (std::int32_t a = 0; a < actors; ++a) {
    Actor actor;
    actor.kind = actor.name = "op" + std::to_string(a);
    for (std::int32_t p = 0; p < ports; ++p) {
      actor.in.push_back({Operand::Source::kPort, p});
      block.ports[static_cast<std::size_t>(p)].readers.push_back(a);
    }
    if (a > 0) {
      actor.in.push_back({Operand::Source::kRegister, a - 1});
      block.edges.push_back({a - 1, a, 1, false});
    }
    actor.out.push_back(add_register(block, "r" + std::to_string(a), 0));
    block.actors.push_back(std::move(actor));
  }
  return block;
}

}  // namespace layered

// Blocks: 0 embedding, 1 forward, 2 backward (with an accumulated gradient), 3 optimizer.
inline PhysicalGraph layered_graph(const LayeredSpec& spec) {
  using namespace layered;
  PhysicalGraph graph;
  graph.placements.push_back({{{"x", 1}}, {Rank(0)}});
  graph.layouts.push_back({{Shape{64}, DType::kF32}, {Sbp::broadcast()}, PlacementId(0)});
  graph.blocks.push_back(row_of_actors("embedding", 0, 1));
  graph.blocks.push_back(row_of_actors("forward", 2, spec.actors));
  Block backward = row_of_actors("backward", 3, spec.actors);
  backward.frames.push_back({});
  backward.frames.back().acts_per_content = spec.micro_batches;
  const std::int32_t gradient = add_register(backward, "gradient", 1);
  backward.actors.back().out.push_back(gradient);
  graph.blocks.push_back(std::move(backward));
  Block optimizer = row_of_actors("optimizer", 1, 1);
  optimizer.frames[0].initially_full = true;
  optimizer.actors[0].queue = QueueRole::kCopyOut;
  graph.blocks.push_back(std::move(optimizer));

  RankProgram program;
  program.name = "stage";
  program.placement = PlacementId(0);
  program.arena.peak_by_class.resize(kNumMemoryClasses);
  const auto add = [&](int block, std::int32_t acts, std::int32_t registers) {
    Instance instance;
    instance.block = BlockId(block);
    instance.name = graph.blocks[BlockId(block)].name;
    instance.acts_per_step = acts;
    for (const Frame& frame : graph.blocks[BlockId(block)].frames) {
      FrameBinding binding;
      const std::int32_t contents = acts / frame.acts_per_content;
      binding.num_registers = std::min(registers, contents);
      for (std::int32_t slot = 0; slot < binding.num_registers; ++slot) {
        binding.slot_offsets.push_back(program.arena.size);
        program.arena.size += frame.size;
      }
      for (std::int32_t k = 0; k < contents; ++k) {
        binding.slot_of_content.push_back(k % binding.num_registers);
      }
      instance.frames.push_back(std::move(binding));
    }
    program.instances.push_back(std::move(instance));
    return InstanceId(program.instances.size() - 1);
  };
  const auto link = [&](InstanceId from, std::int32_t reg, InstanceId to, std::int32_t port,
                        std::int32_t consume_for) {
    program.links.push_back({from, reg, to, port, consume_for});
  };
  const std::int32_t m = spec.micro_batches, last = spec.actors - 1;
  std::vector<InstanceId> forward, backwards, optimizers;
  const InstanceId embedding = add(0, m, 2);
  for (std::int32_t l = 0; l < spec.layers; ++l) forward.push_back(add(1, m, 2));
  for (std::int32_t l = 0; l < spec.layers; ++l) backwards.push_back(add(2, m, 1));
  for (std::int32_t l = 0; l < spec.layers; ++l) optimizers.push_back(add(3, 1, 1));
  for (std::size_t l = 0; l < forward.size(); ++l) {
    link(l == 0 ? embedding : forward[l - 1], l == 0 ? 0 : last, forward[l], 0, 1);
    link(optimizers[l], 0, forward[l], 1, m);
    const bool top = l + 1 == forward.size();
    link(top ? forward[l] : backwards[l + 1], last, backwards[l], 0, 1);
    link(forward[l], last, backwards[l], 1, 1);
    link(optimizers[l], 0, backwards[l], 2, m);
    link(backwards[l], gradient, optimizers[l], 0, 1);
  }
  for (std::int32_t act = 0; act < m; ++act) {
    program.order.push_back({embedding, 0, 1, act, {}});
    for (const InstanceId f : forward) program.order.push_back({f, 0, spec.actors, act, {}});
    for (std::size_t l = forward.size(); l-- > 0;) {
      program.order.push_back({backwards[l], 0, spec.actors, act, {}});
    }
  }
  for (const InstanceId o : optimizers) program.order.push_back({o, 0, 1, 0, {}});
  graph.programs.push_back(std::move(program));
  graph.ranks.push_back({ProgramId(0), 0, {}});
  return graph;
}

}  // namespace sextant
