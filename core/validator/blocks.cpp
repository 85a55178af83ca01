// Rules B: what must hold inside one block, whoever uses it.
#include "core/graphs/views.h"
#include "core/validator/findings.h"

#include <algorithm>
#include <numeric>

namespace sextant::validator {
namespace {

using Reading = std::pair<std::int32_t, std::int32_t>;  // (register or port, actor)

bool is_state(const Block& block, std::int32_t reg) {
  return at(block.frames, at(block.registers, reg).frame).initially_full;
}

std::vector<Reading> sorted(std::vector<Reading> readings) {
  std::sort(readings.begin(), readings.end());
  return readings;
}

// What the actors read, each (source, actor) once even if it is several operands.
std::vector<Reading> readings_of(const Block& block, Operand::Source source) {
  std::vector<Reading> readings;
  for (std::size_t actor = 0; actor < block.actors.size(); ++actor)
    for (const Operand& operand : block.actors[actor].in)
      if (operand.source == source)
        readings.emplace_back(operand.index, static_cast<std::int32_t>(actor));
  readings = sorted(std::move(readings));
  readings.erase(std::unique(readings.begin(), readings.end()), readings.end());
  return readings;
}

void check_writers(const Block& block, Findings& findings) {
  std::vector<std::int32_t> writes(block.registers.size(), 0);
  for (const Actor& actor : block.actors)
    for (const std::int32_t reg : actor.out) ++at(writes, reg);
  for (std::size_t reg = 0; reg < writes.size(); ++reg)
    findings.expect(writes[reg] == 1, "B1", "block '{}': register '{}' is written by {} actors",
                    block.name, block.registers[reg].name, writes[reg]);
}

void check_readers(const Block& block, Findings& findings) {
  std::vector<Reading> edges, ports;
  for (const Edge& edge : block.edges)
    if (!edge.control) edges.emplace_back(edge.from_register, edge.to_actor);
  for (std::size_t port = 0; port < block.ports.size(); ++port)
    for (const std::int32_t reader : block.ports[port].readers)
      ports.emplace_back(static_cast<std::int32_t>(port), reader);
  findings.expect(
      sorted(std::move(edges)) == readings_of(block, Operand::Source::kRegister), "B2",
      "block '{}': the data edges are not what its actors read from its registers, each "
      "once",
      block.name);
  findings.expect(
      sorted(std::move(ports)) == readings_of(block, Operand::Source::kPort), "B3",
      "block '{}': the readers of its ports are not the actors that read them, each once",
      block.name);
}

void check_edge_order(const Block& block, Findings& findings) {
  const std::vector<std::int32_t> writers = writers_of(block);
  for (const Edge& edge : block.edges) {
    const std::int32_t writer = at(writers, edge.from_register);
    const std::string& name = at(block.registers, edge.from_register).name;
    if (is_state(block, edge.from_register)) {
      findings.expect(edge.to_actor < writer, "B4",
                      "block '{}': actor '{}' reads the state '{}' at or after its update",
                      block.name, at(block.actors, edge.to_actor).name, name);
    } else {
      findings.expect(writer < edge.to_actor, "B5",
                      "block '{}': actor '{}' reads '{}' before or while it is written", block.name,
                      at(block.actors, edge.to_actor).name, name);
    }
  }
}

// True when the alias passes bytes that it may pass.
bool shares_bytes(const Block& block, const Operand& input, std::int32_t output) {
  if (input.source != Operand::Source::kRegister || input.index == output) return false;
  const Register& from = at(block.registers, input.index);
  const Register& to = at(block.registers, output);
  return from.frame == to.frame && from.offset == to.offset &&
         size_of(from.local) == size_of(to.local) && !at(block.frames, from.frame).initially_full;
}

void check_in_place(const Block& block, Findings& findings) {
  const std::vector<std::int32_t> roots = view_roots(block);
  for (std::size_t index = 0; index < block.actors.size(); ++index) {
    const Actor& actor = block.actors[index];
    if (!actor.in_place) continue;
    const Operand& input = at(actor.in, actor.in_place->in);
    const std::int32_t output = at(actor.out, actor.in_place->out);
    if (!findings.expect(shares_bytes(block, input, output), "B6",
                         "block '{}': '{}' writes '{}' in place, but not into the bytes of a "
                         "register it reads",
                         block.name, actor.name, at(block.registers, output).name))
      continue;
    if (is_view(actor)) continue;
    for (const Edge& edge : block.edges)
      findings.expect(at(roots, edge.from_register) != at(roots, input.index) ||
                          edge.to_actor <= static_cast<std::int32_t>(index),
                      "B7", "block '{}': '{}' reads '{}' after '{}' overwrote it in place",
                      block.name, at(block.actors, edge.to_actor).name,
                      at(block.registers, edge.from_register).name, actor.name);
  }
}

// Registers that share bytes through chains of in-place actors have one representative.
std::vector<std::int32_t> representatives_of(const Block& block) {
  std::vector<std::int32_t> representatives(block.registers.size());
  std::iota(representatives.begin(), representatives.end(), 0);
  for (const Actor& actor : block.actors) {
    if (!actor.in_place) continue;
    const Operand& input = at(actor.in, actor.in_place->in);
    if (input.source == Operand::Source::kRegister)
      at(representatives, at(actor.out, actor.in_place->out)) = at(representatives, input.index);
  }
  return representatives;
}

void check_overlap(const Block& block, Findings& findings) {
  const std::vector<std::int32_t> representatives = representatives_of(block);
  std::vector<std::int32_t> by_place(block.registers.size());
  std::iota(by_place.begin(), by_place.end(), 0);
  std::sort(by_place.begin(), by_place.end(), [&](std::int32_t a, std::int32_t b) {
    const Register& first = at(block.registers, a);
    const Register& second = at(block.registers, b);
    return std::tuple(first.frame, first.offset, a) < std::tuple(second.frame, second.offset, b);
  });
  std::int32_t longest = -1;  // the register before that reaches furthest
  const auto end_of = [&](std::int32_t reg) {
    return at(block.registers, reg).offset + size_of(at(block.registers, reg).local);
  };
  for (const std::int32_t reg : by_place) {
    const Register& info = at(block.registers, reg);
    const bool same_frame = longest >= 0 && at(block.registers, longest).frame == info.frame;
    const bool overlaps =
        same_frame && size_of(info.local) > Bytes(0) && info.offset < end_of(longest);
    findings.expect(!overlaps || at(representatives, reg) == at(representatives, longest), "B8",
                    "block '{}': '{}' and '{}' overlap in their frame", block.name,
                    at(block.registers, std::max(longest, 0)).name, info.name);
    if (!same_frame || end_of(reg) > end_of(longest)) longest = reg;
  }
}

void check_registers(const PhysicalGraph& graph, const Block& block, Findings& findings) {
  for (const Register& reg : block.registers) {
    findings.expect(reg.offset.value % kBufferAlignment == 0, "B9",
                    "block '{}': register '{}' starts at byte {} of its frame, not at a multiple "
                    "of {}",
                    block.name, reg.name, reg.offset.value, kBufferAlignment);
    const Bytes end = reg.offset + size_of(reg.local);
    findings.expect(end <= at(block.frames, reg.frame).size, "B10",
                    "block '{}': register '{}' ends at byte {} of a frame of {}", block.name,
                    reg.name, end.value, at(block.frames, reg.frame).size.value);
    const DType global = graph.layouts[reg.layout].global.dtype;
    findings.expect(reg.local.dtype == global, "B11",
                    "block '{}': register '{}' holds {}, its layout {}", block.name, reg.name,
                    to_string(reg.local.dtype), to_string(global));
  }
}

void check_state(const Block& block, Findings& findings) {
  for (std::size_t frame = 0; frame < block.frames.size(); ++frame)
    findings.expect(
        !block.frames[frame].initially_full || block.frames[frame].acts_per_content == 1, "B12",
        "block '{}': the state in frame {} takes {} acts to update", block.name, frame,
        block.frames[frame].acts_per_content);
}

}  // namespace

void check_blocks(const PhysicalGraph& graph, Findings& findings) {
  for (const Block& block : graph.blocks) {
    check_writers(block, findings);
    check_readers(block, findings);
    check_edge_order(block, findings);
    check_in_place(block, findings);
    check_overlap(block, findings);
    check_registers(graph, block, findings);
    check_state(block, findings);
  }
}

}  // namespace sextant::validator
