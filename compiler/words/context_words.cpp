// Words by role: operators of the attention family, their operands, and the readers of their
// outputs. Names play no part.
#include "compiler/words/context_words.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/graphs/operator.h"
#include "core/graphs/tensor_types.h"
#include "core/operators/layers/attention.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace sextant {
namespace {

bool is_whole_attention(const LogicalOp& op) {
  return op.role == OperatorRole::kAttention || op.role == OperatorRole::kAttentionGradient;
}

bool is_partial_attention(const LogicalOp& op) {
  return op.role == OperatorRole::kChunkedAttention ||
         op.role == OperatorRole::kChunkedAttentionGradient;
}

bool sees_sequence(const LogicalOp& op) { return is_attention(op.role); }

const Shape& shape_of(const LogicalGraph& graph, const LogicalOp& op, std::size_t input) {
  return graph.tensor(op.inputs[input]).type.shape;
}

std::string degrees_below(std::int64_t parts, std::int64_t tp, std::int64_t heads,
                          std::int64_t kv_heads) {
  std::vector<std::int64_t> degrees;
  for (std::int64_t cp = 1; cp < parts; ++cp)
    if (heads % (cp * tp) == 0 && kv_heads % (cp * tp) == 0) degrees.push_back(cp);
  return degrees.empty() ? "none" : comma_list(degrees);
}

// Whole heads on every device, so that nobody holds a key/value head without its queries.
void require_divisible_heads(const LogicalGraph& graph, const LogicalOp& op,
                             const Strategy& strategy) {
  const std::int64_t heads = shape_of(graph, op, 0)[AttentionDims::kHeads];
  const std::int64_t kv_heads = shape_of(graph, op, 1)[AttentionDims::kHeads];
  const std::int64_t parts = strategy.cp * strategy.tp;
  if (heads % parts == 0 && kv_heads % parts == 0) return;
  const std::string hint =
      fmt::format("cp that would do with tp={}: {}", strategy.tp,
                  degrees_below(std::max(heads, kv_heads) + 1, strategy.tp, heads, kv_heads));
  throw Error(ErrorCode::kInfeasible,
              fmt::format("operator '{}' ({}) has {} query and {} key/value heads, which "
                          "cp={} x tp={} = {} does not divide, as cp_mode=a2a needs; {}, or "
                          "cp_mode=ring",
                          op.name, op.kind, heads, kv_heads, strategy.cp, strategy.tp, parts, hint),
              {hint, "cp_mode=ring"});
}

// Whether an operator is a shift between so many devices, each of which has one chunk.
bool passes_chunks_on(const LogicalGraph& graph, const LogicalOp& op, std::int64_t devices) {
  const OperatorDef& def = graph.registry().get(op.kind);
  if (!def.has_ring) return false;
  const std::vector<SbpSignature> rows =
      def.signatures(types_of(graph, op.inputs), types_of(graph, op.outputs), op.attributes);
  return std::any_of(rows.begin(), rows.end(), [&](const SbpSignature& row) {
    return row.ring == devices && row.inputs[0] == Sbp::split(AttentionDims::kSequence);
  });
}

class ContextWords {
 public:
  ContextWords(const LogicalGraph& graph, std::size_t axis, WordConstraints& constraints)
      : graph_(graph), axis_(axis), constraints_(constraints) {}

  void keep(OpId id) {
    for (std::size_t i = 0; i < graph_.op(id).inputs.size(); ++i)
      give({id, i}, AttentionDims::kSequence);
  }

  // Heads in; positions for whoever else reads what comes out.
  void exchange(OpId id) {
    const LogicalOp& op = graph_.op(id);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) give({id, i}, AttentionDims::kHeads);
    for (const TensorId output : op.outputs)
      for (const LogicalGraph::Use& use : graph_.uses(output))
        if (!is_whole_attention(graph_.op(use.op)))
          give({use.op, use.input}, AttentionDims::kSequence);
  }

 private:
  void give(const OpInput& input, std::size_t dim) {
    constraints_.inputs_on_axis[input] = {axis_, Sbp::split(dim)};
  }

  const LogicalGraph& graph_;
  std::size_t axis_;
  WordConstraints& constraints_;
};

}  // namespace

std::optional<std::size_t> context_dim(const LogicalGraph& training, const Strategy& strategy,
                                       const Shape& input) {
  if (strategy.cp == 1 || input.rank() <= AttentionDims::kSequence) return std::nullopt;
  for (const LogicalOp& op : training.ops())
    if (sees_sequence(op) &&
        shape_of(training, op, 0)[AttentionDims::kSequence] == input[AttentionDims::kSequence])
      return AttentionDims::kSequence;
  return std::nullopt;
}

std::optional<std::size_t> context_read_dim(const LogicalGraph& training, const Strategy& strategy,
                                            const LogicalOp& op, std::size_t input) {
  if (strategy.cp == 1) return std::nullopt;
  std::vector<std::size_t> along;  // inputs with positions
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (i != input && context_dim(training, strategy, shape_of(training, op, i)))
      along.push_back(i);
  if (along.empty()) return std::nullopt;
  std::optional<std::size_t> dim;
  for (const SbpSignature& row : training.registry().get(op.kind).signatures(
           types_of(training, op.inputs), types_of(training, op.outputs), op.attributes)) {
    const bool splits_positions = std::all_of(along.begin(), along.end(), [&](std::size_t i) {
      return row.inputs[i] == Sbp::split(AttentionDims::kSequence);
    });
    if (!splits_positions) continue;
    if (row.inputs[input].is_broadcast()) return std::nullopt;
    if (row.inputs[input].is_split()) dim = row.inputs[input].dim;
  }
  return dim;
}

void add_context_words(const LogicalGraph& training, const Strategy& strategy,
                       WordConstraints& constraints) {
  if (strategy.cp == 1) return;
  require(std::any_of(training.ops().begin(), training.ops().end(), sees_sequence),
          ErrorCode::kInfeasible,
          "cp={} splits the sequence that attention sees, but the graph has no attention",
          strategy.cp);
  ContextWords words(training, *axes_of(strategy).cp, constraints);
  for (std::size_t index = 0; index < training.ops().size(); ++index) {
    const LogicalOp& op = training.ops()[index];
    if (is_partial_attention(op) || passes_chunks_on(training, op, strategy.cp)) {
      words.keep(OpId(index));
    } else if (is_whole_attention(op) && strategy.context == ContextMode::kAllToAll) {
      require_divisible_heads(training, op, strategy);
      words.exchange(OpId(index));
    }
  }
}

}  // namespace sextant
