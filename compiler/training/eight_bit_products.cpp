// Which products are chosen, which copies they want of which tensors, and the graph written again.
#include "compiler/training/eight_bit_products.h"

#include "compiler/training/autodiff.h"
#include "compiler/training/dead_operators.h"
#include "compiler/training/rates.h"
#include "core/base/check.h"
#include "core/graphs/graph_rewriter.h"
#include "core/graphs/operator.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

// Rows of operands begin at multiples of 16 bytes.
constexpr std::int64_t kStep = 16;

bool transposes_weight(const LogicalOp& op) {
  return op.attributes.boolean_or("transpose_w", false);
}

// The linear layers of a graph and the products that belong to them.
class LinearLayers {
 public:
  explicit LinearLayers(const LogicalGraph& training)
      : training_(training),
        rates_(rates_of(training)),
        loss_layer_(training.op(training.tensor(*training.loss_sum()).producer).layer) {
    for (std::size_t index = 0; index < training.ops().size(); ++index)
      if (is_linear_layer(OpId(index))) add_layer(OpId(index));
    for (std::size_t index = 0; index < training.ops().size(); ++index) {
      const LogicalOp& op = training.op(OpId(index));
      if (op.phase == Phase::kForward || op.role != OperatorRole::kProduct) continue;
      const auto read = activations_.find(op.inputs[1]);
      if (read == activations_.end() || op.layer == loss_layer_) continue;
      products_.insert(OpId(index));
      gradients_.insert(op.inputs[0]);
      for (const TensorId x : read->second) factors_.insert({x, op.inputs[0]});
    }
    for (std::size_t index = 0; index < training.ops().size(); ++index) {
      const LogicalOp& op = training.op(OpId(index));
      if (op.role == OperatorRole::kProductWeightGradient && is_of_layer(op))
        products_.insert(OpId(index));
    }
  }

  bool empty() const { return products_.empty(); }
  bool contains(OpId op) const { return products_.count(op) != 0; }
  // The parameter that a weight is, cast or not.
  TensorId parameter_of(TensorId weight) const {
    while (maker(weight).role == OperatorRole::kCast) weight = maker(weight).inputs[0];
    return weight;
  }

 private:
  const LogicalOp& maker(TensorId tensor) const {
    return training_.op(training_.tensor(tensor).producer);
  }
  const TensorType& type(TensorId tensor) const { return training_.tensor(tensor).type; }

  bool is_linear_layer(OpId id) const {
    const LogicalOp& op = training_.op(id);
    if (op.role != OperatorRole::kProduct || op.phase != Phase::kForward ||
        op.layer == loss_layer_ || rates_[id.index()] == Rate::kPerStep)
      return false;
    if (maker(parameter_of(op.inputs[1])).role != OperatorRole::kParameter) return false;
    const Shape &x = type(op.inputs[0]).shape, &w = type(op.inputs[1]).shape;
    const std::int64_t rows = x.elements() / std::max<std::int64_t>(x[x.rank() - 1], 1);
    return rows % kStep == 0 && w[0] % kStep == 0 && w[1] % kStep == 0 && !chooses(op);
  }

  // Whether something is chosen by the result: a path to integers that no other product is on.
  bool chooses(const LogicalOp& product) const {
    std::vector<TensorId> open = product.outputs;
    std::set<OpId> seen;
    while (!open.empty()) {
      const TensorId tensor = open.back();
      open.pop_back();
      for (const LogicalGraph::Use& use : training_.uses(tensor)) {
        const LogicalOp& reader = training_.op(use.op);
        const bool ends = reader.phase != Phase::kForward || reader.layer != product.layer ||
                          is_product(reader.role) || is_attention(reader.role) ||
                          reader.role == OperatorRole::kExpertDispatch ||
                          reader.role == OperatorRole::kExpertCombine;
        if (ends || !seen.insert(use.op).second) continue;
        for (const TensorId output : reader.outputs) {
          const DType dtype = type(output).dtype;
          if (dtype == DType::kI32 || dtype == DType::kI64) return true;
          open.push_back(output);
        }
      }
    }
    return false;
  }

  void add_layer(OpId id) {
    products_.insert(id);
    activations_[training_.op(id).inputs[1]].push_back(training_.op(id).inputs[0]);
  }

  // By x and dy, which the layer's other products read; where there is no other gradient, the
  // activation meets none, by x, which then all products that read it must agree on.
  bool is_of_layer(const LogicalOp& weight_gradient) const {
    const TensorId x = weight_gradient.inputs[0], dy = weight_gradient.inputs[1];
    if (gradients_.count(dy) != 0) return factors_.count({x, dy}) != 0;
    bool is_read = false;
    for (const LogicalGraph::Use& use : training_.uses(weight_gradient.inputs[0])) {
      const LogicalOp& reader = training_.op(use.op);
      if (reader.role != OperatorRole::kProduct || reader.phase != Phase::kForward) continue;
      if (use.input != 0 || products_.count(use.op) == 0) return false;
      is_read = true;
    }
    return is_read;
  }

  const LogicalGraph& training_;
  const std::vector<Rate> rates_;
  const int loss_layer_;
  std::set<OpId> products_;
  std::map<TensorId, std::vector<TensorId>> activations_;  // of forward products, by weight
  std::set<TensorId> gradients_;                           // of what forward products made
  std::set<std::pair<TensorId, TensorId>> factors_;        // of gradients of weights: x, dy
};

// The layer of its readers: a stage may end in front of it, and what passes is the tensor.
struct Wanted {
  TensorId tensor;
  int layer = 0;
  bool operator<(const Wanted& other) const {
    return std::pair(tensor, layer) < std::pair(other.tensor, other.layer);
  }
};

enum class FactorOrder : std::uint8_t { kRows, kColumns };

// The two factors of a product as `scaled_matmul` takes them.
struct Factor {
  TensorId tensor;
  FactorOrder order = FactorOrder::kRows;
  bool is_gradient = false;
};
struct Factors {
  Factor a, b;
  std::int64_t contracted = 1;
};

class EightBitProducts {
 public:
  explicit EightBitProducts(const LogicalGraph& training)
      : training_(training), layers_(training), rewriter_(training) {}

  LogicalGraph run() {
    require(!layers_.empty(), ErrorCode::kInfeasible,
            "precision=fp8: the model has no product of a linear layer outside of its head whose "
            "extents are multiples of {}",
            kStep);
    for_each_product([&](OpId id) {
      const Factors factors = factors_of(training_.op(id));
      note(factors.a, training_.op(id));
      note(factors.b, training_.op(id));
    });
    for (std::size_t index = 0; index < training_.ops().size(); ++index)
      if (layers_.contains(OpId(index)))
        replace(OpId(index));
      else
        rewriter_.copy(OpId(index));
    return without_dead_operators(std::move(rewriter_).finish());
  }

 private:
  // A tensor in 8 bits.
  struct Quantized {
    bool wants_rows = false, wants_columns = false, is_gradient = false;
    Phase phase = Phase::kForward;
    bool is_made = false;
    TensorId scale, rows, columns;
  };

  template <typename Visit>
  void for_each_product(const Visit& visit) const {
    for (std::size_t index = 0; index < training_.ops().size(); ++index)
      if (layers_.contains(OpId(index))) visit(OpId(index));
  }

  // What is summed over stands last in rows and first in columns.
  Factors factors_of(const LogicalOp& op) const {
    const bool transposed = transposes_weight(op);
    const bool is_forward = op.phase == Phase::kForward;
    if (op.role == OperatorRole::kProduct)
      return {.a = {op.inputs[0], FactorOrder::kRows, !is_forward},
              .b = {layers_.parameter_of(op.inputs[1]),
                    transposed ? FactorOrder::kRows : FactorOrder::kColumns, false}};
    const Factor x{op.inputs[0], FactorOrder::kColumns, false},
        dy{op.inputs[1], FactorOrder::kColumns, true};
    const std::size_t rank = training_.tensor(op.inputs[0]).type.shape.rank();
    return {.a = transposed ? dy : x,
            .b = transposed ? x : dy,
            .contracted = static_cast<std::int64_t>(rank) - 1};
  }

  void note(const Factor& factor, const LogicalOp& reader) {
    const auto [place, is_new] = wanted_.try_emplace({factor.tensor, reader.layer});
    Quantized& quantized = place->second;
    (factor.order == FactorOrder::kRows ? quantized.wants_rows : quantized.wants_columns) = true;
    if (is_new) {
      quantized.is_gradient = factor.is_gradient;
      quantized.phase = reader.phase;
    } else if (reader.phase == Phase::kForward ||
               (reader.phase == Phase::kInputGrad && quantized.phase == Phase::kWeightGrad)) {
      quantized.phase = reader.phase;
    }
  }

  void replace(OpId id) {
    const LogicalOp& op = training_.op(id);
    const Factors factors = factors_of(op);
    const Quantized &a = made(factors.a, op, "a"), &b = made(factors.b, op, "b");
    const auto operand = [](const Factor& factor, const Quantized& quantized) {
      return factor.order == FactorOrder::kRows ? quantized.rows : quantized.columns;
    };
    const DType dtype = training_.tensor(op.outputs[0]).type.dtype;
    LogicalOp product = op;
    product.kind = "scaled_matmul";
    product.attributes = {{"out_dtype", std::string(to_string(dtype))}};
    if (factors.contracted != 1) product.attributes.set("contracted", factors.contracted);
    product.inputs = {operand(factors.a, a), operand(factors.b, b), a.scale, b.scale};
    rewriter_.put(std::move(product), id);
  }

  // Before the first product that reads it.
  const Quantized& made(const Factor& factor, const LogicalOp& reader, const char* what) {
    Quantized& quantized = wanted_.at({factor.tensor, reader.layer});
    if (quantized.is_made) return quantized;
    quantized.is_made = true;
    const LogicalOp& maker = training_.op(training_.tensor(factor.tensor).producer);
    const std::string name = maker.role == OperatorRole::kParameter
                                 ? maker.name
                                 : fmt::format("{}.{}", reader.name, what);
    LogicalOp place = reader;
    place.phase = quantized.phase;
    const std::string dtype = quantized.is_gradient ? "e5m2" : "e4m3";
    const TensorId x = rewriter_.copied(factor.tensor);
    LogicalGraph& graph = rewriter_.graph();
    quantized.scale = graph.output(rewriter_.add_part(
        place, "quantize_scale", unused_name(graph, name + ".scale"), {x}, {{"dtype", dtype}}));
    const char* const layout = !quantized.wants_columns ? "rows"
                               : !quantized.wants_rows  ? "columns"
                                                        : "both";
    const OpId op = rewriter_.add_part(place, "quantize", unused_name(graph, name + ".quantized"),
                                       {x, quantized.scale},
                                       {{"dtype", dtype}, {"layout", std::string(layout)}});
    if (quantized.wants_rows) quantized.rows = graph.output(op);
    if (quantized.wants_columns) quantized.columns = graph.output(op, quantized.wants_rows ? 1 : 0);
    return quantized;
  }

  const LogicalGraph& training_;
  const LinearLayers layers_;
  GraphRewriter rewriter_;
  std::map<Wanted, Quantized> wanted_;
};

}  // namespace

LogicalGraph with_eight_bit_products(LogicalGraph training, const Strategy& strategy) {
  if (strategy.precision != Precision::kFp8) return training;
  return EightBitProducts(training).run();
}

}  // namespace sextant
