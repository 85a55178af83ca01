// Rules R: what is produced in a step is consumed in it. A step of an instance makes
// acts_per_step / acts_per_content contents of a register; a reader with consume_for uses up
// acts_per_step / consume_for.
#include "core/graphs/views.h"
#include "core/validator/findings.h"

namespace sextant::validator {
namespace {

void check_contents(const RankProgram& program, const Instance& instance, const Block& block,
                    Findings& findings) {
  for (const Frame& frame : block.frames)
    findings.expect(instance.acts_per_step % frame.acts_per_content == 0, "R1",
                    "program '{}': {} acts of instance '{}' are no whole number of contents of {} "
                    "acts",
                    program.name, instance.acts_per_step, instance.name, frame.acts_per_content);
}

void check_edges(const RankProgram& program, const Instance& instance, const Block& block,
                 Findings& findings) {
  for (const Edge& edge : block.edges) {
    const Frame& frame = at(block.frames, at(block.registers, edge.from_register).frame);
    findings.expect(edge.consume_for == frame.acts_per_content, "R2",
                    "program '{}', instance '{}': '{}' is filled every {} acts, but '{}' takes a "
                    "new content every {}",
                    program.name, instance.name, at(block.registers, edge.from_register).name,
                    frame.acts_per_content, at(block.actors, edge.to_actor).name, edge.consume_for);
  }
}

void check_link(const PhysicalGraph& graph, const RankProgram& program, const Link& link,
                Findings& findings) {
  const Instance& from = program.instances[link.from];
  const Instance& to = program.instances[link.to];
  const Register& reg = at(graph.block_of(from).registers, link.from_register);
  const Port& port = at(graph.block_of(to).ports, link.to_port);
  const std::int32_t produced = contents_per_step(from, at(graph.block_of(from).frames, reg.frame));
  findings.expect(std::int64_t{produced} * link.consume_for == to.acts_per_step, "R3",
                  "program '{}': '{}' gets {} contents of '{}' per step, each for {} acts, but "
                  "acts {} times",
                  program.name, to.name, produced, reg.name, link.consume_for, to.acts_per_step);
  findings.expect(reg.local == port.local, "R4",
                  "program '{}': register '{}' of '{}' is {} {}, port '{}' of '{}' takes {} {}",
                  program.name, reg.name, from.name, to_string(reg.local.shape),
                  to_string(reg.local.dtype), port.name, to.name, to_string(port.local.shape),
                  to_string(port.local.dtype));
  findings.expect(link.from != link.to, "R5", "program '{}': instance '{}' is linked to itself",
                  program.name, from.name);
}

void check_ports(const PhysicalGraph& graph, const RankProgram& program, Findings& findings) {
  Table<InstanceId, std::vector<std::int32_t>> arrivals;  // by port
  for (const Instance& instance : program.instances)
    arrivals.emplace_back(graph.block_of(instance).ports.size(), 0);
  for (const Link& link : program.links) ++at(arrivals[link.to], link.to_port);
  for (const InstanceId i : arrivals.keys())
    for (std::size_t port = 0; port < arrivals[i].size(); ++port)
      findings.expect(arrivals[i][port] == 1, "R6",
                      "program '{}': port '{}' of instance '{}' is reached by {} links",
                      program.name, graph.block_of(program.instances[i]).ports[port].name,
                      program.instances[i].name, arrivals[i][port]);
}

// Registers whose bytes another actor takes over, also through a view.
Table<BlockId, std::vector<bool>> taken_over(const PhysicalGraph& graph) {
  Table<BlockId, std::vector<bool>> taken;  // by register
  for (const Block& block : graph.blocks) {
    const std::vector<std::int32_t> roots = view_roots(block);
    std::vector<bool> is_root_taken(block.registers.size(), false);
    for (const Actor& actor : block.actors) {
      if (!actor.in_place || is_view(actor)) continue;
      const Operand& input = at(actor.in, actor.in_place->in);
      if (input.source == Operand::Source::kRegister)
        at(is_root_taken, at(roots, input.index)) = true;
    }
    std::vector<bool> of_block;
    for (const std::int32_t root : roots) of_block.push_back(at(is_root_taken, root));
    taken.push_back(std::move(of_block));
  }
  return taken;
}

}  // namespace

void check_rates(const PhysicalGraph& graph, Findings& findings) {
  const Table<BlockId, std::vector<bool>> taken = taken_over(graph);
  for (const RankProgram& program : graph.programs) {
    for (const Instance& instance : program.instances) {
      check_contents(program, instance, graph.block_of(instance), findings);
      check_edges(program, instance, graph.block_of(instance), findings);
    }
    for (const Link& link : program.links) {
      check_link(graph, program, link, findings);
      const Instance& from = program.instances[link.from];
      findings.expect(
          !at(taken[from.block], link.from_register), "R7",
          "program '{}': '{}' of instance '{}' is read elsewhere, but overwritten in place",
          program.name, at(graph.block_of(from).registers, link.from_register).name, from.name);
    }
    check_ports(graph, program, findings);
  }
}

}  // namespace sextant::validator
