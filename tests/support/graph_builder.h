// Builds small physical graphs by hand, for tests: the caller says what is interesting (actors,
// rates, order); offsets, edges, slots and local shapes follow. What it makes is valid unless the
// caller breaks it on purpose.
#pragma once

#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant::testing {

class GraphBuilder;

// One block. Registers and ports come first, then the actors in order.
class BlockBuilder {
 public:
  BlockBuilder(GraphBuilder& graph, std::string name, Phase phase);

  struct FrameOptions {
    MemoryClass memory = MemoryClass::kActivations;
    std::int32_t acts_per_content = 1;
    bool initially_full = false;
  };
  std::int32_t frame(const FrameOptions& options);
  std::int32_t frame() { return frame(FrameOptions()); }
  // Laid out behind the other registers of the frame; the local type is that of the first device.
  std::int32_t reg(std::string name, LayoutId layout, std::int32_t frame);
  // In the bytes of another register.
  std::int32_t reg_over(std::string name, std::int32_t other);
  std::int32_t port(std::string name, LayoutId layout);

  static Operand of_register(std::int32_t index);
  static Operand of_port(std::int32_t index);

  // Edges of register operands and readers of ports follow from `in`.
  Actor& actor(std::string name, QueueRole queue, std::vector<Operand> in,
               std::vector<std::int32_t> out);
  // An actor that communicates between the layouts; its kind is the primitive's name.
  Actor& communication(std::string name, QueueRole queue, const Communication& communication,
                       std::vector<Operand> in, std::vector<std::int32_t> out);
  BlockId finish();

 private:
  GraphBuilder* graph_;
  Block block_;
};

class GraphBuilder {
 public:
  PlacementId placement(std::vector<MeshAxis> axes, Rank first);
  LayoutId layout(const Shape& global, std::string_view words, PlacementId placement,
                  DType dtype = DType::kF32);
  GroupId group(std::string name, std::vector<Rank> ranks);

  ProgramId program(std::string name, PlacementId placement, std::int32_t num_group_roles = 0);
  // `num_registers` per frame of the block; content k lives in slot k modulo that number. Slots get
  // bytes of their own.
  InstanceId instance(ProgramId program, BlockId block, std::string name,
                      std::int32_t acts_per_step, const std::vector<std::int32_t>& num_registers);
  void link(ProgramId program, InstanceId from, std::int32_t from_register, InstanceId to,
            std::int32_t to_port, std::int32_t consume_for = 1);
  RunId run(ProgramId program, const Run& run);
  // One act of all actors that are not on the host: consecutive ones of one queue in one run,
  // communications alone.
  void act(ProgramId program, InstanceId instance, std::int32_t act);
  // Ranks are bound in order, 0, 1, 2 ...; the position is the rank's in the program's placement.
  void bind(ProgramId program, std::vector<GroupId> groups = {});

  PhysicalGraph& graph() { return graph_; }

 private:
  PhysicalGraph graph_;
};

// Actors in a row on one rank, each on the compute queue, each reading the one before it. The i-th
// has num_registers[i] registers; all act `acts_per_step` times, in order of act, then actor. One
// instance per actor, so that each act of each actor is a run of its own.
PhysicalGraph chain_graph(const std::vector<std::int32_t>& num_registers,
                          std::int32_t acts_per_step);

// graphs/training.txt, which says what it is.
PhysicalGraph training_graph();

// Two ranks that exchange a tensor, each by a send and a receive of its own, in this order; with
// `grouped` both start together. With one group the transfers of both directions are of one order.
PhysicalGraph exchange_graph(bool rank0_sends_first, bool rank1_sends_first, bool grouped,
                             bool equal_ranks_two_groups = true);

}  // namespace sextant::testing
