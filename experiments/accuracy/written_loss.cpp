// x, y and their gradients are [..., classes] in f32, labels [...].
//
// | kind(operands) | words in | words out |
// |---|---|---|
// | log_softmax(x), log_softmax_grad(y, dy) | all S(d) | S(d) |
// | nll_loss(y, labels) | all S(d) | both P(sum) |
// | nll_loss_grad(y, labels, dloss) | S(d), dloss B | S(d) |
#include "experiments/accuracy/written_loss.h"

#include "core/check.h"
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

// Maximum, sum and result: rows of many classes are read three times, by softmax and its gradient
// (of which the sum of dy) twice.
Work softmax_work(Types inputs, Types outputs, const Attributes&) {
  Work work = elementwise_work(inputs, outputs, 5, "reduction");
  work.read = 2 * work.read;
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

OperatorRegistry make_registry() {
  OperatorRegistry registry;
  for (const std::string& kind : builtin_operators().kinds())
    registry.add(builtin_operators().get(kind));
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
  add("log_softmax", 1, infer_same, softmax_work, pass_rows, softmax_gradient);
  add("log_softmax_grad", 2, infer_same, softmax_work, pass_rows);
  add("nll_loss", 2, infer_loss, loss_work, loss_rows, loss_gradient);
  add("nll_loss_grad", 3, infer_same, loss_grad_work, loss_grad_rows);
  return registry;
}

// ---------------------------------------------------------------- graph

bool is_part_of_loss(const std::string& kind) {
  return kind == "row_max" || kind == "row_sum_exp" || kind == "pick";
}

class Writer {
 public:
  explicit Writer(const LogicalGraph& forward)
      : forward_(forward), graph_(written_loss_operators()), copies_(forward.tensors().size()) {}

  LogicalGraph run() {
    for (const LogicalOp& op : forward_.ops())
      require(op.kind != "cross_entropy" || !op.attributes.contains("smoothing"),
              ErrorCode::kInfeasible, "{}: smoothed labels, which are not written out", op.name);
    for (const LogicalOp& op : forward_.ops()) {
      if (op.kind == "cross_entropy")
        write(op);
      else if (!is_part_of_loss(op.kind))
        copy(op);
    }
    if (forward_.loss_sum())
      graph_.set_loss(copies_[forward_.loss_sum()->index()],
                      copies_[forward_.token_count()->index()]);
    return std::move(graph_);
  }

 private:
  void copy(LogicalOp op) {
    const std::vector<TensorId> outputs = std::exchange(op.outputs, {});
    for (TensorId& input : op.inputs) input = copies_[input.index()];
    note(outputs, graph_.add(std::move(op)));
  }

  void note(const std::vector<TensorId>& outputs, OpId added) {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      copies_[outputs[i].index()] = graph_.output(added, i);
  }

  OpId add(const LogicalOp& origin, const char* kind, const char* name,
           std::vector<TensorId> inputs, Attributes attributes = {}) {
    LogicalOp op;
    op.kind = kind;
    op.name = origin.name + name;
    op.attributes = std::move(attributes);
    op.inputs = std::move(inputs);
    op.layer = origin.layer;
    return graph_.add(std::move(op));
  }

  // cross_entropy(logits, max, sum, picked, labels)
  void write(const LogicalOp& op) {
    TensorId x = copies_[op.inputs[0].index()];
    if (graph_.tensor(x).type.dtype != DType::kF32)
      x = graph_.output(add(op, "cast", ".wide", {x}, {{"dtype", "f32"}}));
    const TensorId y = graph_.output(add(op, "log_softmax", ".log_softmax", {x}));
    note(op.outputs, add(op, "nll_loss", "", {y, copies_[op.inputs[4].index()]}));
  }

  const LogicalGraph& forward_;
  LogicalGraph graph_;
  std::vector<TensorId> copies_;
};

}  // namespace

const OperatorRegistry& written_loss_operators() {
  static const OperatorRegistry registry = make_registry();
  return registry;
}

LogicalGraph with_written_loss(const LogicalGraph& forward) { return Writer(forward).run(); }

}  // namespace sextant
