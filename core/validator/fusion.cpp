// Rules F: the members of a fused actor are a group of the table, and together they read its inputs
// and write its outputs.
#include "core/graphs/fused_kinds.h"
#include "core/validator/findings.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace sextant::validator {
namespace {

using Source = ActorMember::Operand::Source;

class FusedActor {
 public:
  FusedActor(const Block& block, const Actor& actor, Findings& findings)
      : block_(block),
        actor_(actor),
        findings_(findings),
        is_read_{std::vector<bool>(actor.in.size()), std::vector<bool>(actor.out.size()),
                 std::vector<bool>(actor.inner.size())},
        is_written_(is_read_) {}

  void check() {
    check_kind();
    check_place();
    for (const ActorMember& member : actor_.members) check_member(member);
    for (std::size_t i = 0; i < actor_.in.size(); ++i)
      findings_.expect(is_read_[0][i], "F5", "block '{}': no member of '{}' reads its input {}",
                       block_.name, actor_.name, i);
    for (std::size_t i = 0; i < actor_.out.size(); ++i)
      findings_.expect(is_written_[1][i], "F6",
                       "block '{}': no member of '{}' writes its output {}", block_.name,
                       actor_.name, i);
    for (std::size_t i = 0; i < actor_.inner.size(); ++i)
      findings_.expect(is_written_[2][i] && is_read_[2][i], "F7",
                       "block '{}': the members of '{}' do not both write and read '{}'",
                       block_.name, actor_.name, actor_.inner[i].name);
  }

 private:
  void check_kind() {
    const FusedKind* fused = find_fused_kind(actor_.kind);
    const auto is_link = [](const ActorMember& member, const FusedKind::Link& link) {
      return member.kind == link.kind;
    };
    const bool agrees =
        fused != nullptr && std::equal(actor_.members.begin(), actor_.members.end(),
                                       fused->members().begin(), fused->members().end(), is_link);
    std::string kinds;
    for (const ActorMember& member : actor_.members)
      kinds += (kinds.empty() ? "" : ", ") + member.kind;
    if (findings_.expect(agrees, "F1", "block '{}': '{}' of kind {} has the members {}",
                         block_.name, actor_.name, actor_.kind, kinds))
      check_siblings(*fused);
  }

  void check_siblings(const FusedKind& fused) {
    const auto links = fused.members();
    for (std::size_t i = 1; i < links.size(); ++i) {
      if (!links[i].shares) continue;
      const ActorMember &before = actor_.members[links[i].before(i)], &member = actor_.members[i];
      const std::size_t there = at(*links[i].shares);
      const std::size_t here = at(links[i].reads_at);
      findings_.expect(there < before.in.size() && here < member.in.size() &&
                           before.in[there] == member.in[here],
                       "F11",
                       "block '{}': members '{}' and '{}' of '{}' do not read one tensor as their "
                       "inputs {} and {}",
                       block_.name, before.name, member.name, actor_.name, there, here);
    }
  }

  void check_place() {
    const bool has_state = std::any_of(actor_.out.begin(), actor_.out.end(), [&](std::int32_t reg) {
      return at(block_.frames, at(block_.registers, reg).frame).initially_full;
    });
    findings_.expect(actor_.queue == QueueRole::kCompute && !actor_.communication &&
                         !actor_.in_place && !has_state,
                     "F2",
                     "block '{}': '{}' has members, so it computes, keeps no state and takes over "
                     "no bytes",
                     block_.name, actor_.name);
  }

  void check_member(const ActorMember& member) {
    for (const ActorMember::Operand& operand : member.in) {
      const auto table = static_cast<std::size_t>(operand.source);
      const auto index = static_cast<std::size_t>(operand.index);
      findings_.expect(operand.source == Source::kInput || is_written_[table][index], "F3",
                       "block '{}': member '{}' of '{}' reads what no member before it wrote",
                       block_.name, member.name, actor_.name);
      is_read_[table][index] = true;
      if (operand.source == Source::kOutput) check_whole(member, operand.index);
    }
    for (const ActorMember::Operand& operand : member.out) {
      const auto table = static_cast<std::size_t>(operand.source);
      const auto index = static_cast<std::size_t>(operand.index);
      findings_.expect(operand.source != Source::kInput && !is_written_[table][index], "F4",
                       "block '{}': member '{}' of '{}' writes an input, or what another one wrote",
                       block_.name, member.name, actor_.name);
      is_written_[table][index] = true;
    }
  }

  void check_whole(const ActorMember& member, std::int32_t output) {
    const std::int32_t frame = at(block_.registers, at(actor_.out, output)).frame;
    findings_.expect(at(block_.frames, frame).acts_per_content == 1, "F8",
                     "block '{}': member '{}' of '{}' reads output {}, a sum over several acts",
                     block_.name, member.name, actor_.name, output);
  }

  const Block& block_;
  const Actor& actor_;
  Findings& findings_;
  std::array<std::vector<bool>, 3> is_read_, is_written_;  // by Source
};

}  // namespace

void check_fusion(const PhysicalGraph& graph, Findings& findings) {
  for (const Block& block : graph.blocks)
    for (const Actor& actor : block.actors) {
      if (!actor.members.empty()) FusedActor(block, actor, findings).check();
      findings.expect(
          !actor.members.empty() || (actor.inner.empty() && find_fused_kind(actor.kind) == nullptr),
          "F9", "block '{}': '{}' of the fused kind {} has no members", block.name, actor.name,
          actor.kind);
      for (const InnerTensor& inner : actor.inner)
        findings.expect(inner.local.dtype == graph.layouts[inner.layout].global.dtype, "F10",
                        "block '{}': '{}' inside '{}' is {}, its layout {}", block.name, inner.name,
                        actor.name, to_string(inner.local.dtype),
                        to_string(graph.layouts[inner.layout].global.dtype));
    }
}

}  // namespace sextant::validator
