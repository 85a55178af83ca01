// Rules G: ranks, the programs they run and the groups they are in.
#include "core/validator/findings.h"

#include <algorithm>

namespace sextant::validator {
namespace {

void check_groups(const PhysicalGraph& graph, Findings& findings) {
  for (const DeviceGroup& group : graph.groups) {
    std::vector<Rank> ranks = group.ranks;
    std::sort(ranks.begin(), ranks.end());
    findings.expect(std::adjacent_find(ranks.begin(), ranks.end()) == ranks.end(), "G1",
                    "group '{}' holds a rank twice", group.name);
    findings.expect(!ranks.empty(), "G2", "group '{}' is empty", group.name);
  }
}

void check_rank(const PhysicalGraph& graph, Rank rank, Findings& findings) {
  const RankBinding& binding = graph.ranks[rank];
  const RankProgram& program = graph.programs[binding.program];
  const std::vector<Rank>& devices = graph.placements[program.placement].ranks;
  const std::size_t position = at(binding.index_in_placement);
  findings.expect(
      binding.index_in_placement >= 0 && position < devices.size() && devices[position] == rank,
      "G3", "rank {} is not at position {} of the placement of program '{}'", rank,
      binding.index_in_placement, program.name);
  findings.expect(binding.groups.size() == at(program.num_group_roles), "G4",
                  "rank {} has groups for {} roles, program '{}' has {}", rank,
                  binding.groups.size(), program.name, program.num_group_roles);
  std::vector<GroupId> groups = binding.groups;
  std::sort(groups.begin(), groups.end());
  findings.expect(std::adjacent_find(groups.begin(), groups.end()) == groups.end(), "G5",
                  "rank {} has one group in two roles", rank);
}

// Both ways: who names a group is in it, who is in it names it.
void check_membership(const PhysicalGraph& graph, Findings& findings) {
  Table<GroupId, std::vector<Rank>> naming(graph.groups.size());
  for (const Rank rank : graph.ranks.keys())
    for (const GroupId group : graph.ranks[rank].groups) {
      std::vector<Rank>& named = naming[group];
      if (named.empty() || named.back() != rank) named.push_back(rank);
    }
  for (const GroupId i : graph.groups.keys()) {
    std::vector<Rank> members = graph.groups[i].ranks;
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    findings.expect(members == naming[i], "G6",
                    "group '{}' has {} ranks, but is named by {} or by others",
                    graph.groups[i].name, members.size(), naming[i].size());
  }
}

void check_programs(const PhysicalGraph& graph, Findings& findings) {
  Table<ProgramId, bool> has_rank(graph.programs.size(), false);
  for (const RankBinding& binding : graph.ranks) has_rank[binding.program] = true;
  for (const ProgramId program : graph.programs.keys())
    findings.expect(has_rank[program], "G7", "no rank runs program '{}'",
                    graph.programs[program].name);
}

}  // namespace

void check_bindings(const PhysicalGraph& graph, Findings& findings) {
  check_groups(graph, findings);
  for (const Rank rank : graph.ranks.keys()) check_rank(graph, rank, findings);
  check_membership(graph, findings);
  check_programs(graph, findings);
}

}  // namespace sextant::validator
