// Rules O: the issue order of a program holds every act once, in an order that each actor allows.
#include "core/validator/findings.h"

#include <algorithm>

namespace sextant::validator {
namespace {

// The next act of every actor while the order is walked.
class Progress {
 public:
  Progress(const PhysicalGraph& graph, const RankProgram& program)
      : graph_(&graph), program_(&program) {
    for (const Instance& instance : program.instances)
      next_act_.emplace_back(graph.block_of(instance).actors.size(), 0);
  }

  void walk(RunId id, Findings& findings) {
    const Run& run = program_->order[id];
    const Block& block = block_of(run);
    std::vector<std::int32_t>& next_act = next_act_[run.instance];
    const auto first = next_act.begin() + run.first_actor, end = first + run.num_actors;
    const std::int32_t before_first = previous_on_device(block, run.first_actor);
    const bool is_in_turn =
        std::all_of(first, end, [&](std::int32_t next) { return next == run.act; }) &&
        (before_first < 0 || at(next_act, before_first) > run.act);
    if (is_in_turn)
      std::fill(first, end, run.act + 1);
    else
      walk_actors(id, findings);
  }

  // Every act is there: in order they are if the last is.
  void finish(Findings& findings) const {
    for (const InstanceId i : program_->instances.keys()) {
      const Instance& instance = program_->instances[i];
      const Block& block = graph_->block_of(instance);
      for (std::size_t actor = 0; actor < block.actors.size(); ++actor)
        findings.expect(block.actors[actor].queue == QueueRole::kHost ||
                            next_act_[i][actor] == instance.acts_per_step,
                        "O6", "program '{}': the order ends with act {} of '{}' in '{}' missing",
                        program_->name, next_act_[i][actor], block.actors[actor].name,
                        instance.name);
    }
  }

 private:
  const Block& block_of(const Run& run) const {
    return graph_->block_of(program_->instances[run.instance]);
  }

  // Actor by actor, each behind the one before it: a run whose actors are all at this act, and the
  // one before them behind it, breaks no rule.
  void walk_actors(RunId id, Findings& findings) {
    const Run& run = program_->order[id];
    const Block& block = block_of(run);
    std::vector<std::int32_t>& next_act = next_act_[run.instance];
    for (std::int32_t actor = run.first_actor; actor < run.first_actor + run.num_actors; ++actor) {
      const Actor& info = at(block.actors, actor);
      findings.expect(at(next_act, actor) == run.act, "O4",
                      "program '{}', run {}: act {} of '{}' where act {} is next", program_->name,
                      id, run.act, info.name, at(next_act, actor));
      const std::int32_t before = previous_on_device(block, actor);
      findings.expect(before < 0 || at(next_act, before) > run.act, "O5",
                      "program '{}', run {}: '{}' acts before '{}', which stands before it in "
                      "block '{}'",
                      program_->name, id, info.name,
                      at(block.actors, before < 0 ? actor : before).name, block.name);
      at(next_act, actor) = std::max(at(next_act, actor), run.act + 1);
    }
  }

  static std::int32_t previous_on_device(const Block& block, std::int32_t actor) {
    std::int32_t before = actor - 1;
    while (before >= 0 && at(block.actors, before).queue == QueueRole::kHost) --before;
    return before;
  }

  const PhysicalGraph* graph_;
  const RankProgram* program_;
  Table<InstanceId, std::vector<std::int32_t>> next_act_;  // by actor
};

// Whether a run of these actors is one: what a step repeats is looked at once.
class RunActors {
 public:
  explicit RunActors(const PhysicalGraph& graph) : graph_(&graph), is_known_(graph.blocks.size()) {}

  void check(const RankProgram& program, RunId id, Findings& findings) {
    const Run& run = program.order[id];
    const BlockId block = program.instances[run.instance].block;
    const std::size_t actors = graph_->blocks[block].actors.size();
    std::vector<bool>& known = is_known_[block];
    if (known.empty()) known.resize(actors * (actors + 1));
    const std::size_t form = at(run.first_actor) * (actors + 1) + at(run.num_actors);
    if (!known[form]) known[form] = check_actors(program, id, findings);
  }

 private:
  bool check_actors(const RankProgram& program, RunId id, Findings& findings) const {
    const Run& run = program.order[id];
    const Block& block = graph_->block_of(program.instances[run.instance]);
    const QueueRole queue = at(block.actors, run.first_actor).queue;
    bool holds = true;
    for (std::int32_t actor = run.first_actor; actor < run.first_actor + run.num_actors; ++actor) {
      const Actor& info = at(block.actors, actor);
      holds &= findings.expect(info.queue != QueueRole::kHost, "O1",
                               "program '{}', run {}: '{}' acts on the host, outside the order",
                               program.name, id, info.name);
      holds &= findings.expect(
          info.queue == queue, "O2", "program '{}', run {}: '{}' is on queue {}, the run on {}",
          program.name, id, info.name, to_string(info.queue), to_string(queue));
      holds &= findings.expect(!info.communication || run.num_actors == 1, "O3",
                               "program '{}', run {}: the communication '{}' shares its run",
                               program.name, id, info.name);
    }
    return holds;
  }

  const PhysicalGraph* graph_;
  Table<BlockId, std::vector<bool>> is_known_;  // by first actor and number of actors
};

void check_guards(const RankProgram& program, Findings& findings) {
  for (const Guard& guard : program.guards)
    findings.expect(guard.lag == 1 || guard.earlier < guard.later, "O7",
                    "program '{}': run {} is guarded by run {} of the same step, which is not "
                    "earlier",
                    program.name, guard.later.value, guard.earlier.value);
}

}  // namespace

void check_order(const PhysicalGraph& graph, Findings& findings) {
  RunActors actors(graph);
  for (const RankProgram& program : graph.programs) {
    Progress progress(graph, program);
    for (const RunId run : program.order.keys()) {
      actors.check(program, run, findings);
      progress.walk(run, findings);
    }
    progress.finish(findings);
    check_guards(program, findings);
  }
}

}  // namespace sextant::validator
