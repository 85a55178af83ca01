// Matches the table of fused kinds against the staged graph and rebuilds its list of operators.
#include "compiler/words/fusion.h"

#include "core/base/at.h"
#include "core/graphs/fused_kinds.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant {
namespace {

bool contains(const std::vector<StagedTensorId>& tensors, StagedTensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

bool is_gradient(Phase phase) { return phase == Phase::kInputGrad || phase == Phase::kWeightGrad; }

using ChainId = Id<struct ChainTag>;
struct Chain {
  const FusedKind* kind = nullptr;
  std::vector<StagedOpId> ops;
  // Siblings may stand in another order than the kind names them in.
  StagedOpId last() const { return *std::max_element(ops.begin(), ops.end()); }
};

// A fused kind with its members, which the table counts anew each time.
struct KindLinks {
  const FusedKind* kind = nullptr;
  std::span<const FusedKind::Link> links;
};
using Readers = Table<StagedTensorId, std::vector<StagedOpId>>;
using ChainOfOp = Table<StagedOpId, ChainId>;

Phase phase_of(const StagedGraph& graph, const Chain& chain) {
  const bool is_for_input = std::any_of(chain.ops.begin(), chain.ops.end(), [&](StagedOpId index) {
    return graph.ops[index].phase == Phase::kInputGrad;
  });
  return is_for_input ? Phase::kInputGrad : graph.ops[chain.last()].phase;
}

// Whether the operators of a kind are there and may act together. Borrows all of it; `chain_of` may
// change between two questions.
class ChainMatcher {
 public:
  ChainMatcher(const StagedGraph& graph, const Readers& readers, const ChainOfOp& chain_of)
      : graph_(graph), readers_(readers), chain_of_(chain_of) {}

  // Empty when no chain of the kind begins with the operator, which is of the kind of its first
  // link.
  std::vector<StagedOpId> match(StagedOpId first, const KindLinks& kind) const {
    if (!may_join(first, first, kind)) return {};
    Chain chain{kind.kind, {first}};
    const auto may_follow = [&](StagedOpId op) { return may_join(op, first, kind); };
    for (std::size_t number = 1; number < kind.links.size(); ++number) {
      const FusedKind::Link& link = kind.links[number];
      const StagedOpId before = chain.ops[link.before(number)];
      const auto next =
          link.shares ? sibling(before, link, may_follow) : next_link(before, link, may_follow);
      if (!next) return {};
      chain.ops.push_back(*next);
    }
    return is_closed(chain) && acts_in_one_phase(chain) ? chain.ops : std::vector<StagedOpId>();
  }

 private:
  template <typename MayJoin>
  std::optional<StagedOpId> sibling(StagedOpId before, const FusedKind::Link& link,
                                    const MayJoin& may_follow) const {
    const auto input = [&](StagedOpId op, int position) { return at(graph_.ops[op].in, position); };
    const StagedTensorId tensor = input(before, *link.shares);
    for (const StagedOpId reader : readers_[tensor])
      if (reader != before && graph_.ops[reader].kind == link.kind && may_follow(reader) &&
          input(reader, link.reads_at) == tensor)
        return reader;
    return std::nullopt;
  }

  template <typename MayJoin>
  std::optional<StagedOpId> next_link(StagedOpId before, const FusedKind::Link& link,
                                      const MayJoin& may_follow) const {
    const StagedTensorId tensor = graph_.ops[before].out.front();
    for (const StagedOpId reader : readers_[tensor]) {
      const StagedOp& op = graph_.ops[reader];
      if (op.kind != link.kind || !may_follow(reader)) continue;
      const auto reads = std::count(op.in.begin(), op.in.end(), tensor);
      const auto position = std::find(op.in.begin(), op.in.end(), tensor) - op.in.begin();
      if (reads == 1 && (link.reads_at == FusedKind::kAnyInput || position == link.reads_at))
        return reader;
    }
    return std::nullopt;
  }

  bool may_join(StagedOpId index, StagedOpId first, const KindLinks& kind) const {
    const StagedOp& op = graph_.ops[index];
    const StagedOp& other = graph_.ops[first];
    const bool is_in_phase =
        op.phase == other.phase ||
        (kind.kind->joins_gradients && is_gradient(op.phase) && is_gradient(other.phase));
    return !chain_of_[index].is_valid() && op.queue == QueueRole::kCompute && op.members.empty() &&
           !op.out.empty() && op.stage == other.stage && op.layer == other.layer && is_in_phase &&
           op.rate == other.rate &&
           std::none_of(op.out.begin(), op.out.end(),
                        [&](StagedTensorId out) { return graph_.tensors[out].is_state; });
  }

  // All members may act when the last one does, in the order of the kind: nobody outside reads
  // their results before, none reads what a later one makes, and no state that they read is updated
  // before.
  bool is_closed(const Chain& chain) const {
    const std::vector<StagedOpId>& ops = chain.ops;
    const StagedOpId last = chain.last();
    const auto is_member = [&](StagedOpId op) {
      return std::find(ops.begin(), ops.end(), op) != ops.end();
    };
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const StagedOpId member = ops[i];
      for (const StagedTensorId in : graph_.ops[member].in) {
        const StagedTensor& tensor = graph_.tensors[in];
        if (tensor.is_state && tensor.producer < last) return false;
        // Siblings act in the order of the kind, wherever they stood.
        if (std::find(ops.begin() + static_cast<std::ptrdiff_t>(i), ops.end(), tensor.producer) !=
            ops.end())
          return false;
      }
      for (const StagedTensorId out : graph_.ops[member].out)
        for (const StagedOpId reader : readers_[out])
          if (!is_member(reader) && reader < last) return false;
    }
    return true;
  }

  // Gradients of weights that go along with gradients for inputs act before their own phase: they
  // read only what those read or make.
  bool acts_in_one_phase(const Chain& chain) const {
    const Phase phase = phase_of(graph_, chain);
    const auto is_of_phase = [&](StagedTensorId tensor) {
      return std::any_of(chain.ops.begin(), chain.ops.end(), [&](StagedOpId index) {
        const StagedOp& op = graph_.ops[index];
        return op.phase == phase && (contains(op.in, tensor) || contains(op.out, tensor));
      });
    };
    return std::all_of(chain.ops.begin(), chain.ops.end(), [&](StagedOpId index) {
      const StagedOp& op = graph_.ops[index];
      return op.phase == phase || std::all_of(op.in.begin(), op.in.end(), is_of_phase);
    });
  }

  const StagedGraph& graph_;
  const Readers& readers_;
  const ChainOfOp& chain_of_;
};

class Fusion {
 public:
  Fusion(StagedGraph graph, const CostModel& cost, Schedule schedule)
      : graph_(std::move(graph)), readers_(graph_.tensors.size()), chain_of_(graph_.ops.size()) {
    for (const FusedKind& kind : fused_kinds())
      if (cost.fuses(kind.kind) && !(kind.joins_gradients && splits_backward(schedule)))
        kinds_[kind.links.front().kind].push_back({&kind, kind.members()});
    if (kinds_.empty()) return;
    for (const StagedOpId op : graph_.ops.keys())
      for (const StagedTensorId in : graph_.ops[op].in) {
        std::vector<StagedOpId>& readers = readers_[in];
        if (readers.empty() || readers.back() != op) readers.push_back(op);
      }
    find_chains();
  }

  StagedGraph run() && {
    if (chains_.empty()) return std::move(graph_);
    StagedGraph fused;
    fused.placements = std::move(graph_.placements);
    fused.tensors = std::move(graph_.tensors);
    fused.micro_batches = graph_.micro_batches;
    fused.chunk_of_layer = std::move(graph_.chunk_of_layer);
    fused.ops.reserve(graph_.ops.size());
    Table<StagedOpId, StagedOpId> new_id(graph_.ops.size());
    for (const StagedOpId op : graph_.ops.keys()) {
      if (!chain_of_[op].is_valid()) {
        new_id[op] = fused.ops.add(std::move(graph_.ops[op]));
        continue;
      }
      const Chain& chain = chains_[chain_of_[op]];
      if (chain.last() != op) continue;
      const StagedOpId whole = fused.ops.add(make_op(chain));
      for (const StagedOpId member : chain.ops) new_id[member] = whole;
    }
    for (StagedTensor& tensor : fused.tensors) tensor.producer = new_id[tensor.producer];
    for (StagedOp& op : fused.ops)
      if (op.communication && op.communication->peer.is_valid())
        op.communication->peer = new_id[op.communication->peer];
    return fused;
  }

 private:
  struct Beginning {
    StagedOpId op;
    const std::vector<KindLinks>* kinds = nullptr;  // whose chains begin with such an operator
  };

  std::vector<Beginning> beginnings() const {
    std::vector<Beginning> found;
    for (const StagedOpId op : graph_.ops.keys()) {
      const auto kinds = kinds_.find(graph_.ops[op].kind);
      if (kinds != kinds_.end()) found.push_back({op, &kinds->second});
    }
    return found;
  }

  // The largest first, wherever they begin: a short one before it may want its members.
  void find_chains() {
    const std::vector<Beginning> all = beginnings();
    for (std::size_t size = FusedKind::kMostLinks; size > 1; --size)
      for (const Beginning& beginning : all) find_chain(beginning, size);
  }

  void find_chain(const Beginning& beginning, std::size_t size) {
    if (chain_of_[beginning.op].is_valid()) return;
    for (const KindLinks& kind : *beginning.kinds) {
      if (kind.links.size() != size) continue;
      const std::vector<StagedOpId> ops =
          ChainMatcher(graph_, readers_, chain_of_).match(beginning.op, kind);
      if (ops.empty()) continue;
      const ChainId chain = chains_.add({kind.kind, ops});
      for (const StagedOpId member : ops) chain_of_[member] = chain;
      return;
    }
  }

  StagedOp make_op(const Chain& chain) const {
    StagedOp fused = graph_.ops[chain.last()];
    fused.phase = phase_of(graph_, chain);
    fused.kind = chain.kind->kind;
    fused.role = OperatorRole::kPlain;
    fused.attributes = {};
    fused.in.clear();
    fused.out.clear();
    std::vector<StagedTensorId> made;
    for (const StagedOpId index : chain.ops) {
      const StagedOp& op = graph_.ops[index];
      fused.members.push_back({op.kind, op.name, op.attributes, op.in, op.out});
      for (const StagedTensorId in : op.in)
        if (!contains(made, in) && !contains(fused.in, in)) fused.in.push_back(in);
      for (const StagedTensorId out : op.out) {
        made.push_back(out);
        (is_inner(chain, out) ? fused.inner : fused.out).push_back(out);
      }
    }
    return fused;
  }

  bool is_inner(const Chain& chain, StagedTensorId tensor) const {
    const std::vector<StagedOpId>& readers = readers_[tensor];
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](StagedOpId reader) {
      return std::find(chain.ops.begin(), chain.ops.end(), reader) != chain.ops.end();
    });
  }

  StagedGraph graph_;
  std::map<std::string_view, std::vector<KindLinks>>
      kinds_;  // that the device has, by their first link
  Readers readers_;
  Table<ChainId, Chain> chains_;
  ChainOfOp chain_of_;
};

}  // namespace

bool fuses_anything(const CostModel& cost) {
  const auto kinds = fused_kinds();
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const FusedKind& kind) { return cost.fuses(kind.kind); });
}

StagedGraph fuse_operators(StagedGraph graph, const CostModel& cost, Schedule schedule) {
  return Fusion(std::move(graph), cost, schedule).run();
}

}  // namespace sextant
