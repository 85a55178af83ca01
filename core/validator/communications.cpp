// Rules C: each communication on its own, and as part of the programs that use it.
#include "core/validator/findings.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace sextant::validator {
namespace {

bool is_transfer_out(QueueRole queue) {
  return queue == QueueRole::kTransferOutForward || queue == QueueRole::kTransferOutBackward;
}
bool is_transfer_in(QueueRole queue) {
  return queue == QueueRole::kTransferInForward || queue == QueueRole::kTransferInBackward;
}

bool is_on_its_queue(const Actor& actor) {
  if (!actor.communication)
    return actor.queue != QueueRole::kCollective && !is_transfer_out(actor.queue) &&
           !is_transfer_in(actor.queue);
  switch (actor.communication->side) {
    case Side::kBoth:
      return actor.queue == QueueRole::kCollective;
    case Side::kSend:
      return is_transfer_out(actor.queue);
    case Side::kReceive:
      return is_transfer_in(actor.queue);
  }
  return false;
}

bool has_its_operands(const Actor& actor) {
  switch (actor.communication->side) {
    case Side::kBoth:
      return actor.in.size() == 1 && actor.out.size() == 1;
    case Side::kSend:
      return actor.in.size() == 1 && actor.out.empty();
    case Side::kReceive:
      return actor.in.empty() && actor.out.size() == 1;
  }
  return false;
}

// Registers know their layout; what comes in by a port is checked by its local type (rules R, S).
bool has_its_layouts(const PhysicalGraph& graph, const Block& block, const Actor& actor) {
  const auto is_laid_out = [&](std::int32_t reg, LayoutId wanted) {
    const LayoutId found = at(block.registers, reg).layout;
    return found == wanted || graph.layouts[found] == graph.layouts[wanted];
  };
  for (const Operand& operand : actor.in)
    if (operand.source == Operand::Source::kRegister &&
        !is_laid_out(operand.index, actor.communication->from))
      return false;
  for (const std::int32_t reg : actor.out)
    if (!is_laid_out(reg, actor.communication->to)) return false;
  return true;
}

void check_communication(const PhysicalGraph& graph, const Block& block, const Actor& actor,
                         Findings& findings) {
  if (!actor.communication) {
    findings.expect(is_on_its_queue(actor), "C1",
                    "block '{}': '{}' communicates nothing, but is on queue {}", block.name,
                    actor.name, to_string(actor.queue));
    return;
  }
  const Communication& communication = *actor.communication;
  const bool is_transfer = communication.primitive == Primitive::kTransfer;
  findings.expect(is_transfer || communication.side == Side::kBoth, "C2",
                  "block '{}': '{}' is {} with side {}", block.name, actor.name,
                  to_string(communication.primitive), to_string(communication.side));
  findings.expect(is_on_its_queue(actor), "C3", "block '{}': '{}' with side {} is on queue {}",
                  block.name, actor.name, to_string(communication.side), to_string(actor.queue));
  if (findings.expect(has_its_operands(actor), "C4",
                      "block '{}': '{}' with side {} has {} inputs and {} outputs", block.name,
                      actor.name, to_string(communication.side), actor.in.size(), actor.out.size()))
    findings.expect(has_its_layouts(graph, block, actor), "C5",
                    "block '{}': the registers of '{}' are not laid out as it says", block.name,
                    actor.name);
  const Layout& from = graph.layouts[communication.from];
  const Layout& to = graph.layouts[communication.to];
  findings.expect(from.global == to.global && from.global.dtype == communication.dtype, "C6",
                  "block '{}': '{}' turns {} {} into {} {} as {}", block.name, actor.name,
                  to_string(from.global.shape), to_string(from.global.dtype),
                  to_string(to.global.shape), to_string(to.global.dtype),
                  to_string(communication.dtype));
}

// How many ranks of a program are devices of a placement.
enum class Share : std::uint8_t { kNone, kSome, kAll };

class Shares {
 public:
  explicit Shares(const PhysicalGraph& graph) : graph_(&graph), ranks_(graph.programs.size()) {
    for (const Placement& placement : graph.placements) {
      Table<Rank, bool> devices(graph.ranks.size(), false);
      for (const Rank rank : placement.ranks) devices[rank] = true;
      devices_.push_back(std::move(devices));
    }
    for (const Rank rank : graph.ranks.keys()) ranks_[graph.ranks[rank].program].push_back(rank);
  }

  Share of(ProgramId program, LayoutId layout) const {
    const PlacementId placement = graph_->layouts[layout].placement;
    if (placement == graph_->programs[program].placement) return Share::kAll;
    const Table<Rank, bool>& devices = devices_[placement];
    const auto is_device = [&](Rank rank) { return static_cast<bool>(devices[rank]); };
    const std::vector<Rank>& ranks = ranks_[program];
    if (std::none_of(ranks.begin(), ranks.end(), is_device)) return Share::kNone;
    return std::all_of(ranks.begin(), ranks.end(), is_device) ? Share::kAll : Share::kSome;
  }

 private:
  const PhysicalGraph* graph_;
  Table<PlacementId, Table<Rank, bool>> devices_;
  Table<ProgramId, std::vector<Rank>> ranks_;
};

std::string_view text_of(Share share) {
  switch (share) {
    case Share::kNone:
      return "does not hold";
    case Share::kSome:
      return "holds on some ranks";
    case Share::kAll:
      return "holds";
  }
  return "?";
}

// What each member sends is as large as what it holds afterwards.
bool holds_equal_parts(const PhysicalGraph& graph, const Communication& shift, ProgramId program) {
  const auto rank =
      std::find_if(graph.ranks.begin(), graph.ranks.end(),
                   [&](const RankBinding& binding) { return binding.program == program; });
  const std::size_t role = at(shift.group);
  // Missing groups are for the rules of bindings to report.
  if (rank == graph.ranks.end() || role >= rank->groups.size() || !rank->groups[role].is_valid())
    return true;
  std::vector<std::int64_t> parts;
  for (const Rank member : graph.groups[rank->groups[role]].ranks)
    for (const LayoutId side : {shift.from, shift.to}) {
      const Layout& layout = graph.layouts[side];
      const Placement& placement = graph.placements[layout.placement];
      const auto index = placement.index_of(member);
      if (!index) return false;
      parts.push_back(shard_of(layout.global.shape, layout.words, placement.hierarchy(),
                               placement.coordinates_of(*index))
                          .elements());
    }
  return std::adjacent_find(parts.begin(), parts.end(), std::not_equal_to<>()) == parts.end();
}

void check_use(const PhysicalGraph& graph, const Shares& shares, ProgramId program_id,
               const Actor& actor, Findings& findings) {
  const RankProgram& program = graph.programs[program_id];
  const Communication& communication = *actor.communication;
  findings.expect(communication.group >= 0 && communication.group < program.num_group_roles, "C7",
                  "program '{}': '{}' talks to group role {} of {}", program.name, actor.name,
                  communication.group, program.num_group_roles);
  const Share from = shares.of(program_id, communication.from);
  const Share to = shares.of(program_id, communication.to);
  const bool brings = communication.side != Side::kReceive;
  const bool takes = communication.side != Side::kSend;
  if (!findings.expect(from == (brings ? Share::kAll : Share::kNone) &&
                           to == (takes ? Share::kAll : Share::kNone),
                       "C8", "program '{}': '{}' with side {} {} `from` and {} `to`", program.name,
                       actor.name, to_string(communication.side), text_of(from), text_of(to)))
    return;
  const PlacementId here = graph.layouts[communication.from].placement;
  const PlacementId there = graph.layouts[communication.to].placement;
  findings.expect(communication.side != Side::kBoth ||
                      communication.primitive == Primitive::kTransfer || here == there,
                  "C9", "program '{}': the collective '{}' leads from placement {} to placement {}",
                  program.name, actor.name, here.value, there.value);
  findings.expect(communication.primitive != Primitive::kShift ||
                      holds_equal_parts(graph, communication, program_id),
                  "C10", "program '{}': '{}' passes on parts of different sizes", program.name,
                  actor.name);
}

}  // namespace

void check_communications(const PhysicalGraph& graph, Findings& findings) {
  for (const Block& block : graph.blocks)
    for (const Actor& actor : block.actors) check_communication(graph, block, actor, findings);
  const Shares shares(graph);
  for (const ProgramId program : graph.programs.keys())
    for (const Instance& instance : graph.programs[program].instances)
      for (const Actor& actor : graph.block_of(instance).actors)
        if (actor.communication) check_use(graph, shares, program, actor, findings);
}

}  // namespace sextant::validator
