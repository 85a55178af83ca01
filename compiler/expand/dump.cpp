// One line per actor, instance, run and guard.
#include "compiler/expand/dump.h"

#include "core/base/at.h"
#include "core/base/check.h"

#include <fmt/core.h>

#include <iterator>

namespace sextant {
namespace {

class Dump {
 public:
  explicit Dump(const PhysicalGraph& graph) : graph_(graph) {}

  std::string text() {
    for (std::size_t block = 0; block < graph_.blocks.size(); ++block) add_block(block);
    for (const DeviceGroup& group : graph_.groups) {
      add("group {}:", group.name);
      for (const Rank rank : group.ranks) add(" {}", rank.value);
      add("\n");
    }
    for (std::size_t program = 0; program < graph_.programs.size(); ++program) add_program(program);
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  std::string type_text(const TensorType& type) const {
    return fmt::format("{} {}", to_string(type.shape), to_string(type.dtype));
  }

  void add_block(std::size_t index) {
    const Block& block = graph_.blocks[index];
    add("block {} {}\n", index, block.name);
    for (const Actor& actor : block.actors) add_actor(block, actor);
    for (std::size_t f = 0; f < block.frames.size(); ++f) {
      const Frame& frame = block.frames[f];
      add("  frame {}: {} {} bytes{}{}\n", f, to_string(frame.memory), frame.size.value,
          frame.acts_per_content > 1 ? fmt::format(", {} acts per content", frame.acts_per_content)
                                     : "",
          frame.initially_full ? ", state" : "");
    }
  }

  void add_actor(const Block& block, const Actor& actor) {
    add("  {} {} {}:", to_string(actor.queue), actor.kind, actor.name);
    for (const Operand& in : actor.in)
      add(" {}", in.source == Operand::Source::kPort ? "<" + at(block.ports, in.index).name
                                                     : at(block.registers, in.index).name);
    add(" ->");
    for (const std::int32_t out : actor.out) {
      const Register& reg = at(block.registers, out);
      add(" {} {} frame {} + {}", reg.name, type_text(reg.local), reg.frame, reg.offset.value);
    }
    if (actor.communication) {
      const Communication& c = *actor.communication;
      add(" [role {}: {} to {}]", c.group, to_string(graph_.layouts[c.from.index()].words),
          to_string(graph_.layouts[c.to.index()].words));
    }
    add("\n");
  }

  void add_program(std::size_t index) {
    const RankProgram& program = graph_.programs[index];
    add("program {} on ranks", program.name);
    for (std::size_t rank = 0; rank < graph_.ranks.size(); ++rank)
      if (graph_.ranks[rank].program == ProgramId(index)) add(" {}", rank);
    add("\n");
    for (const Instance& instance : program.instances) add_instance(instance);
    for (const Link& link : program.links) add_link(program, link);
    add("  order\n");
    for (std::size_t run = 0; run < program.order.size(); ++run) add_run(program, run);
    for (const Guard& guard : program.guards)
      add("  guard {} waits for {}{}\n", guard.later.value, guard.earlier.value,
          guard.lag == 0 ? "" : " of the step before");
    add("  arena {} bytes, lower bound {}\n", program.arena.size.value,
        program.arena.lower_bound.value);
  }

  void add_instance(const Instance& instance) {
    add("  {}: block {}, {} acts\n", instance.name, instance.block.value, instance.acts_per_step);
    for (std::size_t f = 0; f < instance.frames.size(); ++f) {
      const FrameBinding& frame = instance.frames[f];
      add("    frame {}: {} registers, slots", f, frame.num_registers);
      for (const std::int32_t slot : frame.slot_of_content) add(" {}", slot);
      add(" at");
      for (const Bytes offset : frame.slot_offsets) add(" {}", offset.value);
      add("\n");
    }
  }

  void add_link(const RankProgram& program, const Link& link) {
    const Instance& from = program.instances[link.from.index()];
    const Instance& to = program.instances[link.to.index()];
    add("  link {} {} -> {}{}\n", from.name, graph_.register_name(from, link.from_register),
        to.name, link.consume_for > 1 ? fmt::format(", for {} acts", link.consume_for) : "");
  }

  void add_run(const RankProgram& program, std::size_t index) {
    const Run& run = program.order[index];
    const Instance& instance = program.instances[run.instance.index()];
    const Block& block = graph_.block_of(instance);
    add("    {} {} {} act {}:", index, to_string(at(block.actors, run.first_actor).queue),
        instance.name, run.act);
    for (std::int32_t a = run.first_actor; a < run.first_actor + run.num_actors; ++a)
      add(" {}", graph_.actor_name(instance, a));
    if (run.launch_group >= 0) add(" (launch group {})", run.launch_group);
    add("\n");
  }

  const PhysicalGraph& graph_;
  std::string text_;
};

}  // namespace

std::string to_text(const PhysicalGraph& graph) { return Dump(graph).text(); }

}  // namespace sextant
