// q, k, v, o are [b, s, h, d]; scores and probabilities [b, h, s, t]. All kinds take these rows,
// the sequence is never split:
//
// | operands [b, s, h, d] | operands [b, h, s, t] | |
// |---|---|---|
// | S(0) | S(0) | batch |
// | S(2) | S(1) | heads |
#include "experiments/accuracy/written_attention.h"

#include "core/base/check.h"
#include "core/graphs/graph_rewriter.h"
#include "core/operators/rules.h"

#include <utility>

namespace sextant {
namespace {

constexpr std::size_t kBatch = 0, kSequence = 1, kHeads = 2;  // of [b, s, h, d]
constexpr std::size_t kScoreHeads = 1, kRows = 2, kColumns = 3;

// ---------------------------------------------------------------- types

TensorType scores_type(const TensorType& q, const TensorType& k) {
  return {.shape = {q.shape[kBatch], q.shape[kHeads], q.shape[kSequence], k.shape[kSequence]},
          .dtype = q.dtype};
}
// Of q, k, v or o, from scores and another of them.
TensorType operand_type(const TensorType& scores, const TensorType& other, std::size_t positions) {
  return {.shape = {scores.shape[kBatch], scores.shape[positions], scores.shape[kScoreHeads],
                    other.shape[3]},
          .dtype = scores.dtype};
}

using Infer = std::vector<TensorType> (*)(Types, const Attributes&);

std::vector<TensorType> infer_scores(Types inputs, const Attributes&) {
  return {scores_type(inputs[0], inputs[1])};
}
std::vector<TensorType> infer_as_first(Types inputs, const Attributes&) { return {inputs[0]}; }
std::vector<TensorType> infer_dropout(Types inputs, const Attributes&) {
  return {inputs[0], {.shape = inputs[0].shape, .dtype = DType::kBool}};
}
std::vector<TensorType> infer_rows(Types inputs, const Attributes&) {
  return {operand_type(inputs[0], inputs[1], kRows)};
}
std::vector<TensorType> infer_columns(Types inputs, const Attributes&) {
  return {operand_type(inputs[0], inputs[1], kColumns)};
}

// ---------------------------------------------------------------- work

// The whole square: the mask is laid over what was computed. The key counts the batch as rows.
Work product_work(Types inputs, Types outputs, const TensorType& scores, std::int64_t head_size) {
  const std::int64_t pairs = scores.shape.elements();
  const TensorType& y = outputs[0];
  const bool makes_scores = y.shape == scores.shape;
  const std::int64_t n = makes_scores ? scores.shape[kColumns] : head_size;
  const std::int64_t k = makes_scores ? head_size : scores.shape[kColumns];
  return streaming_work(
      inputs, outputs, 2.0 * static_cast<Flops>(pairs) * static_cast<Flops>(head_size),
      fmt::format("matmul:{}x{}x{}", y.shape.elements() / std::max<std::int64_t>(n, 1), n, k));
}

Work scores_work(Types inputs, Types outputs, const Attributes&) {
  return product_work(inputs, outputs, outputs[0], inputs[0].shape[3]);
}
Work context_work(Types inputs, Types outputs, const Attributes&) {
  return product_work(inputs, outputs, inputs[0], inputs[1].shape[3]);
}
Work pass_work(Types inputs, Types outputs, const Attributes&) {
  constexpr Flops kFlopsPerElement = 5;
  return streaming_work(inputs, outputs,
                        kFlopsPerElement * static_cast<Flops>(inputs[0].shape.elements()),
                        "elementwise");
}

// ---------------------------------------------------------------- words

// `scores`: which operands are [b, h, s, t], inputs first.
Rows rows_of(std::size_t num_inputs, const std::vector<bool>& scores) {
  Rows rows{all_broadcast(num_inputs, scores.size() - num_inputs)};
  SbpSignature batch, heads;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    (i < num_inputs ? batch.inputs : batch.outputs).push_back(Sbp::split(kBatch));
    (i < num_inputs ? heads.inputs : heads.outputs)
        .push_back(Sbp::split(scores[i] ? kScoreHeads : kHeads));
  }
  rows.push_back(batch);
  rows.push_back(heads);
  return rows;
}

Rows scores_rows(Types, Types, const Attributes&) { return rows_of(2, {false, false, true}); }
Rows context_rows(Types, Types, const Attributes&) { return rows_of(2, {true, false, false}); }
Rows context_grad_p_rows(Types, Types, const Attributes&) {
  return rows_of(2, {false, false, true});
}
Rows rows_of_passes(Types inputs, Types outputs, const Attributes&) {
  return rows_of(inputs.size(), std::vector<bool>(inputs.size() + outputs.size(), true));
}
// Of what has one shape everywhere, of any rank.
Rows elementwise_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows{all_broadcast(inputs.size(), outputs.size())};
  for (std::size_t dim = 0; dim < inputs[0].shape.rank(); ++dim)
    rows.push_back({std::vector<Sbp>(inputs.size(), Sbp::split(dim)),
                    std::vector<Sbp>(outputs.size(), Sbp::split(dim))});
  return rows;
}

// ---------------------------------------------------------------- gradients

void scores_gradient(GradientContext& context) {
  const TensorId ds = *context.output_gradient(0);
  context.set_input_gradient(0,
                             context.add("attention_scores_grad_q", {ds, context.input(1)}, {}, 0));
  context.set_input_gradient(1,
                             context.add("attention_scores_grad_k", {ds, context.input(0)}, {}, 1));
}

void probabilities_gradient(GradientContext& context) {
  context.set_input_gradient(0,
                             context.add("attention_probabilities_grad",
                                         {context.output(0), *context.output_gradient(0)}, {}, 0));
}

void dropout_gradient(GradientContext& context) {
  context.set_input_gradient(
      0, context.add("attention_dropout_grad", {*context.output_gradient(0), context.output(1)}, {},
                     0));
}

void masked_gradient(GradientContext& context) {
  context.set_input_gradient(
      0,
      context.add("masked_dropout_grad", {*context.output_gradient(0), context.output(1)}, {}, 0));
}

void context_gradient(GradientContext& context) {
  const TensorId d_o = *context.output_gradient(0);
  context.set_input_gradient(
      0, context.add("attention_context_grad_p", {d_o, context.input(1)}, {}, 0));
  context.set_input_gradient(
      1, context.add("attention_context_grad_v", {context.input(0), d_o}, {}, 1));
}

using RowsOf = Rows (*)(Types, Types, const Attributes&);
using WorkOf = Work (*)(Types, Types, const Attributes&);

OperatorDef kind_of(const char* kind, std::size_t inputs, Infer infer, WorkOf work, RowsOf rows) {
  OperatorDef def;
  def.kind = kind;
  def.min_inputs = def.max_inputs = inputs;
  def.infer = infer;
  def.work = work;
  def.signatures = rows;
  return def;
}

void add_part(OperatorRegistry& registry, const char* kind, std::size_t inputs, Infer infer,
              WorkOf work, RowsOf rows, void (*gradient)(GradientContext&) = nullptr) {
  OperatorDef def = kind_of(kind, inputs, infer, work, rows);
  def.role = OperatorRole::kAttentionPart;
  def.gradient = gradient;
  registry.add(std::move(def));
}

// Dropout that keeps its mask, a byte per element, instead of drawing it again.
OperatorDef masked_dropout(const OperatorDef& builtin) {
  OperatorDef def = builtin;
  def.infer = infer_dropout;
  def.work = pass_work;
  def.signatures = elementwise_rows;
  def.gradient = masked_gradient;
  return def;
}

OperatorRegistry make_registry() {
  OperatorRegistry registry;
  for (const std::string& kind : builtin_operators().kinds()) {
    const OperatorDef& def = builtin_operators().get(kind);
    registry.add(kind == "dropout" ? masked_dropout(def) : def);
  }
  registry.add(kind_of("masked_dropout_grad", 2, infer_as_first, pass_work, elementwise_rows));
  add_part(registry, "attention_scores", 2, infer_scores, scores_work, scores_rows,
           scores_gradient);
  add_part(registry, "attention_scores_grad_q", 2, infer_rows, context_work, context_rows);
  add_part(registry, "attention_scores_grad_k", 2, infer_columns, context_work, context_rows);
  add_part(registry, "attention_probabilities", 1, infer_as_first, pass_work, rows_of_passes,
           probabilities_gradient);
  add_part(registry, "attention_probabilities_grad", 2, infer_as_first, pass_work, rows_of_passes);
  add_part(registry, "attention_dropout", 1, infer_dropout, pass_work, rows_of_passes,
           dropout_gradient);
  add_part(registry, "attention_dropout_grad", 2, infer_as_first, pass_work, rows_of_passes);
  add_part(registry, "attention_context", 2, infer_rows, context_work, context_rows,
           context_gradient);
  add_part(registry, "attention_context_grad_p", 2, infer_scores, scores_work, context_grad_p_rows);
  add_part(registry, "attention_context_grad_v", 2, infer_columns, context_work, context_rows);
  return registry;
}

// ---------------------------------------------------------------- graph

class WrittenAttentionWriter : public GraphRewriter {
 public:
  WrittenAttentionWriter(const LogicalGraph& forward, double dropout)
      : GraphRewriter(forward, written_attention_operators()), dropout_(dropout) {}

  LogicalGraph run() {
    for (std::size_t index = 0; index < original().ops().size(); ++index)
      if (original().op(OpId(index)).role == OperatorRole::kAttention)
        write(original().op(OpId(index)));
      else
        copy(OpId(index));
    return std::move(*this).finish();
  }

 private:
  TensorId written(const LogicalOp& origin, const std::string& kind, std::vector<TensorId> inputs) {
    const std::string part = kind.substr(std::string("attention").size());
    return graph().output(add_part(origin, kind, origin.name + part, std::move(inputs)));
  }

  void write(const LogicalOp& op) {
    const TensorId q = copied(op.inputs[0]), k = copied(op.inputs[1]), v = copied(op.inputs[2]);
    require(graph().tensor(q).type.shape == graph().tensor(k).type.shape, ErrorCode::kInfeasible,
            "{}: grouped heads, which programs without FlashAttention did not have", op.name);
    const TensorId scores = written(op, "attention_scores", {q, k});
    TensorId p = written(op, "attention_probabilities", {scores});
    if (dropout_ > 0) p = written(op, "attention_dropout", {p});
    stand_for(op.outputs[0], written(op, "attention_context", {p, v}));
  }

  double dropout_;
};

}  // namespace

const OperatorRegistry& written_attention_operators() {
  static const OperatorRegistry registry = make_registry();
  return registry;
}

LogicalGraph with_written_attention(const LogicalGraph& forward, double dropout) {
  return WrittenAttentionWriter(forward, dropout).run();
}

}  // namespace sextant
