// The tape of a graph without guards says when contents are really used.
#include "compiler/memory/spare_memory.h"

#include "actor/bytes/byte_order.h"
#include "actor/protocol/proven_graph.h"
#include "actor/tapes/flat_tape.h"
#include "actor/tapes/tape.h"
#include "core/base/at.h"
#include "core/base/parallel.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace sextant {
namespace {

// Guards that cost less than this part of a step stay as they are.
constexpr std::int64_t kWorthIt = 2'000;

// The last step stands for all that follow.
Duration last_period(const TapeTimes& times) {
  return times.step_end.back() - times.step_end[times.step_end.size() - 2];
}

// Entries of a tape by the place of their rank and by run.
std::vector<Table<RunId, std::int32_t>> entries_by_run(const Tape& tape,
                                                       const PhysicalGraph& graph) {
  std::vector<Table<RunId, std::int32_t>> entries(tape.ranks.size());
  for (std::size_t place = 0; place < entries.size(); ++place)
    entries[place].resize(graph.program_of(tape.ranks[place]).order.size());
  for (std::size_t e = 0; e < tape.entries.size(); ++e)
    at(entries, tape.entries[e].place)[tape.entries[e].run] = static_cast<std::int32_t>(e);
  return entries;
}

// A wait for every guard, by entry. Guards of a program and entries of a rank both come by run.
std::vector<AddedWait> waits_for(const Tape& tape, const PhysicalGraph& graph,
                                 const GuardsOfPrograms& guards) {
  const auto entries = entries_by_run(tape, graph);
  std::vector<std::span<const Guard>> left;  // by place
  for (const Rank rank : tape.ranks) left.emplace_back(guards[graph.ranks[rank].program.index()]);
  std::vector<AddedWait> waits;
  for (std::int32_t e = 0; at(e) < tape.entries.size(); ++e) {
    const TapeEntry& entry = tape.entries[at(e)];
    std::span<const Guard>& own = at(left, entry.place);
    for (; !own.empty() && own.front().later == entry.run; own = own.subspan(1))
      waits.push_back({e, {at(entries, entry.place)[own.front().earlier], own.front().lag}});
  }
  return waits;
}

// When the runs of a stage begin and end in the steady state: of all its programs' ranks the
// earliest and the latest.
struct StageTimes {
  std::vector<Time> begin, end;  // by run of the order
};

// The step of a whole graph as long as no guard delays anything.
class UnguardedStep {
 public:
  UnguardedStep(const PhysicalGraph& graph, const std::shared_ptr<const GraphTables>& tables,
                const CostModel& cost, const NetworkModel& network)
      : graph_(graph),
        cost_(cost),
        network_(network),
        tape_(recorded(graph, tables)),
        flat_(tape_),
        durations_(entry_durations(tape_, graph, cost)),
        stages_(graph.placements.size()) {
    const TapeTimes times = evaluate(flat_, durations_, cost, network);
    period_ = last_period(times);
    for (std::size_t e = 0; e < tape_.entries.size(); ++e) note(tape_.entries[e], times, e);
  }

  Duration period() const { return period_; }  // from step to step
  const StageTimes& of_stage(PlacementId stage) const { return stages_[stage.index()]; }

  // Whether one of these guards of a program of the stage would make its run wait.
  bool is_delayed(PlacementId stage, std::span<const Guard> guards) const {
    const StageTimes& times = of_stage(stage);
    return std::any_of(guards.begin(), guards.end(), [&](const Guard& guard) {
      return at(times.end, guard.earlier.value) - guard.lag * period_ >
             at(times.begin, guard.later.value);
    });
  }

  Duration guarded_period(const GuardsOfPrograms& guards) const {
    FlatTape flat = flat_;
    flat.add(waits_for(tape_, graph_, guards));
    return last_period(evaluate(flat, durations_, cost_, network_));
  }

 private:
  static Tape recorded(const PhysicalGraph& graph,
                       const std::shared_ptr<const GraphTables>& tables) {
    const ProvenGraph proven(refer_to(graph), tables);
    return record(proven, proven.classes());
  }

  void note(const TapeEntry& entry, const TapeTimes& times, std::size_t e) {
    const RankProgram& program = graph_.program_of(entry.rank);
    StageTimes& stage = stages_[program.placement.index()];
    if (stage.begin.size() < program.order.size()) {
      stage.begin.resize(program.order.size(), times.step_end.back());
      stage.end.resize(program.order.size());
    }
    Time& begin = at(stage.begin, entry.run.value);
    Time& end = at(stage.end, entry.run.value);
    begin = std::min(begin, times.begin[e]);
    end = std::max(end, times.end[e]);
  }

  const PhysicalGraph& graph_;
  const CostModel& cost_;
  const NetworkModel& network_;
  const Tape tape_;
  const FlatTape flat_;
  std::vector<Duration> durations_;
  Duration period_;
  std::vector<StageTimes> stages_;
};

// What an arena of the program may take: of the rank with the most groups.
Bytes room_of(const PhysicalGraph& graph, ProgramId program, const ArenaRoom& room) {
  std::int64_t most = 0;
  for (const Rank rank : graph.ranks.keys())
    if (graph.ranks[rank].program == program) most = std::max(most, communicators_of(graph, rank));
  return room.capacity - most * room.per_communicator;
}

std::vector<std::vector<ProgramId>> programs_by_stage(const PhysicalGraph& graph) {
  std::vector<std::vector<ProgramId>> stages(graph.placements.size());
  for (const ProgramId p : graph.programs.keys())
    stages[graph.programs[p].placement.index()].push_back(p);
  return stages;
}

struct LongerLives {
  RankProgram program;
  PackedProgram packed;
};

// The program with lives by these times; its size may be more than there is.
LongerLives lengthened(const PhysicalGraph& graph, ProgramId id, const UnguardedStep& step,
                       const PackedProgram& tight, Bytes room) {
  LongerLives longer{graph.programs[id], {}};
  const StageTimes& times = step.of_stage(longer.program.placement);
  const ArenaPlan arena = longer.program.arena;
  MemoryPlanOptions options;
  options.begin = times.begin;
  options.end = times.end;
  options.period = step.period();
  MemoryPlan plan(graph, longer.program, options);
  plan.improve(room);
  longer.packed = plan.finish();
  longer.packed.tight = tight.tight;
  longer.program.arena.lower_bound = std::min(arena.lower_bound, longer.program.arena.size);
  longer.program.arena.peak_by_class = arena.peak_by_class;
  return longer;
}

// Whether tables of the one serve the other, which differs in slots alone: they know registers
// only.
bool have_equal_registers(const RankProgram& a, const RankProgram& b) {
  const auto is_equal = [](const FrameBinding& x, const FrameBinding& y) {
    return x.num_registers == y.num_registers;
  };
  return std::equal(a.instances.begin(), a.instances.end(), b.instances.begin(), b.instances.end(),
                    [&](const Instance& x, const Instance& y) {
                      return std::equal(x.frames.begin(), x.frames.end(), y.frames.begin(),
                                        y.frames.end(), is_equal);
                    });
}

}  // namespace

std::vector<bool> spend_spare_memory(PhysicalGraph& graph,
                                     const std::shared_ptr<const GraphTables>& tables,
                                     GuardsOfPrograms& guards, std::vector<PackedProgram>& packed,
                                     const ArenaRoom& room, const CostModel& cost,
                                     const NetworkModel& network, const StopPoll& stop) {
  const std::vector<bool> all_hold(graph.programs.size(), true);
  const auto is_empty = [](const std::vector<Guard>& of_program) { return of_program.empty(); };
  if (std::all_of(guards.begin(), guards.end(), is_empty)) return all_hold;
  for (std::size_t p = 0; p < packed.size(); ++p)
    if (packed[p].tight > room_of(graph, ProgramId(p), room)) return all_hold;
  const UnguardedStep step(graph, tables, cost, network);
  stop();
  std::vector<std::vector<ProgramId>> stages = programs_by_stage(graph);
  std::erase_if(stages, [&](const std::vector<ProgramId>& programs) {
    return std::none_of(programs.begin(), programs.end(), [&](ProgramId id) {
      return step.is_delayed(graph.programs[id].placement, guards[id.index()]);
    });
  });
  if (stages.empty()) return all_hold;
  const Duration period = step.period(), guarded = step.guarded_period(guards);
  if (guarded.value - period.value <= period.value / kWorthIt) return all_hold;
  std::vector<char> holds(graph.programs.size(), 1);  // no bits: programs are done side by side
  for_each_in_parallel(stages.size(), [&](std::size_t stage) {
    stop();
    // One limit for all, or they would be packed by different rules.
    Bytes most = room.capacity;
    for (const ProgramId id : stages[stage]) most = std::min(most, room_of(graph, id, room));
    std::vector<LongerLives> longer;
    for (const ProgramId id : stages[stage]) {
      if (packed[id.index()].tight > most) return;  // nothing is spare
      longer.push_back(lengthened(graph, id, step, packed[id.index()], most));
      if (longer.back().program.arena.size > most) return;
    }
    for (std::size_t i = 0; i < longer.size(); ++i) {
      const ProgramId id = stages[stage][i];
      RankProgram& program = graph.programs[id];
      const bool knows = have_equal_registers(program, longer[i].program);
      program = std::move(longer[i].program);
      packed[id.index()] = std::move(longer[i].packed);
      guards[id.index()] = knows ? missing_guards(graph, id, *tables) : missing_guards(graph, id);
      holds[id.index()] = knows ? 1 : 0;
    }
  });
  return {holds.begin(), holds.end()};
}

}  // namespace sextant
