// Copies the graph operator by operator and puts a ring where attention was.
#include "compiler/training/context_parallel.h"

#include "compiler/training/autodiff.h"
#include "core/base/check.h"
#include "core/base/divisors.h"
#include "core/base/nearest.h"
#include "core/graphs/graph_rewriter.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr std::int64_t kDimOfSequence = 1;

class Rings {
 public:
  Rings(const LogicalGraph& original, std::int64_t chunks)
      : original_(original), chunks_(chunks), rewriter_(original) {}

  LogicalGraph run() {
    for (std::size_t index = 0; index < original_.ops().size(); ++index) {
      const LogicalOp& op = original_.op(OpId(index));
      if (op.role == OperatorRole::kAttention)
        add_forward(op);
      else if (op.role == OperatorRole::kAttentionGradient)
        add_backward(op);
      else
        rewriter_.copy(OpId(index));
    }
    return std::move(rewriter_).finish();
  }

 private:
  // Keys or values, or their gradients, on their way round.
  struct Traveller {
    TensorId now;
    std::string name;
  };

  LogicalGraph& graph() { return rewriter_.graph(); }
  TensorId copy_of(TensorId tensor) const { return rewriter_.copied(tensor); }
  const TensorType& type(TensorId tensor) const { return rewriter_.graph().tensor(tensor).type; }

  std::vector<TensorId> add(const LogicalOp& origin, std::string kind, const std::string& name,
                            std::vector<TensorId> inputs, Attributes attributes = {}) {
    const OpId id =
        rewriter_.add_part(origin, std::move(kind), unused_name(graph(), name), std::move(inputs),
                           std::move(attributes), repeated_part(origin));
    parts_[origin.name].push_back(id);
    return graph().op(id).outputs;
  }

  // The operator of a ring that the next one of the same ring repeats.
  std::optional<OpId> repeated_part(const LogicalOp& origin) const {
    if (!origin.recompute_of) return std::nullopt;
    const auto own = parts_.find(origin.name);
    const std::size_t next = own == parts_.end() ? 0 : own->second.size();
    return parts_.at(original_.op(*origin.recompute_of).name).at(next);
  }

  // Positions of a chunk.
  std::int64_t chunk_of(const LogicalOp& op) const {
    const std::int64_t sequence = type(copy_of(op.inputs[0])).shape[kDimOfSequence];
    const std::int64_t keys = type(copy_of(op.inputs[1])).shape[kDimOfSequence];
    require(keys == sequence, ErrorCode::kInfeasible,
            "operator '{}' ({}) has {} queries and {} keys: cp_mode=ring needs as many, "
            "cp_mode=a2a does not",
            op.name, op.kind, sequence, keys);
    if (sequence % chunks_ != 0) refuse_sequence(op, sequence);
    return sequence / chunks_;
  }

  [[noreturn]] void refuse_sequence(const LogicalOp& op, std::int64_t sequence) const {
    const std::string degrees =
        fmt::format("cp that would do: {}", comma_list(divisors_of(sequence)));
    std::vector<std::int64_t> sequences = {sequence / chunks_ * chunks_ + chunks_};
    if (sequence > chunks_) sequences.insert(sequences.begin(), sequence / chunks_ * chunks_);
    const std::string lengths = fmt::format("sequences that would do: {}", comma_list(sequences));
    throw Error(ErrorCode::kInfeasible,
                fmt::format("operator '{}' ({}) sees a sequence of {} positions, which cp={} does "
                            "not divide, as cp_mode=ring needs; {}; {}; or cp_mode=a2a",
                            op.name, op.kind, sequence, chunks_, degrees, lengths),
                {degrees, lengths, "cp_mode=a2a"});
  }

  Attributes chunk_attributes(const LogicalOp& op, std::int64_t shift) const {
    Attributes attributes = op.attributes;
    attributes.set("chunks", chunks_);
    attributes.set("chunk", chunk_of(op));
    attributes.set("shift", shift);
    return attributes;
  }

  // One chunk on. Its operator comes before the attention that goes on meanwhile.
  void roll(const LogicalOp& op, Traveller& traveller, std::int64_t shift) {
    traveller.now = add(op, "roll", fmt::format("{}.{}{}", op.name, traveller.name, shift),
                        {traveller.now}, {{"dim", kDimOfSequence}, {"shift", chunk_of(op)}})[0];
  }

  TensorId in_type_of(const LogicalOp& op, const std::string& name, TensorId tensor,
                      TensorId like) {
    const DType dtype = type(copy_of(like)).dtype;
    if (type(tensor).dtype == dtype) return tensor;
    return add(op, "cast", name, {tensor}, {{"dtype", std::string(to_string(dtype))}})[0];
  }

  // What the whole made has the names that attention gave it.
  void add_forward(const LogicalOp& op) {
    const TensorId q = copy_of(op.inputs[0]);
    Traveller k{copy_of(op.inputs[1]), "k"}, v{copy_of(op.inputs[2]), "v"};
    const bool casts = type(q).dtype != accumulated(op);
    std::vector<TensorId> whole;  // o and lse of the chunks so far
    for (std::int64_t shift = 0; shift < chunks_; ++shift) {
      const std::vector<TensorId> inputs = {q, k.now, v.now};
      if (shift + 1 < chunks_) {
        roll(op, k, shift + 1);
        roll(op, v, shift + 1);
      }
      std::vector<TensorId> part =
          add(op, "attention_chunks", fmt::format("{}.chunk{}", op.name, shift), inputs,
              chunk_attributes(op, shift));
      const bool is_last = shift + 1 == chunks_ && !casts;
      if (shift == 0)
        whole = std::move(part);
      else
        whole = add(op, "attention_merge",
                    is_last ? op.name : fmt::format("{}.merge{}", op.name, shift),
                    {whole[0], whole[1], part[0], part[1]});
    }
    rewriter_.stand_for(op.outputs[0], in_type_of(op, op.name, whole[0], op.inputs[0]));
    rewriter_.stand_for(op.outputs[1], whole[1]);
  }

  DType accumulated(const LogicalOp& op) const {
    return original_.tensor(op.outputs[1]).type.dtype;
  }

  // The gradients of keys and values follow them a step behind: added to where they are then, and
  // home after one more.
  void add_backward(const LogicalOp& op) {
    std::vector<TensorId> inputs = rewriter_.copied(op.inputs);
    Traveller k{inputs[1], "k"}, v{inputs[2], "v"}, dk{{}, "dk"}, dv{{}, "dv"};
    TensorId dq;
    for (std::int64_t shift = 0; shift < chunks_; ++shift) {
      inputs[1] = k.now;
      inputs[2] = v.now;
      if (shift + 1 < chunks_) {
        roll(op, k, shift + 1);
        roll(op, v, shift + 1);
      }
      if (shift > 0) {
        roll(op, dk, shift);
        roll(op, dv, shift);
      }
      const std::vector<TensorId> part =
          add(op, "attention_chunks_grad", fmt::format("{}.chunk{}", op.name, shift), inputs,
              chunk_attributes(op, shift));
      dq = sum(op, "dq", shift, dq, part[0]);
      dk.now = sum(op, "dk", shift, dk.now, part[1]);
      dv.now = sum(op, "dv", shift, dv.now, part[2]);
    }
    roll(op, dk, chunks_);
    roll(op, dv, chunks_);
    const TensorId made[] = {dq, dk.now, dv.now};
    const char* const names[] = {"", ".dk", ".dv"};
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      rewriter_.stand_for(op.outputs[i], in_type_of(op, op.name + names[i], made[i], op.inputs[i]));
  }

  TensorId sum(const LogicalOp& op, const char* what, std::int64_t shift, TensorId so_far,
               TensorId part) {
    if (shift == 0) return part;
    return add(op, "add", fmt::format("{}.{}_sum{}", op.name, what, shift), {so_far, part})[0];
  }

  const LogicalGraph& original_;
  std::int64_t chunks_;
  GraphRewriter rewriter_;
  std::map<std::string, std::vector<OpId>> parts_;  // of the ring that an operator became
};

}  // namespace

LogicalGraph with_rings(LogicalGraph training, const Strategy& strategy) {
  if (strategy.cp == 1 || strategy.context != ContextMode::kRing) return training;
  return Rings(training, strategy.cp).run();
}

}  // namespace sextant
