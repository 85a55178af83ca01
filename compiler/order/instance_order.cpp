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
 public:
  Orderer(const Partition& partition, std::vector<KeyedInstance> members)
      : partition_(partition), members_(std::move(members)) {
    std::sort(members_.begin(), members_.end());
    for (const KeyedInstance& member : members_)
      for (const StagedOpIndex op : ops(member)) last_op_ = std::max(last_op_, op);
    position_of_.assign(static_cast<std::size_t>(last_op_) + 1, -1);
    for (std::size_t i = 0; i < members_.size(); ++i)
      for (const StagedOpIndex op : ops(members_[i]))
        at(position_of_, op) = static_cast<std::int32_t>(i);
  }

  std::vector<StagedOpIndex> order() {
    std::vector<StagedOpIndex> done = whole_instances();
    if (!done.empty()) return done;
    const bool is_late =
        std::all_of(members_.begin(), members_.end(), [&](const KeyedInstance& member) {
          return at(partition_.instances(), member.instance).part == StepPart::kLate;
        });
    return is_late ? by_generation() : taking_turns();
  }

 private:
  const std::vector<StagedOpIndex>& ops(const KeyedInstance& member) const {
    return at(partition_.instances(), member.instance).ops;
  }

  // Position among the members of who makes an input, -1: none of them, or state.
  std::int32_t maker(StagedTensorIndex in) const {
    const StagedTensor& tensor = at(partition_.graph().tensors, in);
    return tensor.is_state || tensor.producer > last_op_ ? -1 : at(position_of_, tensor.producer);
  }

  // Positions of the members that a tensor from another stage goes back to.
  const std::vector<std::int32_t>& makers_elsewhere(StagedTensorIndex in) {
    static const std::vector<std::int32_t> none;
    const StagedTensor& tensor = at(partition_.graph().tensors, in);
    if (tensor.is_state || !partition_.is_receive(tensor.producer)) return none;
    const auto [found, is_new] = senders_.try_emplace(tensor.producer);
    if (is_new) found->second = find_senders(tensor.producer);
    return found->second;
  }

  // Backwards over the operators of a step, until one of a member.
  std::vector<std::int32_t> find_senders(StagedOpIndex receive) const {
    const StagedGraph& graph = partition_.graph();
    std::vector<std::int32_t> senders;
    std::vector<bool> seen(graph.ops.size(), false);
    std::vector<StagedOpIndex> open = {receive};
    const auto visit = [&](StagedOpIndex op) {
      if (seen[static_cast<std::size_t>(op)] || at(graph.ops, op).rate != Rate::kPerStep) return;
      seen[static_cast<std::size_t>(op)] = true;
      const std::int32_t member = op > last_op_ ? -1 : at(position_of_, op);
      if (member < 0)
        open.push_back(op);
      else
        senders.push_back(member);
    };
    while (!open.empty()) {
      const StagedOpIndex op = open.back();
      open.pop_back();
      if (partition_.is_receive(op)) visit(at(graph.ops, op).communication->peer);
      for (const StagedTensorIndex in : at(graph.ops, op).in)
        if (!at(graph.tensors, in).is_state) visit(at(graph.tensors, in).producer);
    }
    return senders;
  }

  // Empty when the instances wait for each other.
  std::vector<StagedOpIndex> whole_instances() {
    std::vector<std::vector<std::int32_t>> readers(members_.size());
    std::vector<std::int32_t> missing(members_.size(), 0);
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const auto own = static_cast<std::int32_t>(i);
      const auto depend_on = [&](std::int32_t from) {
        auto& known = at(readers, from);
        if (std::find(known.begin(), known.end(), own) != known.end()) return;
        known.push_back(own);
        ++missing[i];
      };
      for (const StagedOpIndex op : ops(members_[i]))
        for (const StagedTensorIndex in : at(partition_.graph().ops, op).in) {
          const std::int32_t from = maker(in);
          if (from >= 0 && from != own) depend_on(from);
          // What comes back from other stages may be made of what the instance itself sends: it
          // waits for itself, and is no whole.
          for (const std::int32_t sender : makers_elsewhere(in)) depend_on(sender);
        }
    }
    std::vector<StagedOpIndex> done;
    for (std::size_t turn = 0; turn < members_.size(); ++turn) {
      const auto next = std::find(missing.begin(), missing.end(), 0) - missing.begin();
      if (next == static_cast<std::ptrdiff_t>(members_.size())) return {};
      const auto index = static_cast<std::size_t>(next);
      missing[index] = -1;
      for (const std::int32_t reader : readers[index]) --at(missing, reader);
      done.insert(done.end(), ops(members_[index]).begin(), ops(members_[index]).end());
    }
    return done;
  }

  // What an operator needs is of its own instance, which keeps its order, or of an older
  // generation.
  std::vector<StagedOpIndex> by_generation() const {
    std::vector<StagedOpIndex> done;
    for (const KeyedInstance& member : members_)
      done.insert(done.end(), ops(member).begin(), ops(member).end());
    std::stable_sort(done.begin(), done.end(), [&](StagedOpIndex a, StagedOpIndex b) {
      return partition_.generation(a) < partition_.generation(b);
    });
    return done;
  }

  // The operator that comes first in the staged graph, among those whose instance has come to them.
  // That one exists: all it needs comes before it, and what its instance puts before it are
  // collectives of what the instance itself made.
  std::vector<StagedOpIndex> taking_turns() {
    std::vector<std::size_t> next(members_.size(), 0);
    std::vector<StagedOpIndex> done;
    while (true) {
      std::optional<std::size_t> first;
      for (std::size_t i = 0; i < members_.size(); ++i) {
        if (next[i] == ops(members_[i]).size()) continue;
        const StagedOpIndex own = ops(members_[i])[next[i]];
        const auto& in = at(partition_.graph().ops, own).in;
        const bool ready = std::none_of(in.begin(), in.end(),
                                        [&](StagedTensorIndex input) { return maker(input) >= 0; });
        if (ready && (!first || own < ops(members_[*first])[next[*first]])) first = i;
      }
      if (!first) return done;
      done.push_back(ops(members_[*first])[next[*first]++]);
      at(position_of_, done.back()) = -1;  // no longer missing
    }
  }

  const Partition& partition_;
  std::vector<KeyedInstance> members_;  // by key
  StagedOpIndex last_op_ = -1;
  std::vector<std::int32_t> position_of_;                       // by operator
  std::map<StagedOpIndex, std::vector<std::int32_t>> senders_;  // by receive half
};

}  // namespace

std::vector<StagedOpIndex> ops_in_order(const Partition& partition,
                                        std::vector<KeyedInstance> members) {
  return Orderer(partition, std::move(members)).order();
}

}  // namespace sextant
