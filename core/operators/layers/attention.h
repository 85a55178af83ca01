// What the forms of attention share: shapes of their operands, how query heads lie on key/value
// heads and which keys a query sees. All operands carry the batch in dim 0, the sequence in dim 1
// and the heads in dim 2.
#pragma once

#include "core/operators/rules.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct AttentionDims {
  static constexpr std::size_t kBatch = 0, kSequence = 1, kHeads = 2, kHeadSize = 3;
};

// q [batch, sequence, heads, head size], k with other positions and fewer heads, v as k with
// another head size. Throws Error(kBadInput) naming the operand.
void require_attention_operands(std::string_view kind, const Attributes& attributes,
                                const TensorType& q, const TensorType& k, const TensorType& v);

// Attribute `causal`: a query sees no key behind it, unless it is false.
bool is_causal(const Attributes& attributes);
// What every form of attention may say, in a registration.
std::vector<AttributeDef> attention_attributes();

TensorType attention_lse(const TensorType& q);
// One row of values per query, in the type of q.
TensorType attention_output(const TensorType& q, const TensorType& v);

// How query heads lie on key/value heads.
struct HeadGroups {
  std::int64_t size;       // query heads that read one key/value head
  bool is_given, is_full;  // told by the attribute; every group has all of its heads

  HeadGroups(Types inputs, const Attributes& attributes);
};

// All operands split by batch, and by heads where queries and their keys can stay together.
Rows together_rows(Types inputs, std::size_t num_outputs, const HeadGroups& groups);
// The splits of the queries alone.
std::vector<Sbp> query_splits(const HeadGroups& groups);
// Rows of attention and its gradient in which operands differ: queries, keys or values alone.
void append_attention_rows(Rows& rows, const HeadGroups& groups);
void append_attention_grad_rows(Rows& rows, const HeadGroups& groups);

// The name of a kernel whose queries may see `keys` keys (core/graphs/kernel_names.h).
std::string attention_kernel(Types inputs, std::int64_t keys, const Attributes& attributes,
                             bool is_gradient);

// `pairs` of a query and a key, once per head: products by rows of q and k, and by rows of v and o;
// 2 FLOPs per element of a head.
Flops attention_flops(Types inputs, Flops pairs, int products, int value_products);

}  // namespace sextant
