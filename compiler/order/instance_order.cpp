// Topological order of instances; of operators, if there is none.
#include "compiler/order/instance_order.h"

#include "core/base/at.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace sextant {
namespace {

class Orderer {
  // An instance among those that are ordered.
  using MemberId = Id<struct MemberTag>;

 public:
  Orderer(const Partition& partition, std::vector<KeyedInstance> members)
      : partition_(partition), members_(std::move(members)) {
    std::sort(members_.begin(), members_.end());
    StagedOpId last;
    for (const KeyedInstance& member : members_)
      for (const StagedOpId op : ops(member)) last = std::max(last, op);
    member_of_.resize(last.plus(1).index());
    for (const MemberId member : members_.keys())
      for (const StagedOpId op : ops(members_[member])) member_of_[op] = member;
  }

  std::vector<StagedOpId> order() {
    std::vector<StagedOpId> done = whole_instances();
    if (!done.empty()) return done;
    const bool is_late =
        std::all_of(members_.begin(), members_.end(), [&](const KeyedInstance& member) {
          return partition_.instances()[member.instance].part == StepPart::kLate;
        });
    return is_late ? by_generation() : taking_turns();
  }

 private:
  const std::vector<StagedOpId>& ops(const KeyedInstance& member) const {
    return partition_.instances()[member.instance].ops;
  }

  // Who makes an input; none: none of the members, or state.
  MemberId maker(StagedTensorId in) const {
    const StagedTensor& tensor = partition_.graph().tensors[in];
    return tensor.is_state ? MemberId::none : member_of(tensor.producer);
  }

  MemberId member_of(StagedOpId op) const {
    return member_of_.contains(op) ? member_of_[op] : MemberId::none;
  }

  // The members that a tensor from another stage goes back to.
  const std::vector<MemberId>& makers_elsewhere(StagedTensorId in) {
    static const std::vector<MemberId> none;
    const StagedTensor& tensor = partition_.graph().tensors[in];
    if (tensor.is_state || !partition_.is_receive(tensor.producer)) return none;
    const auto [found, is_new] = senders_.try_emplace(tensor.producer);
    if (is_new) found->second = find_senders(tensor.producer);
    return found->second;
  }

  // Backwards over the operators of a step, until one of a member.
  std::vector<MemberId> find_senders(StagedOpId receive) const {
    const StagedGraph& graph = partition_.graph();
    std::vector<MemberId> senders;
    Table<StagedOpId, bool> seen(graph.ops.size(), false);
    std::vector<StagedOpId> open = {receive};
    const auto visit = [&](StagedOpId op) {
      if (seen[op] || graph.ops[op].rate != Rate::kPerStep) return;
      seen[op] = true;
      const MemberId member = member_of(op);
      if (member.is_valid())
        senders.push_back(member);
      else
        open.push_back(op);
    };
    while (!open.empty()) {
      const StagedOpId op = open.back();
      open.pop_back();
      if (partition_.is_receive(op)) visit(graph.ops[op].communication->peer);
      for (const StagedTensorId in : graph.ops[op].in)
        if (!graph.tensors[in].is_state) visit(graph.tensors[in].producer);
    }
    return senders;
  }

  // Empty when the instances wait for each other.
  std::vector<StagedOpId> whole_instances() {
    Table<MemberId, std::vector<MemberId>> readers(members_.size());
    Table<MemberId, std::int32_t> missing(members_.size(), 0);
    for (const MemberId own : members_.keys()) {
      const auto depend_on = [&](MemberId from) {
        auto& known = readers[from];
        if (std::find(known.begin(), known.end(), own) != known.end()) return;
        known.push_back(own);
        ++missing[own];
      };
      for (const StagedOpId op : ops(members_[own]))
        for (const StagedTensorId in : partition_.graph().ops[op].in) {
          const MemberId from = maker(in);
          if (from.is_valid() && from != own) depend_on(from);
          // What comes back from other stages may be made of what the instance itself sends: it
          // waits for itself, and is no whole.
          for (const MemberId sender : makers_elsewhere(in)) depend_on(sender);
        }
    }
    constexpr std::int32_t kDone = -1;
    std::vector<StagedOpId> done;
    for (std::size_t turn = 0; turn < members_.size(); ++turn) {
      const auto found = std::find(missing.begin(), missing.end(), 0);
      if (found == missing.end()) return {};
      const MemberId next = missing.key_of(found);
      missing[next] = kDone;
      for (const MemberId reader : readers[next]) --missing[reader];
      done.insert(done.end(), ops(members_[next]).begin(), ops(members_[next]).end());
    }
    return done;
  }

  // What an operator needs is of its own instance, which keeps its order, or of an older
  // generation.
  std::vector<StagedOpId> by_generation() const {
    std::vector<StagedOpId> done;
    for (const KeyedInstance& member : members_)
      done.insert(done.end(), ops(member).begin(), ops(member).end());
    std::stable_sort(done.begin(), done.end(), [&](StagedOpId a, StagedOpId b) {
      return partition_.generation(a) < partition_.generation(b);
    });
    return done;
  }

  // The operator that comes first in the staged graph, among those whose instance has come to them.
  // That one exists: all it needs comes before it, and what its instance puts before it are
  // collectives of what the instance itself made.
  std::vector<StagedOpId> taking_turns() {
    Table<MemberId, std::size_t> next(members_.size(), 0);
    std::vector<StagedOpId> done;
    while (true) {
      std::optional<MemberId> first;
      for (const MemberId i : members_.keys()) {
        if (next[i] == ops(members_[i]).size()) continue;
        const StagedOpId own = ops(members_[i])[next[i]];
        const auto& in = partition_.graph().ops[own].in;
        const bool ready = std::none_of(
            in.begin(), in.end(), [&](StagedTensorId input) { return maker(input).is_valid(); });
        if (ready && (!first || own < ops(members_[*first])[next[*first]])) first = i;
      }
      if (!first) return done;
      done.push_back(ops(members_[*first])[next[*first]++]);
      member_of_[done.back()] = MemberId::none;  // no longer missing
    }
  }

  const Partition& partition_;
  Table<MemberId, KeyedInstance> members_;               // by what decides
  Table<StagedOpId, MemberId> member_of_;                // up to the last operator of a member
  std::map<StagedOpId, std::vector<MemberId>> senders_;  // by receive half
};

}  // namespace

std::vector<StagedOpId> ops_in_order(const Partition& partition,
                                     std::vector<KeyedInstance> members) {
  return Orderer(partition, std::move(members)).order();
}

}  // namespace sextant
