// Causal attention with grouped key/value heads, and its gradient. All operands carry the batch in
// dim 0 and the heads in dim 2, lse included.
//
// | words of every operand | |
// |---|---|
// | B | |
// | S(0) | batch |
// | S(2) | heads; with KV < H only over parts that divide KV |
// | attention_grad: do P(sum), the rest B -> P(sum) | linear in do |
//
// With fewer key/value heads than query heads an uneven split would part a query head from the
// key/value head it reads: 3 and 6 heads over 2 parts are cut as 2, 1 and 3, 3. A split of the
// sequence needs other ranks' keys (ring or all-to-all): not claimed.
#include "core/check.h"
#include "core/logical_graph.h"
#include "core/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <utility>

namespace sextant {
namespace {

constexpr std::size_t kBatch = 0, kSequence = 1, kHeads = 2, kHeadSize = 3;

void require_heads(std::string_view kind, const TensorType& q, const TensorType& k,
                   const TensorType& v) {
  require_floating(kind, "q", q);
  require_same_dtype(kind, "k", k, "q", q);
  require(q.shape.rank() == 4, ErrorCode::kBadInput,
          "{}: q is {}, wanted [batch, sequence, heads, head size]", kind, to_text(q));
  require(k.shape.rank() == 4 && k.shape == q.shape.with_extent(kHeads, k.shape[kHeads]),
          ErrorCode::kBadInput, "{}: k is {}, wanted {} with another number of heads at most", kind,
          to_text(k), to_text(q));
  require_type(kind, "v", v, k);
  const std::int64_t heads = q.shape[kHeads], kv_heads = k.shape[kHeads];
  require(kv_heads == heads || (kv_heads > 0 && heads % kv_heads == 0), ErrorCode::kBadInput,
          "{}: {} query heads do not share {} key/value heads evenly", kind, heads, kv_heads);
}

TensorType lse_type(const TensorType& q) {
  return {.shape = leading_dims(q.shape), .dtype = accumulator_type(q.dtype)};
}

std::vector<TensorType> infer_attention(Types inputs, const Attributes&) {
  require_heads("attention", inputs[0], inputs[1], inputs[2]);
  return {inputs[0], lse_type(inputs[0])};
}

std::vector<TensorType> infer_attention_grad(Types inputs, const Attributes&) {
  constexpr std::string_view kind = "attention_grad";
  const TensorType& q = inputs[0];
  require_heads(kind, q, inputs[1], inputs[2]);
  require_type(kind, "o", inputs[3], q);
  require_type(kind, "lse", inputs[4], lse_type(q));
  require_type(kind, "do", inputs[5], q);
  return {q, inputs[1], inputs[2]};
}

// A product over the causal half: sequence (sequence + 1) / 2 pairs of positions per head, 2 FLOPs
// per element of a head.
Flops product_flops(const TensorType& q) {
  const auto sequence = static_cast<Flops>(q.shape[kSequence]);
  const auto heads = static_cast<Flops>(q.shape[kBatch] * q.shape[kHeads]);
  return heads * sequence * (sequence + 1) * static_cast<Flops>(q.shape[kHeadSize]);
}

// q k^T and p v.
Work attention_work(Types inputs, Types outputs, const Attributes&) {
  return streaming_work(inputs, outputs, 2 * product_flops(inputs[0]), "attention");
}

// q k^T again, do v^T, ds k, ds^T q, p^T do.
Work attention_grad_work(Types inputs, Types outputs, const Attributes&) {
  return streaming_work(inputs, outputs, 5 * product_flops(inputs[0]), "attention");
}

Rows head_rows(Types inputs, std::size_t num_outputs) {
  const std::int64_t heads = inputs[0].shape[kHeads], kv_heads = inputs[1].shape[kHeads];
  Rows rows{all_broadcast(inputs.size(), num_outputs)};
  rows.push_back({std::vector<Sbp>(inputs.size(), Sbp::split(kBatch)),
                  std::vector<Sbp>(num_outputs, Sbp::split(kBatch))});
  if (heads != kv_heads && kv_heads == 1) return rows;
  rows.push_back({std::vector<Sbp>(inputs.size(), Sbp::split(kHeads)),
                  std::vector<Sbp>(num_outputs, Sbp::split(kHeads)),
                  heads == kv_heads ? 0 : kv_heads});
  return rows;
}

Rows attention_rows(Types inputs, Types, const Attributes&) { return head_rows(inputs, 2); }

Rows attention_grad_rows(Types inputs, Types, const Attributes&) {
  Rows rows = head_rows(inputs, 3);
  rows.push_back({{kBroadcast, kBroadcast, kBroadcast, kBroadcast, kBroadcast, kPartialSum},
                  {kPartialSum, kPartialSum, kPartialSum}});
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

}  // namespace

void add_attention(OperatorRegistry& registry) {
  registry.add({.kind = "attention",
                .min_inputs = 3,
                .max_inputs = 3,
                .infer = infer_attention,
                .work = attention_work,
                .signatures = attention_rows,
                .gradient = attention_gradient,
                .examples = [] {
                  const TensorType q = f64({2, 3, 4, 2}), grouped = f64({2, 3, 2, 2});
                  return std::vector<OperatorExample>{
                      {.inputs = {q, q, q}},
                      {.inputs = {q, grouped, grouped}, .attributes = {{"scale", 0.25}}}};
                }});
  registry.add({.kind = "attention_grad",
                .min_inputs = 6,
                .max_inputs = 6,
                .infer = infer_attention_grad,
                .work = attention_grad_work,
                .signatures = attention_grad_rows,
                .examples = [] {
                  const TensorType q = f64({2, 3, 4, 2}), grouped = f64({2, 3, 2, 2});
                  const TensorType lse = f64({2, 3, 4});
                  // Small scores and a positive lse: probabilities of at most e.
                  const std::vector<std::pair<std::int64_t, std::int64_t>> ranges = {
                      {-1, 1}, {-1, 1}, {-3, 3}, {-3, 3}, {1, 3}, {-3, 3}};
                  return std::vector<OperatorExample>{
                      {.inputs = {q, q, q, q, lse, q}, .attributes = {}, .ranges = ranges},
                      {.inputs = {q, grouped, grouped, q, lse, q},
                       .attributes = {{"scale", 0.25}},
                       .ranges = ranges}};
                }});
}

}  // namespace sextant
