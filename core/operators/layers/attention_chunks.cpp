// Attention of a ring: the sequence lies in equal chunks, the keys and values of every chunk have
// been rolled `shift` chunks on, and each query sees only the keys that lie in its own chunk now:
// those of the chunk `shift` before it, none where that is not before it, unless the attribute
// `causal` is false. Its results are
// partial: attention_merge joins those of two disjoint sets of keys by their log-sum-exps, and over
// all shifts every query has seen every key once. compiler/training/context_parallel.cpp builds the
// ring.
//
// | attention_chunks q | k | v | o | lse | besides the rows of attention |
// |---|---|---|---|---|---|
// | S(1) | S(1) | S(1) | S(1) | S(1) | whole chunks: parts that divide their number |
//
// | attention_chunks_grad q | k | v | o | lse | do | dq | dk | dv | besides those of its gradient |
// |---|---|---|---|---|---|---|---|---|---|
// | S(1) | S(1) | S(1) | S(1) | S(1) | S(1) | S(1) | S(1) | S(1) | whole chunks |
//
// | attention_merge a | lse a | b | lse b | o | lse | |
// |---|---|---|---|---|---|---|
// | S(i) | S(i) | S(i) | S(i) | S(i) | S(i) | all dims but the last |
// | S(last) | B | S(last) | B | S(last) | B | |
// | P(sum) | B | P(sum) | B | P(sum) | B | linear in a and b together |
//
// The gradient reads o and lse of the whole, as flash attention does: then the gradients of the
// shifts simply add up. So it is no gradient of attention_chunks alone, which therefore has no
// rule: rings are made after differentiation, from attention and attention_grad.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/layers/attention.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace sextant {
namespace {

constexpr Sbp kChunkPart = Sbp{.kind = Sbp::Kind::kSplit, .dim = AttentionDims::kSequence};

// Attributes: how many chunks, of how many positions, and how far the keys were rolled.
struct Chunks {
  std::int64_t number, length, shift;

  explicit Chunks(const Attributes& attributes)
      : number(attributes.integer("chunks")),
        length(attributes.integer("chunk")),
        shift(attributes.integer("shift")) {}
};

void require_chunks(std::string_view kind, Types inputs, const Attributes& attributes) {
  const Chunks chunks(attributes);
  require(
      chunks.number >= 1 && chunks.length >= 1 && chunks.shift >= 0 && chunks.shift < chunks.number,
      ErrorCode::kBadInput, "{}: {} chunks of {} positions, rolled by {}", kind, chunks.number,
      chunks.length, chunks.shift);
  for (const std::size_t operand : {0U, 1U})
    require(inputs[operand].shape[AttentionDims::kSequence] <= chunks.number * chunks.length,
            ErrorCode::kBadInput, "{}: {} is {}, wanted at most {} chunks of {} positions", kind,
            operand == 0 ? "q" : "k", to_text(inputs[operand]), chunks.number, chunks.length);
}

TensorType in_accumulator(TensorType type) {
  type.dtype = accumulator_type(type.dtype);
  return type;
}

std::vector<TensorType> infer_chunks(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "attention_chunks";
  require_attention_operands(kind, attributes, inputs[0], inputs[1], inputs[2]);
  require_chunks(kind, inputs, attributes);
  return {in_accumulator(attention_output(inputs[0], inputs[2])), attention_lse(inputs[0])};
}

std::vector<TensorType> infer_chunks_grad(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "attention_chunks_grad";
  const TensorType &q = inputs[0], &k = inputs[1], &v = inputs[2];
  require_attention_operands(kind, attributes, q, k, v);
  require_chunks(kind, inputs, attributes);
  require_type(kind, "o", inputs[3], attention_output(q, v));
  require_type(kind, "lse", inputs[4], attention_lse(q));
  require_type(kind, "do", inputs[5], attention_output(q, v));
  return {in_accumulator(q), in_accumulator(k), in_accumulator(v)};
}

std::vector<TensorType> infer_merge(Types inputs, const Attributes&) {
  constexpr std::string_view kind = "attention_merge";
  require_floating(kind, "o of one", inputs[0]);
  require_min_rank(kind, "o of one", inputs[0], 1);
  const TensorType lse{.shape = leading_dims(inputs[0].shape), .dtype = inputs[0].dtype};
  require_type(kind, "lse of one", inputs[1], lse);
  require_type(kind, "o of the other", inputs[2], inputs[0]);
  require_type(kind, "lse of the other", inputs[3], lse);
  return {inputs[0], lse};
}

// Of the part that has most: the last chunks see all that lies in theirs, the first `shift`
// nothing.
Flops seen_pairs(Types inputs, const Attributes& attributes) {
  const Chunks chunks(attributes);
  const Shape &q = inputs[0].shape, &k = inputs[1].shape;
  const bool causal = is_causal(attributes);
  const std::int64_t seeing = causal ? chunks.number - chunks.shift : chunks.number;
  const auto queries =
      static_cast<Flops>(std::min(q[AttentionDims::kSequence], seeing * chunks.length));
  const auto keys = static_cast<Flops>(std::min(k[AttentionDims::kSequence], chunks.length));
  const auto rows =
      static_cast<Flops>(q[AttentionDims::kBatch] * q[AttentionDims::kHeads]) * queries;
  return causal && chunks.shift == 0 ? rows * (keys + 1) / 2 : rows * keys;
}

// A part is worked through chunk by chunk.
std::string chunks_kernel(Types inputs, const Attributes& attributes, bool is_gradient) {
  const std::int64_t keys =
      std::min(inputs[1].shape[AttentionDims::kSequence], Chunks(attributes).length);
  return attention_kernel(inputs, keys, attributes, is_gradient);
}

Work chunks_work(Types inputs, Types outputs, const Attributes& attributes) {
  const Flops flops = attention_flops(inputs, seen_pairs(inputs, attributes), 1, 1);
  return streaming_work(inputs, outputs, flops, chunks_kernel(inputs, attributes, false));
}

Work chunks_grad_work(Types inputs, Types outputs, const Attributes& attributes) {
  const Flops flops = attention_flops(inputs, seen_pairs(inputs, attributes), 3, 2);
  return streaming_work(inputs, outputs, flops, chunks_kernel(inputs, attributes, true));
}

SbpSignature whole_chunks(std::size_t num_inputs, std::size_t num_outputs,
                          const Attributes& attributes) {
  return {std::vector<Sbp>(num_inputs, kChunkPart), std::vector<Sbp>(num_outputs, kChunkPart),
          Chunks(attributes).number};
}

Rows chunks_rows(Types inputs, Types, const Attributes& attributes) {
  const HeadGroups groups(inputs, attributes);
  Rows rows = together_rows(inputs, 2, groups);
  if (Chunks(attributes).number > 1) rows.push_back(whole_chunks(3, 2, attributes));
  append_attention_rows(rows, groups);
  return rows;
}

Rows chunks_grad_rows(Types inputs, Types, const Attributes& attributes) {
  const HeadGroups groups(inputs, attributes);
  Rows rows = together_rows(inputs, 3, groups);
  if (Chunks(attributes).number > 1) rows.push_back(whole_chunks(6, 3, attributes));
  append_attention_grad_rows(rows, groups);
  return rows;
}

Rows merge_rows(Types inputs, Types, const Attributes&) {
  const std::size_t last = inputs[0].shape.rank() - 1;
  Rows rows{all_broadcast(4, 2)};
  for (std::size_t dim = 0; dim < last; ++dim)
    rows.push_back({std::vector<Sbp>(4, Sbp::split(dim)), std::vector<Sbp>(2, Sbp::split(dim))});
  for (const Sbp& part : {Sbp::split(last), kPartialSum})
    rows.push_back({{part, kBroadcast, part, kBroadcast}, {part, kBroadcast}});
  return rows;
}

std::vector<AttributeDef> chunked_attributes() {
  std::vector<AttributeDef> attributes = attention_attributes();
  attributes.insert(attributes.begin(),
                    {{"chunks", kInteger}, {"chunk", kInteger}, {"shift", kInteger}});
  return attributes;
}

Attributes chunk_attributes(std::int64_t chunks, std::int64_t chunk, std::int64_t shift) {
  return {{"chunks", chunks}, {"chunk", chunk}, {"shift", shift}};
}

// Two chunks that are causal in themselves; the last sees the first; three, which three parts leave
// whole; four, of which two parts have two; groups of query heads, told so; the first sees the
// last, and a chunk sees all of itself.
std::vector<OperatorExample> chunks_examples() {
  const TensorType q = f64({2, 4, 2, 2}), wide = f64({2, 4, 2, 3}), three = f64({1, 6, 2, 2});
  const TensorType six = f64({1, 8, 6, 2}), grouped = f64({1, 8, 2, 2});
  Attributes told = chunk_attributes(4, 2, 1);
  told.set("group", std::int64_t{3});
  const auto all_seen = [](std::int64_t shift) {
    Attributes attributes = chunk_attributes(2, 2, shift);
    attributes.set("causal", false);
    return attributes;
  };
  return {{.inputs = {q, q, wide}, .attributes = chunk_attributes(2, 2, 0)},
          {.inputs = {q, q, q}, .attributes = chunk_attributes(2, 2, 1)},
          {.inputs = {three, three, three}, .attributes = chunk_attributes(3, 2, 1)},
          {.inputs = {six, grouped, grouped}, .attributes = std::move(told)},
          {.inputs = {q, q, q}, .attributes = all_seen(0)},
          {.inputs = {q, q, q}, .attributes = all_seen(1)}};
}

std::vector<OperatorExample> chunks_grad_examples() {
  // Small scores and a positive lse: probabilities of at most e.
  const std::vector<std::pair<std::int64_t, std::int64_t>> ranges = {{-1, 1}, {-1, 1}, {-3, 3},
                                                                     {-3, 3}, {1, 3},  {-3, 3}};
  std::vector<OperatorExample> examples;
  for (const OperatorExample& forward : chunks_examples()) {
    const TensorType &q = forward.inputs[0], o = attention_output(q, forward.inputs[2]);
    examples.push_back({.inputs = {q, forward.inputs[1], forward.inputs[2], o, attention_lse(q), o},
                        .attributes = forward.attributes,
                        .ranges = ranges});
  }
  return examples;
}

std::vector<OperatorExample> merge_examples() {
  const TensorType o = f64({2, 3, 5}), lse = f64({2, 3});
  return {{.inputs = {o, lse, o, lse}}};
}

}  // namespace

void add_attention_chunks(OperatorRegistry& registry) {
  registry.add({.kind = "attention_chunks",
                .role = OperatorRole::kChunkedAttention,
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = chunked_attributes(),
                .infer = infer_chunks,
                .work = chunks_work,
                .signatures = chunks_rows,
                .needs_offsets = true,
                .examples = chunks_examples});
  registry.add({.kind = "attention_chunks_grad",
                .role = OperatorRole::kChunkedAttentionGradient,
                .min_inputs = 6,
                .max_inputs = 6,
                .attributes = chunked_attributes(),
                .infer = infer_chunks_grad,
                .work = chunks_grad_work,
                .signatures = chunks_grad_rows,
                .needs_offsets = true,
                .examples = chunks_grad_examples});
  registry.add({.kind = "attention_merge",
                .role = OperatorRole::kAttentionMerge,
                .min_inputs = 4,
                .max_inputs = 4,
                .infer = infer_merge,
                .work = elementwise_pass<6>,
                .signatures = merge_rows,
                .examples = merge_examples});
}

}  // namespace sextant
