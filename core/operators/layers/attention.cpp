// Attention with grouped key/value heads, and its gradient. All operands carry the batch in dim 0,
// the sequence in dim 1 and the heads in dim 2, lse included. Query s sees keys 0 .. s, or every
// key where the attribute `causal` is false, and query head h reads key/value head floor(h /
// group): *global* indices, so the kernels need to know their boxes.
//
// | attention q | k | v | o | lse | |
// |---|---|---|---|---|---|
// | B | B | B | B | B | |
// | S(0) | S(0) | S(0) | S(0) | S(0) | batch |
// | S(2) | S(2) | S(2) | S(2) | S(2) | heads; with groups only over parts that divide KV |
// | S(1) | B | B | S(1) | S(1) | sequence of the queries: context parallel with gathered keys |
// | S(2) | B | B | S(2) | S(2) | query heads, any parts (more than KV heads); `group` given |
// | B | B | S(3) | S(3) | B | values by column |
// | B | B | P(sum) | P(sum) | B | linear in v |
//
// | attention_grad q | k | v | o | lse | do | dq | dk | dv | |
// |---|---|---|---|---|---|---|---|---|---|
// | B | B | B | B | B | B | B | B | B | |
// | S(0), S(2) | all the same | | | | | | | | batch, heads as above |
// | S(1) | B | B | S(1) | S(1) | S(1) | S(1) | P(sum) | P(sum) | queries of one part |
// | S(2) | B | B | S(2) | S(2) | S(2) | S(2) | P(sum) | P(sum) | `group` given |
// | B | S(1) | S(1) | B | B | B | P(sum) | S(1) | S(1) | keys of one part: lse is whole by then |
// | B | B | S(3) | S(3) | B | S(3) | P(sum) | P(sum) | S(3) | |
// | B | B | P(sum) | P(sum) | B | B | P(sum) | P(sum) | B | linear in v and o together |
// | B | B | B | B | B | P(sum) | P(sum) | P(sum) | P(sum) | linear in do |
//
// With groups an uneven split would part a query head from the key/value head it reads: 3 and 6
// heads over 2 parts are cut as 2, 1 and 3, 3. All-to-all context parallel is a boxing from S(1) to
// S(2) in front and back behind. A split of the keys in the forward pass (a ring) has to merge o by
// lse, which is no reduction of words: attention_chunks.cpp.
#include "core/operators/layers/attention.h"

#include "core/base/check.h"
#include "core/graphs/kernel_names.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

constexpr std::size_t kBatch = AttentionDims::kBatch, kSequence = AttentionDims::kSequence,
                      kHeads = AttentionDims::kHeads, kHeadSize = AttentionDims::kHeadSize;

constexpr Sbp kPart = Sbp{.kind = Sbp::Kind::kSplit, .dim = kSequence};
constexpr Sbp kHeadPart = Sbp{.kind = Sbp::Kind::kSplit, .dim = kHeads};
constexpr Sbp kColumns = Sbp{.kind = Sbp::Kind::kSplit, .dim = kHeadSize};

// How many query heads read one key/value head.
void require_groups(std::string_view kind, const Attributes& attributes, std::int64_t heads,
                    std::int64_t kv_heads) {
  if (attributes.contains("group")) {
    const std::int64_t group = attributes.integer("group");
    require(group > 0 && heads <= kv_heads * group, ErrorCode::kBadInput,
            "{}: {} key/value heads with groups of {} do not serve {} query heads", kind, kv_heads,
            group, heads);
    return;
  }
  require(kv_heads == heads || (kv_heads > 0 && heads % kv_heads == 0), ErrorCode::kBadInput,
          "{}: {} query heads do not share {} key/value heads evenly", kind, heads, kv_heads);
}

}  // namespace

void require_attention_operands(std::string_view kind, const Attributes& attributes,
                                const TensorType& q, const TensorType& k, const TensorType& v) {
  require_floating(kind, "q", q);
  require_same_dtype(kind, "k", k, "q", q);
  require(q.shape.rank() == 4, ErrorCode::kBadInput,
          "{}: q is {}, wanted [batch, sequence, heads, head size]", kind, to_text(q));
  require(k.shape.rank() == 4 && k.shape[kBatch] == q.shape[kBatch] &&
              k.shape[kHeadSize] == q.shape[kHeadSize],
          ErrorCode::kBadInput,
          "{}: k is {}, wanted {} with another sequence or number of heads at most", kind,
          to_text(k), to_text(q));
  require_same_dtype(kind, "v", v, "k", k);
  require(v.shape.rank() == 4 && v.shape == k.shape.with_extent(kHeadSize, v.shape[kHeadSize]),
          ErrorCode::kBadInput, "{}: v is {}, wanted {} with another head size at most", kind,
          to_text(v), to_text(k));
  require_groups(kind, attributes, q.shape[kHeads], k.shape[kHeads]);
}

std::vector<AttributeDef> attention_attributes() {
  return {
      {"scale", kReal, kOptional}, {"group", kInteger, kOptional}, {"causal", kBoolean, kOptional}};
}

bool is_causal(const Attributes& attributes) { return attributes.boolean_or("causal", true); }

TensorType attention_lse(const TensorType& q) {
  return {.shape = leading_dims(q.shape), .dtype = accumulator_type(q.dtype)};
}

TensorType attention_output(const TensorType& q, const TensorType& v) {
  return {.shape = q.shape.with_extent(kHeadSize, v.shape[kHeadSize]), .dtype = q.dtype};
}

Flops attention_flops(Types inputs, Flops pairs, int products, int value_products) {
  const auto size = static_cast<Flops>(inputs[0].shape[kHeadSize]);
  const auto value_size = static_cast<Flops>(inputs[2].shape[kHeadSize]);
  return 2 * pairs * (products * size + value_products * value_size);
}

std::string attention_kernel(Types inputs, std::int64_t keys, const Attributes& attributes,
                             bool is_gradient) {
  return fmt::format("attention{}:{}x{}{}", is_gradient ? "_grad" : "", keys,
                     std::max<std::int64_t>(1, inputs[0].shape[kHeadSize]),
                     is_causal(attributes) ? "" : kAllKeys);
}

HeadGroups::HeadGroups(Types inputs, const Attributes& attributes) {
  const std::int64_t heads = inputs[0].shape[kHeads], kv_heads = inputs[1].shape[kHeads];
  is_given = attributes.contains("group");
  size = is_given ? attributes.integer("group") : kv_heads == 0 ? 1 : heads / kv_heads;
  is_full = heads == kv_heads * size;
}

Rows together_rows(Types inputs, std::size_t num_outputs, const HeadGroups& groups) {
  const std::int64_t kv_heads = inputs[1].shape[kHeads];
  Rows rows{all_broadcast(inputs.size(), num_outputs)};
  rows.push_back({std::vector<Sbp>(inputs.size(), Sbp::split(kBatch)),
                  std::vector<Sbp>(num_outputs, Sbp::split(kBatch))});
  if (!groups.is_full || (groups.size > 1 && kv_heads == 1)) return rows;
  rows.push_back({std::vector<Sbp>(inputs.size(), kHeadPart),
                  std::vector<Sbp>(num_outputs, kHeadPart), groups.size > 1 ? kv_heads : 0});
  return rows;
}

// Of whole groups of one head, the split of heads follows from splitting all.
std::vector<Sbp> query_splits(const HeadGroups& groups) {
  if (groups.is_given && (groups.size > 1 || !groups.is_full)) return {kPart, kHeadPart};
  return {kPart};
}

void append_attention_rows(Rows& rows, const HeadGroups& groups) {
  for (const Sbp& part : query_splits(groups))
    rows.push_back({{part, kBroadcast, kBroadcast}, {part, part}});
  for (const Sbp& part : {kColumns, kPartialSum})
    rows.push_back({{kBroadcast, kBroadcast, part}, {part, kBroadcast}});
}

void append_attention_grad_rows(Rows& rows, const HeadGroups& groups) {
  const Sbp b = kBroadcast, p = kPartialSum;
  for (const Sbp& part : query_splits(groups))
    rows.push_back({{part, b, b, part, part, part}, {part, p, p}});
  rows.push_back({{b, kPart, kPart, b, b, b}, {p, kPart, kPart}});
  rows.push_back({{b, b, kColumns, kColumns, b, kColumns}, {p, p, kColumns}});
  rows.push_back({{b, b, p, p, b, b}, {p, p, b}});
  rows.push_back({{b, b, b, b, b, p}, {p, p, p}});
}

namespace {

std::vector<TensorType> infer_attention(Types inputs, const Attributes& attributes) {
  const TensorType &q = inputs[0], &k = inputs[1];
  require_attention_operands("attention", attributes, q, k, inputs[2]);
  require(!is_causal(attributes) || k.shape[kSequence] >= q.shape[kSequence], ErrorCode::kBadInput,
          "attention: k is {}, wanted at least the {} positions of q {}", to_text(k),
          q.shape[kSequence], to_text(q));
  return {attention_output(q, inputs[2]), attention_lse(q)};
}

std::vector<TensorType> infer_attention_grad(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "attention_grad";
  const TensorType &q = inputs[0], &v = inputs[2];
  require_attention_operands(kind, attributes, q, inputs[1], v);
  require_type(kind, "o", inputs[3], attention_output(q, v));
  require_type(kind, "lse", inputs[4], attention_lse(q));
  require_type(kind, "do", inputs[5], attention_output(q, v));
  return {q, inputs[1], v};
}

// Pairs of a query and a key that it sees. Causal: sequence (sequence + 1) / 2 per head, and the
// average share of them where queries or keys are a part of the sequence.
Flops visible_pairs(Types inputs, const Attributes& attributes) {
  const TensorType &q = inputs[0], &k = inputs[1];
  const auto shorter = static_cast<Flops>(std::min(q.shape[kSequence], k.shape[kSequence]));
  const auto longer = static_cast<Flops>(std::max(q.shape[kSequence], k.shape[kSequence]));
  const auto heads = static_cast<Flops>(q.shape[kBatch] * q.shape[kHeads]);
  return is_causal(attributes) ? heads * shorter * (longer + 1) / 2 : heads * shorter * longer;
}

// q k^T; p v.
Work attention_work(Types inputs, Types outputs, const Attributes& attributes) {
  return streaming_work(inputs, outputs,
                        attention_flops(inputs, visible_pairs(inputs, attributes), 1, 1),
                        attention_kernel(inputs, inputs[1].shape[kSequence], attributes, false));
}

// q k^T again, ds k, ds^T q; do v^T, p^T do.
Work attention_grad_work(Types inputs, Types outputs, const Attributes& attributes) {
  return streaming_work(inputs, outputs,
                        attention_flops(inputs, visible_pairs(inputs, attributes), 3, 2),
                        attention_kernel(inputs, inputs[1].shape[kSequence], attributes, true));
}

Rows attention_rows(Types inputs, Types, const Attributes& attributes) {
  const HeadGroups groups(inputs, attributes);
  Rows rows = together_rows(inputs, 2, groups);
  append_attention_rows(rows, groups);
  return rows;
}

Rows attention_grad_rows(Types inputs, Types, const Attributes& attributes) {
  const HeadGroups groups(inputs, attributes);
  Rows rows = together_rows(inputs, 3, groups);
  append_attention_grad_rows(rows, groups);
  return rows;
}

void attention_gradient(GradientContext& context) {
  require(!context.output_gradient(1), ErrorCode::kBadInput,
          "operator '{}': no gradient rule for the lse of attention", context.op().name);
  context.add("attention_grad",
              {context.input(0), context.input(1), context.input(2), context.output(0),
               context.output(1), *context.output_gradient(0)},
              context.op().attributes, 0);
  const std::vector<TensorId> gradients = context.outputs_of_last();
  for (std::size_t input : {0, 1, 2})
    if (context.wants(input)) context.set_input_gradient(input, gradients[input]);
}

// Without groups; with them; three query heads per key/value head, told so; values of another size;
// every key seen, in groups, and fewer keys than queries.
std::vector<OperatorExample> attention_examples() {
  const TensorType q = f64({2, 3, 4, 2}), grouped = f64({2, 3, 2, 2});
  const TensorType six = f64({2, 3, 6, 2}), wide = f64({2, 3, 4, 3}),
                   short_keys = f64({2, 2, 4, 2});
  return {{.inputs = {q, q, q}},
          {.inputs = {q, grouped, grouped}, .attributes = {{"scale", 0.25}}},
          {.inputs = {six, grouped, grouped}, .attributes = {{"group", std::int64_t{3}}}},
          {.inputs = {q, q, wide}},
          {.inputs = {q, grouped, grouped}, .attributes = {{"causal", false}}},
          {.inputs = {q, short_keys, short_keys}, .attributes = {{"causal", false}}}};
}

std::vector<OperatorExample> attention_grad_examples() {
  // Small scores and a positive lse: probabilities of at most e.
  const std::vector<std::pair<std::int64_t, std::int64_t>> ranges = {{-1, 1}, {-1, 1}, {-3, 3},
                                                                     {-3, 3}, {1, 3},  {-3, 3}};
  std::vector<OperatorExample> examples;
  for (const OperatorExample& forward : attention_examples()) {
    const TensorType &q = forward.inputs[0], &v = forward.inputs[2], o = attention_output(q, v);
    examples.push_back({.inputs = {q, forward.inputs[1], v, o, attention_lse(q), o},
                        .attributes = forward.attributes,
                        .ranges = ranges});
  }
  return examples;
}

}  // namespace

void add_attention(OperatorRegistry& registry) {
  registry.add({.kind = "attention",
                .role = OperatorRole::kAttention,
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = attention_attributes(),
                .infer = infer_attention,
                .work = attention_work,
                .signatures = attention_rows,
                .gradient = attention_gradient,
                .needs_offsets = true,
                .examples = attention_examples});
  registry.add({.kind = "attention_grad",
                .role = OperatorRole::kAttentionGradient,
                .min_inputs = 6,
                .max_inputs = 6,
                .attributes = attention_attributes(),
                .infer = infer_attention_grad,
                .work = attention_grad_work,
                .signatures = attention_grad_rows,
                .needs_offsets = true,
                .examples = attention_grad_examples});
}

}  // namespace sextant
