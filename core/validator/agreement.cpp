// Rules A: the members of a group issue the same communications in the same order (invariant 8).
#include "core/graphs/meeting_members.h"
#include "core/validator/findings.h"

#include <map>
#include <optional>
#include <set>

namespace sextant::validator {
namespace {

// The communications of one group role of a program, in issue order.
using Sequence = std::vector<const Communication*>;

std::vector<Sequence> sequences_of(const PhysicalGraph& graph, const RankProgram& program) {
  std::vector<Sequence> sequences(at(program.num_group_roles));
  for (const Run& run : program.order) {
    const Block& block = graph.block_of(program.instances[run.instance]);
    for (std::int32_t actor = run.first_actor; actor < run.first_actor + run.num_actors; ++actor) {
      const auto& communication = at(block.actors, actor).communication;
      if (communication) at(sequences, communication->group).push_back(&*communication);
    }
  }
  return sequences;
}

// Position of the first difference; nothing when equal.
std::optional<std::size_t> first_difference(const PhysicalGraph& graph, const Sequence& a,
                                            const Sequence& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i] && !are_same(graph, *a[i], *b[i])) return i;
  return std::nullopt;
}

// A role of a program.
using ClassMember = std::pair<ProgramId, std::size_t>;

class AgreementChecker {
 public:
  explicit AgreementChecker(const PhysicalGraph& graph) : graph_(&graph) {
    for (const RankProgram& program : graph.programs)
      sequences_.push_back(sequences_of(graph, program));
  }

  void check(Findings& findings) {
    Table<GroupId, std::set<ClassMember>> members(graph_->groups.size());
    for (const RankBinding& binding : graph_->ranks)
      for (std::size_t role = 0; role < binding.groups.size(); ++role)
        members[binding.groups[role]].insert({binding.program, role});
    // Groups of equal members need to be compared once.
    std::set<std::set<ClassMember>> checked;
    for (const GroupId group : members.keys())
      if (checked.insert(members[group]).second)
        check_group(graph_->groups[group].name, members[group], findings);
  }

 private:
  const Sequence& sequence(const ClassMember& member) const {
    return sequences_[member.first][member.second];
  }
  const std::string& program_name(const ClassMember& member) const {
    return graph_->programs[member.first].name;
  }

  void check_group(const std::string& name, const std::set<ClassMember>& members,
                   Findings& findings) {
    if (members.empty()) return;
    const ClassMember& first = *members.begin();
    for (const ClassMember& other : members) {
      const Sequence& mine = sequence(first);
      const Sequence& theirs = sequence(other);
      findings.expect(mine.size() == theirs.size(), "A1",
                      "group '{}': program '{}' issues {} communications, program '{}' {}", name,
                      program_name(first), mine.size(), program_name(other), theirs.size());
      const auto difference = first_difference(*graph_, mine, theirs);
      findings.expect(!difference, "A2",
                      "group '{}': programs '{}' and '{}' differ in communication {}", name,
                      program_name(first), program_name(other), difference.value_or(0));
    }
    check_sides(name, members, findings);
  }

  // Each transfer has somebody who sends and somebody who receives.
  void check_sides(const std::string& name, const std::set<ClassMember>& members,
                   Findings& findings) {
    for (std::size_t i = 0; i < sequence(*members.begin()).size(); ++i) {
      bool is_transfer = false, sends = false, receives = false;
      for (const ClassMember& member : members) {
        if (i >= sequence(member).size()) return;
        const Communication& communication = *sequence(member)[i];
        is_transfer |= communication.primitive == Primitive::kTransfer;
        sends |= communication.side != Side::kReceive;
        receives |= communication.side != Side::kSend;
      }
      findings.expect(!is_transfer || (sends && receives), "A3",
                      "group '{}': nobody {} in transfer {}", name, sends ? "receives" : "sends",
                      i);
    }
  }

  const PhysicalGraph* graph_;
  Table<ProgramId, std::vector<Sequence>> sequences_;  // by role
};

}  // namespace

void check_agreement(const PhysicalGraph& graph, Findings& findings) {
  AgreementChecker(graph).check(findings);
}

}  // namespace sextant::validator
