// Finds attention by its kind and its heads by its operands.
#include "compiler/words/key_heads.h"

#include "core/graphs/operator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

namespace sextant {
namespace {

constexpr std::size_t kDimOfHeads = 2;  // dim of heads in the operands of attention

// Of all attentions whose heads are shared and that are told their groups, as shards of queries
// have to be; 1 where none is. With one head for all nothing is to be split, and heads that do not
// share tp evenly are refused where they become heads.
std::int64_t key_head_parts(const LogicalGraph& training, std::int64_t tp) {
  std::int64_t parts = 0;
  for (const LogicalOp& op : training.ops()) {
    if (!is_attention(op.role) || !op.attributes.contains("group")) continue;
    const std::int64_t heads = training.tensor(op.inputs[0]).type.shape[kDimOfHeads];
    const std::int64_t key_heads = training.tensor(op.inputs[1]).type.shape[kDimOfHeads];
    if (key_heads < tp && tp % key_heads == 0 && heads % tp == 0)
      parts = std::gcd(parts, key_heads);
  }
  return std::max<std::int64_t>(parts, 1);
}

// The word of tp for both axes, one split directly inside of the other.
NdSbp on_both_axes(NdSbp words, std::size_t axis) {
  const Sbp word = words[axis];
  if (word.nesting != 0)
    for (Sbp& other : words)
      if (other.is_split() && other.dim == word.dim && other.nesting >= word.nesting)
        ++other.nesting;
  words.insert(words.begin() + static_cast<std::ptrdiff_t>(axis), word);
  return canonical(std::move(words));
}

}  // namespace

Strategy with_key_heads(const Strategy& strategy, const LogicalGraph& training) {
  const std::int64_t parts = key_head_parts(training, strategy.tp);
  if (parts == 1) return strategy;
  Strategy refined = strategy;
  const std::size_t axis = axes_of(strategy).tp;
  for (WordPin& pin : refined.pins) pin.words = on_both_axes(std::move(pin.words), axis);
  refined.key_head_parts = parts;
  return refined;
}

}  // namespace sextant
