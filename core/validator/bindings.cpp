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

void check_rank(const PhysicalGraph& graph, std::size_t rank, Findings& findings) {
  const RankBinding& binding = graph.ranks[rank];
  const RankProgram& program = graph.programs[binding.program.index()];
  const std::vector<Rank>& devices = graph.placements[program.placement.index()].ranks;
  const auto position = static_cast<std::size_t>(binding.index_in_placement);
  findings.expect(binding.index_in_placement >= 0 && position < devices.size() &&
                      devices[position] == Rank(rank),
                  "G3", "rank {} is not at position {} of the placement of program '{}'", rank,
                  binding.index_in_placement, program.name);
  findings.expect(binding.groups.size() == static_cast<std::size_t>(program.num_group_roles), "G4",
                  "rank {} has groups for {} roles, program '{}' has {}", rank,
                  binding.groups.size(), program.name, program.num_group_roles);
  std::vector<GroupId> groups = binding.groups;
  std::sort(groups.begin(), groups.end());
  findings.expect(std::adjacent_find(groups.begin(), groups.end()) == groups.end(), "G5",
                  "rank {} has one group in two roles", rank);
}

// Both ways: who names a group is in it, who is in it names it.
void check_membership(const PhysicalGraph& graph, Findings& findings) {
  std::vector<std::vector<Rank>> naming(graph.groups.size());
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank)
    for (const GroupId group : graph.ranks[rank].groups) {
      std::vector<Rank>& named = naming[group.index()];
      if (named.empty() || named.back() != Rank(rank)) named.push_back(Rank(rank));
    }
  for (std::size_t i = 0; i < graph.groups.size(); ++i) {
    std::vector<Rank> members = graph.groups[i].ranks;
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    findings.expect(members == naming[i], "G6",
                    "group '{}' has {} ranks, but is named by {} or by others",
                    graph.groups[i].name, members.size(), naming[i].size());
  }
}

void check_programs(const PhysicalGraph& graph, Findings& findings) {
  std::vector<bool> has_rank(graph.programs.size(), false);
  for (const RankBinding& binding : graph.ranks) has_rank[binding.program.index()] = true;
  for (std::size_t program = 0; program < has_rank.size(); ++program)
    findings.expect(has_rank[program], "G7", "no rank runs program '{}'",
                    graph.programs[program].name);
}

}  // namespace

void check_bindings(const PhysicalGraph& graph, Findings& findings) {
  check_groups(graph, findings);
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) check_rank(graph, rank, findings);
  check_membership(graph, findings);
  check_programs(graph, findings);
}

}  // namespace sextant::validator
