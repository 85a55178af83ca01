// Rules L: runs that start together are neighbours, communicate, and do not wait for each other.
#include "core/validator/findings.h"

#include <algorithm>
#include <set>

namespace sextant::validator {
namespace {

// A register of an instance.
using Place = std::pair<std::int32_t, std::int32_t>;

class GroupChecker {
 public:
  GroupChecker(const PhysicalGraph& graph, const RankProgram& program)
      : graph_(&graph), program_(&program) {}

  void check(Findings& findings) {
    std::set<LaunchGroupId> seen;
    const Table<RunId, Run>& order = program_->order;
    for (RunId first(0); order.contains(first);) {
      RunId end = first.plus(1);
      const LaunchGroupId group = order[first].launch_group;
      while (group.is_valid() && order.contains(end) && order[end].launch_group == group) ++end;
      if (group.is_valid()) {
        findings.expect(seen.insert(group).second, "L1",
                        "program '{}': the runs of launch group {} are no neighbours",
                        program_->name, group);
        check_members(Range(first, end), findings);
        check_data(Range(first, end), findings);
      }
      first = end;
    }
    check_guards(findings);
  }

 private:
  const Block& block_of(const Run& run) const {
    return graph_->block_of(program_->instances[run.instance]);
  }

  void check_members(Range<RunId> runs, Findings& findings) const {
    for (const RunId id : runs) {
      const Run& run = program_->order[id];
      const Actor& actor = at(block_of(run).actors, run.first_actor);
      findings.expect(actor.communication.has_value(), "L2",
                      "program '{}', run {}: '{}' is in a launch group, but communicates nothing",
                      program_->name, id, actor.name);
    }
  }

  // Runs of a group start before any of them has written.
  void check_data(Range<RunId> runs, Findings& findings) const {
    std::set<Place> written;
    for (const RunId i : runs) {
      const Run& run = program_->order[i];
      for (std::int32_t actor = run.first_actor; actor < run.first_actor + run.num_actors; ++actor)
        for (const std::int32_t reg : at(block_of(run).actors, actor).out)
          written.insert({run.instance.value, reg});
    }
    for (const RunId i : runs) {
      const Run& run = program_->order[i];
      for (std::int32_t actor = run.first_actor; actor < run.first_actor + run.num_actors; ++actor)
        for (const Operand& operand : at(block_of(run).actors, actor).in)
          findings.expect(written.count(source_of(run.instance, operand)) == 0, "L3",
                          "program '{}', run {}: '{}' reads what its own launch group writes",
                          program_->name, i, at(block_of(run).actors, actor).name);
    }
  }

  Place source_of(InstanceId instance, const Operand& operand) const {
    if (operand.source == Operand::Source::kRegister) return {instance.value, operand.index};
    for (const Link& link : program_->links)
      if (link.to == instance && link.to_port == operand.index)
        return {link.from.value, link.from_register};
    return {-1, -1};
  }

  void check_guards(Findings& findings) const {
    for (const Guard& guard : program_->guards) {
      const LaunchGroupId group = program_->order[guard.later].launch_group;
      findings.expect(guard.lag == 1 || !group.is_valid() ||
                          program_->order[guard.earlier].launch_group != group,
                      "L4", "program '{}': run {} is guarded by run {} of its own launch group",
                      program_->name, guard.later.value, guard.earlier.value);
    }
  }

  const PhysicalGraph* graph_;
  const RankProgram* program_;
};

}  // namespace

void check_launch_groups(const PhysicalGraph& graph, Findings& findings) {
  for (const RankProgram& program : graph.programs) {
    const bool has_groups = std::any_of(program.order.begin(), program.order.end(),
                                        [](const Run& run) { return run.launch_group.is_valid(); });
    if (has_groups) GroupChecker(graph, program).check(findings);
  }
}

}  // namespace sextant::validator
