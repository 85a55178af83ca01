// x, y and their gradients are [..., classes] in f32, labels [...].
//
// | kind(operands) | words in | words out |
// |---|---|---|
// | log_softmax(x), log_softmax_grad(y, dy) | all S(d) | S(d) |
// | nll_loss(y, labels) | all S(d) | both P(sum) |
// | nll_loss_grad(y, labels, dloss) | S(d), dloss B | S(d) |
#include "experiments/accuracy/pytorch_graph.h"

#include "core/base/check.h"
#include "core/graphs/graph_rewriter.h"
#include "core/operators/rules.h"

#include <utility>
#include <vector>

namespace sextant {
namespace {

// ---------------------------------------------------------------- types and work

std::vector<TensorType> infer_same(Types inputs, const Attributes&) { return {inputs[0]}; }
std::vector<TensorType> infer_loss(Types, const Attributes&) {
  const TensorType scalar{.shape = Shape(), .dtype = DType::kF32};
  return {scalar, scalar};
}

// Rows of many classes are read for their maximum, their sum and the result, by the gradient for a
// sum and the result.
template <int kReads>
Work softmax_work(Types inputs, Types outputs, const Attributes&) {
  Work work = elementwise_work(inputs, outputs, 5, "reduction");
  work.read = kReads * work.read;
  return work;
}

// Rotary positions: cast to f32, a product of complex numbers, cast back: 20 bytes for the 4 of one
// kernel. Norms: cast, square, mean, product, cast, weight; measured on one H200 (16,384 x 4,096,
// bf16), forward takes as long as 13 passes of a copy of 4 bytes per element, backward as 10 of
// ours.
constexpr std::int64_t kRopePasses = 5, kNormPasses = 13, kNormGradPasses = 10;

template <std::int64_t kPasses>
Work chain_work(Types inputs, Types outputs, const Attributes&) {
  Work work = elementwise_work(inputs, outputs, 4, "elementwise");
  work.read = kPasses * work.read;
  work.written = kPasses * work.written;
  return work;
}
// One value of each row.
Work loss_work(Types inputs, Types outputs, const Attributes&) {
  return {.flops = 0,
          .read = 2 * size_of(inputs[1]),
          .written = size_of(outputs[0]),
          .kernel = "reduction"};
}
// Zeros, and one value of each row.
Work loss_grad_work(Types inputs, Types outputs, const Attributes&) {
  return {.flops = 0,
          .read = size_of(inputs[1]),
          .written = size_of(outputs[0]),
          .kernel = "elementwise"};
}

// ---------------------------------------------------------------- words

// S(d) of every operand for every dim of the labels.
Rows token_rows(const TensorType& x, std::size_t num_inputs, std::vector<Sbp> sums) {
  const std::size_t num_outputs = sums.empty() ? 1 : sums.size();
  Rows rows{all_broadcast(num_inputs, num_outputs)};
  for (std::size_t dim = 0; dim + 1 < x.shape.rank(); ++dim)
    rows.push_back({std::vector<Sbp>(num_inputs, Sbp::split(dim)),
                    sums.empty() ? std::vector<Sbp>{Sbp::split(dim)} : sums});
  return rows;
}
Rows pass_rows(Types inputs, Types, const Attributes&) {
  return token_rows(inputs[0], inputs.size(), {});
}
Rows loss_rows(Types inputs, Types, const Attributes&) {
  return token_rows(inputs[0], inputs.size(), {kPartialSum, kPartialSum});
}
Rows loss_grad_rows(Types inputs, Types, const Attributes&) {
  Rows rows = token_rows(inputs[0], inputs.size(), {});
  for (SbpSignature& row : rows) row.inputs[2] = kBroadcast;
  return rows;
}

// ---------------------------------------------------------------- gradients

void softmax_gradient(GradientContext& context) {
  context.set_input_gradient(
      0, context.add("log_softmax_grad", {context.output(0), *context.output_gradient(0)}, {}, 0));
}
void loss_gradient(GradientContext& context) {
  context.set_input_gradient(
      0, context.add("nll_loss_grad",
                     {context.input(0), context.input(1), *context.output_gradient(0)}, {}, 0));
}

OperatorDef chained(OperatorDef def) {
  if (def.kind == "rope") def.work = chain_work<kRopePasses>;
  if (def.kind == "rms_norm") def.work = chain_work<kNormPasses>;
  if (def.kind.starts_with("rms_norm_grad")) def.work = chain_work<kNormGradPasses>;
  return def;
}

OperatorRegistry make_registry(bool chains_norms) {
  OperatorRegistry registry;
  for (const std::string& kind : builtin_operators().kinds()) {
    const OperatorDef& def = builtin_operators().get(kind);
    registry.add(chains_norms ? chained(def) : def);
  }
  const auto add = [&](const char* kind, std::size_t inputs, auto infer, auto work, auto rows,
                       void (*gradient)(GradientContext&) = nullptr) {
    OperatorDef def;
    def.kind = kind;
    def.min_inputs = def.max_inputs = inputs;
    def.infer = infer;
    def.work = work;
    def.signatures = rows;
    def.gradient = gradient;
    registry.add(std::move(def));
  };
  add("log_softmax", 1, infer_same, softmax_work<3>, pass_rows, softmax_gradient);
  add("log_softmax_grad", 2, infer_same, softmax_work<2>, pass_rows);
  add("nll_loss", 2, infer_loss, loss_work, loss_rows, loss_gradient);
  add("nll_loss_grad", 3, infer_same, loss_grad_work, loss_grad_rows);
  return registry;
}

// ---------------------------------------------------------------- graph

bool is_part_of_loss(const std::string& kind) {
  return kind == "row_max" || kind == "row_sum_exp" || kind == "pick";
}

class PyTorchWriter : public GraphRewriter {
 public:
  PyTorchWriter(const LogicalGraph& forward, const PyTorchGraph& options)
      : GraphRewriter(forward, pytorch_operators(options.chains_norms)),
        writes_loss_(options.writes_loss) {}

  LogicalGraph run() {
    for (const LogicalOp& op : original().ops())
      require(
          !writes_loss_ || op.role != OperatorRole::kLoss || !op.attributes.contains("smoothing"),
          ErrorCode::kInfeasible, "{}: smoothed labels, which are not written out", op.name);
    for (std::size_t index = 0; index < original().ops().size(); ++index) {
      const OpId id(index);
      if (writes_loss_ && original().op(id).role == OperatorRole::kLoss)
        write(id);
      else if (!writes_loss_ || !is_part_of_loss(original().op(id).kind))
        copy(id);
    }
    return std::move(*this).finish();
  }

 private:
  // cross_entropy(logits, max, sum, picked, labels)
  void write(OpId id) {
    const LogicalOp& op = original().op(id);
    TensorId x = copied(op.inputs[0]);
    if (graph().tensor(x).type.dtype != DType::kF32)
      x = graph().output(add_part(op, "cast", op.name + ".wide", {x}, {{"dtype", "f32"}}));
    const TensorId y = graph().output(add_part(op, "log_softmax", op.name + ".log_softmax", {x}));
    stand_for(id, add_part(op, "nll_loss", op.name, {y, copied(op.inputs[4])}));
  }

  bool writes_loss_;
};

}  // namespace

const OperatorRegistry& pytorch_operators(bool chains_norms) {
  static const OperatorRegistry fused = make_registry(false), chained = make_registry(true);
  return chains_norms ? chained : fused;
}

LogicalGraph as_pytorch(const LogicalGraph& forward, const PyTorchGraph& options) {
  return PyTorchWriter(forward, options).run();
}

}  // namespace sextant
