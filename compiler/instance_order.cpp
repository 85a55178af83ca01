// Topological order of instances; of operators, if there is none.
#include "compiler/instance_order.h"

#include "compiler/at.h"

#include <algorithm>
#include <optional>

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
    return done.empty() ? taking_turns() : done;
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

  // Empty when the instances wait for each other.
  std::vector<StagedOpIndex> whole_instances() const {
    std::vector<std::vector<std::int32_t>> readers(members_.size());
    std::vector<std::int32_t> missing(members_.size(), 0);
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const auto own = static_cast<std::int32_t>(i);
      for (const StagedOpIndex op : ops(members_[i]))
        for (const StagedTensorIndex in : at(partition_.graph().ops, op).in) {
          const std::int32_t from = maker(in);
          if (from < 0 || from == own) continue;
          auto& known = at(readers, from);
          if (std::find(known.begin(), known.end(), own) != known.end()) continue;
          known.push_back(own);
          ++missing[i];
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
  std::vector<std::int32_t> position_of_;  // by operator
};

}  // namespace

std::vector<StagedOpIndex> ops_in_order(const Partition& partition,
                                        std::vector<KeyedInstance> members) {
  return Orderer(partition, std::move(members)).order();
}

}  // namespace sextant
