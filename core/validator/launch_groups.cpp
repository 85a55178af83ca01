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
    std::set<std::int32_t> seen;
    const std::vector<Run>& order = program_->order;
    for (std::size_t first = 0; first < order.size();) {
      std::size_t end = first + 1;
      const std::int32_t group = order[first].launch_group;
      while (group >= 0 && end < order.size() && order[end].launch_group == group) ++end;
      if (group >= 0) {
        findings.expect(seen.insert(group).second, "L1",
                        "program '{}': the runs of launch group {} are no neighbours",
                        program_->name, group);
        check_members(first, end, findings);
        check_data(first, end, findings);
      }
      first = end;
    }
    check_guards(findings);
  }

 private:
  const Block& block_of(const Run& run) const {
    return graph_->block_of(program_->instances[run.instance.index()]);
  }

  void check_members(std::size_t first, std::size_t end, Findings& findings) const {
    for (std::size_t run = first; run < end; ++run) {
      const Actor& actor =
          at(block_of(program_->order[run]).actors, program_->order[run].first_actor);
      findings.expect(actor.communication.has_value(), "L2",
                      "program '{}', run {}: '{}' is in a launch group, but communicates nothing",
                      program_->name, run, actor.name);
    }
  }

  // Runs of a group start before any of them has written.
  void check_data(std::size_t first, std::size_t end, Findings& findings) const {
    std::set<Place> written;
    for (std::size_t i = first; i < end; ++i) {
      const Run& run = program_->order[i];
      for (std::int32_t actor = run.first_actor; actor < run.first_actor + run.num_actors; ++actor)
        for (const std::int32_t reg : at(block_of(run).actors, actor).out)
          written.insert({run.instance.value, reg});
    }
    for (std::size_t i = first; i < end; ++i) {
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
      const std::int32_t group = program_->order[guard.later.index()].launch_group;
      findings.expect(guard.lag == 1 || group < 0 ||
                          program_->order[guard.earlier.index()].launch_group != group,
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
                                        [](const Run& run) { return run.launch_group >= 0; });
    if (has_groups) GroupChecker(graph, program).check(findings);
  }
}

}  // namespace sextant::validator
