// Index of a program's links and rates, and the addresses that follow from it.
#include "actor/calls/operands.h"

#include "core/base/check.h"

#include <algorithm>

namespace sextant {
namespace {

// The edge that feeds register `reg` to `actor`; every read of a register has one.
const Edge& edge_of(const Block& block, std::int32_t reg, std::size_t actor) {
  const auto edge = std::find_if(block.edges.begin(), block.edges.end(), [&](const Edge& e) {
    return e.from_register == reg && e.to_actor == static_cast<std::int32_t>(actor) && !e.control;
  });
  require(edge != block.edges.end(), ErrorCode::kBadInput,
          "block '{}': actor '{}' reads register {} but no edge leads from it to the actor",
          block.name, block.actors[actor].name, reg);
  return *edge;
}

}  // namespace

OperandResolver::OperandResolver(const PhysicalGraph& graph, ProgramId program)
    : graph_(&graph), program_(&graph.programs[program]), blocks_(graph.blocks.size()) {
  for (const Instance& instance : program_->instances) {
    BlockInputs& inputs = blocks_[instance.block.index()];
    if (inputs.first_of_actor.empty()) inputs = inputs_of(graph.block_of(instance));
  }
  index_links();
}

OperandResolver::BlockInputs OperandResolver::inputs_of(const Block& block) const {
  BlockInputs inputs;
  for (std::size_t a = 0; a < block.actors.size(); ++a) {
    inputs.first_of_actor.push_back(inputs.sources.size());
    for (const Operand& operand : block.actors[a].in) {
      const bool is_port = operand.source == Operand::Source::kPort;
      const std::int32_t rate = is_port ? 1 : edge_of(block, operand.index, a).consume_for;
      inputs.sources.push_back({InstanceId::none, operand.index, rate});
      inputs.is_port.push_back(is_port);
    }
  }
  inputs.first_of_actor.push_back(inputs.sources.size());
  return inputs;
}

void OperandResolver::index_links() {
  for (const Instance& instance : program_->instances) {
    first_port_of_.push_back(ports_.size());
    ports_.resize(ports_.size() + graph_->block_of(instance).ports.size());
  }
  for (const Link& link : program_->links) {
    Source& port = ports_[first_port_of_[link.to.index()] + static_cast<std::size_t>(link.to_port)];
    require(!port.from_instance.is_valid(), ErrorCode::kBadInput,
            "program '{}': two links lead to port {} of instance '{}'", program_->name,
            link.to_port, program_->instances[link.to].name);
    port = {link.from, link.from_register, link.consume_for};
  }
  std::size_t next = 0;
  for (const Instance& instance : program_->instances) {
    for (const Port& port : graph_->block_of(instance).ports) {
      require(ports_[next++].from_instance.is_valid(), ErrorCode::kBadInput,
              "program '{}': no link leads to port '{}' of instance '{}'", program_->name,
              port.name, instance.name);
    }
  }
}

BufferRef OperandResolver::buffer(InstanceId instance, std::int32_t reg,
                                  std::int32_t content) const {
  const Instance& owner = program_->instances[instance];
  const Register& info = graph_->block_of(owner).registers[static_cast<std::size_t>(reg)];
  const FrameBinding& frame = owner.frames[static_cast<std::size_t>(info.frame)];
  const std::int32_t slot = frame.slot_of_content[static_cast<std::size_t>(content)];
  return {instance, reg, content, frame.slot_offsets[static_cast<std::size_t>(slot)] + info.offset,
          &info};
}

std::pair<InstanceId, OperandResolver::Source> OperandResolver::source_of(InstanceId reader,
                                                                          const BlockInputs& inputs,
                                                                          std::size_t index) const {
  Source source = inputs.sources[index];
  if (inputs.is_port[index]) {
    source = ports_[first_port_of_[reader.index()] + static_cast<std::size_t>(source.reg)];
  }
  return {source.from_instance.is_valid() ? source.from_instance : reader, source};
}

bool OperandResolver::is_state(InstanceId instance, std::int32_t reg) const {
  const Block& block = graph_->block_of(program_->instances[instance]);
  const Register& info = block.registers[static_cast<std::size_t>(reg)];
  return block.frames[static_cast<std::size_t>(info.frame)].initially_full;
}

std::int32_t OperandResolver::acts_per_content(const Block& block, std::int32_t reg) {
  const Register& info = block.registers[static_cast<std::size_t>(reg)];
  return block.frames[static_cast<std::size_t>(info.frame)].acts_per_content;
}

ActorCall OperandResolver::call(InstanceId instance, std::int32_t actor, std::int32_t act) const {
  const Block& block = graph_->block_of(program_->instances[instance]);
  ActorCall call;
  call.actor = &block.actors[static_cast<std::size_t>(actor)];
  for_each_operand(instance, actor,
                   [&](InstanceId owner, std::int32_t reg, std::int32_t rate, bool writes) {
                     const std::int32_t content = rate == 0 ? 0 : act / rate;
                     (writes ? call.out : call.in).push_back(buffer(owner, reg, content));
                     if (writes) call.accumulate.push_back(rate > 0 && act % rate != 0);
                   });
  return call;
}

std::vector<ActorCall> OperandResolver::calls(RunId run) const {
  const Run& entry = program_->order[run];
  std::vector<ActorCall> calls;
  calls.reserve(static_cast<std::size_t>(entry.num_actors));
  for (std::int32_t actor = 0; actor < entry.num_actors; ++actor) {
    calls.push_back(call(entry.instance, entry.first_actor + actor, entry.act));
  }
  return calls;
}

std::vector<ActorCall> resolve_calls(const PhysicalGraph& graph, ProgramId program, RunId run) {
  return OperandResolver(graph, program).calls(run);
}

}  // namespace sextant
