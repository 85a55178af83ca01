// Proposes operators and keeps those that are fit.
#include "tests/conformance/signatures/signature_graphs.h"

#include "core/base/error.h"
#include "core/operators/movement/sources.h"
#include "tests/conformance/signatures/signature_cases.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr double kLargest = 1000, kChange = 1e-12, kAnswer = 1e-7;

bool is_usable(const OperatorDef& def) {
  return def.examples != nullptr && def.max_inputs > 0 && !def.on_host && def.state_outputs.empty();
}

bool has_usable_types(const SignatureCase& on) {
  const auto is_other_floating = [](const TensorType& type) {
    return is_floating(type.dtype) && type.dtype != DType::kF64;
  };
  return std::none_of(on.on.inputs.begin(), on.on.inputs.end(), is_other_floating) &&
         std::none_of(on.outputs.begin(), on.outputs.end(), is_other_floating);
}

// The case with the extents of input `slot` renamed to those of `type`, wherever they stand.
std::optional<SignatureCase> renamed(const SignatureCase& on, std::size_t slot,
                                     const TensorType& type) {
  const TensorType& input = on.on.inputs[slot];
  if (input == type) return on;
  if (input.dtype != type.dtype || input.shape.rank() != type.shape.rank()) return std::nullopt;
  std::map<std::int64_t, std::int64_t> names;
  for (std::size_t dim = 0; dim < input.shape.rank(); ++dim) {
    const std::int64_t from = input.shape[dim], to = type.shape[dim];
    if (is_counted(on, from) && to < from) return std::nullopt;
    if (names.emplace(from, to).first->second != to) return std::nullopt;
  }
  return with_extents(on, [&](std::int64_t extent) {
    const auto found = names.find(extent);
    return found == names.end() ? extent : found->second;
  });
}

class Builder {
 public:
  explicit Builder(const std::string& stream) : random_(stream) {
    const OperatorRegistry& registry = builtin_operators();
    for (const std::string& kind : registry.kinds())
      if (is_usable(registry.get(kind))) kinds_.push_back(&registry.get(kind));
  }

  // True when an operator was added.
  bool propose() {
    const std::vector<SignatureCase> examples =
        example_cases(*kinds_[random_.index(kinds_.size())]);
    if (examples.empty()) return false;
    std::optional<SignatureCase> on = examples[random_.index(examples.size())];
    std::optional<std::pair<std::size_t, TensorId>> given;
    if (!made_.empty()) {
      given = {random_.index(on->on.inputs.size()), made_[random_.index(made_.size())]};
      on = renamed(*on, given->first, result_.graph.tensor(given->second).type);
    }
    return on && has_usable_types(*on) && add(*on, given);
  }

  RandomGraph result() { return std::move(result_); }
  std::size_t num_ops() const { return num_ops_; }

 private:
  // An input of the proposed operator: a tensor of the graph, or a new source with these values.
  struct Source {
    std::optional<TensorId> tensor;
    Piece piece;
    bool is_made = false;
  };

  bool add(const SignatureCase& on, std::optional<std::pair<std::size_t, TensorId>> given) {
    Random values("values" + std::to_string(random_.integer(0, 1 << 30)));
    GlobalRun run = run_globally(on, Shares::kFractions, values);
    std::vector<Source> sources;
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
      std::optional<TensorId> tensor = choose(on, i);
      if (given && given->first == i) tensor = given->second;
      if (tensor && !is_in_range(on, i, *tensor)) return false;
      sources.push_back({.tensor = tensor,
                         .piece = tensor ? result_.values.at(*tensor) : run.inputs[i],
                         .is_made = tensor && is_made(*tensor)});
    }
    try {
      const std::vector<Piece> outputs = run_on(on, sources, 0);
      if (!is_tame(outputs) || !is_stable(on, sources, outputs)) return false;
      append(on, sources, outputs);
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  // A tensor of the graph of the right type, in half of the cases where there is one.
  std::optional<TensorId> choose(const SignatureCase& on, std::size_t input) {
    std::vector<TensorId> fitting;
    for (const auto& [tensor, piece] : result_.values)
      if (piece.global == on.on.inputs[input] && is_in_range(on, input, tensor))
        fitting.push_back(tensor);
    if (fitting.empty() || random_.integer(0, 1) == 0) return std::nullopt;
    return fitting[random_.index(fitting.size())];
  }

  bool is_in_range(const SignatureCase& on, std::size_t input, TensorId tensor) const {
    const std::vector<double>& values = result_.values.at(tensor).values;
    if (on.on.ranges.empty()) return true;
    const auto [first, last] = on.on.ranges[input];
    return std::all_of(values.begin(), values.end(), [first = first, last = last](double value) {
      return value >= static_cast<double>(first) && value <= static_cast<double>(last);
    });
  }

  bool is_made(TensorId tensor) const {
    return std::find(made_.begin(), made_.end(), tensor) != made_.end();
  }

  // Runs on the inputs, those that operators made changed by up to this much of the largest
  // element.
  std::vector<Piece> run_on(const SignatureCase& on, const std::vector<Source>& sources,
                            double change) {
    std::vector<Piece> inputs, outputs;
    for (const Source& source : sources) {
      inputs.push_back(source.piece);
      if (!source.is_made || !is_floating(source.piece.global.dtype)) continue;
      const double unit = change * largest_of(source.piece.values);
      for (double& value : inputs.back().values)
        value += unit * static_cast<double>(random_.integer(-4, 4)) / 4;
    }
    for (const TensorType& type : on.outputs) outputs.push_back(blank(type));
    run_operator(on.def->kind, on.on.attributes, inputs, outputs);
    return outputs;
  }

  static bool is_tame(const std::vector<Piece>& outputs) {
    for (const Piece& output : outputs)
      for (const double value : output.values)
        if (!(std::abs(value) <= kLargest)) return false;
    return true;
  }

  bool is_stable(const SignatureCase& on, const std::vector<Source>& sources,
                 const std::vector<Piece>& outputs) {
    // A step between two values is met from one side only: every try misses it in half of the
    // cases.
    constexpr int kTries = 16;
    for (int attempt = 0; attempt < kTries; ++attempt) {
      const std::vector<Piece> answers = run_on(on, sources, kChange);
      for (std::size_t i = 0; i < outputs.size(); ++i)
        for (std::size_t at = 0; at < outputs[i].values.size(); ++at)
          if (!(std::abs(answers[i].values[at] - outputs[i].values[at]) <= kAnswer)) return false;
    }
    return true;
  }

  void append(const SignatureCase& on, const std::vector<Source>& sources,
              const std::vector<Piece>& outputs) {
    std::vector<TensorId> inputs;
    for (const Source& source : sources) {
      if (source.tensor) {
        inputs.push_back(*source.tensor);
        continue;
      }
      const std::string name = "in" + std::to_string(result_.graph.ops().size());
      inputs.push_back(add_input(result_.graph, name, 0, source.piece.global));
      result_.values[inputs.back()] = source.piece;
    }
    const OpId op = result_.graph.add({.kind = on.def->kind,
                                       .name = "op" + std::to_string(result_.graph.ops().size()),
                                       .attributes = on.on.attributes,
                                       .inputs = std::move(inputs),
                                       .outputs = {},
                                       .phase = Phase::kForward,
                                       .layer = 0,
                                       .parameter = std::nullopt});
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      made_.push_back(result_.graph.output(op, i));
      result_.values[made_.back()] = outputs[i];
    }
    ++num_ops_;
  }

  Random random_;
  std::vector<const OperatorDef*> kinds_;
  RandomGraph result_;
  std::vector<TensorId> made_;
  std::size_t num_ops_ = 0;
};

}  // namespace

RandomGraph random_graph(const std::string& stream, std::size_t num_ops) {
  constexpr int kProposals = 200;  // some tensors fit no other operator
  Builder builder(stream);
  for (int i = 0; i < kProposals && builder.num_ops() < num_ops; ++i) builder.propose();
  return builder.result();
}

std::string to_string(const RandomGraph& random) {
  std::string text;
  for (const LogicalOp& op : random.graph.ops()) {
    if (op.inputs.empty()) continue;
    text += (text.empty() ? "" : "; ") + op.name + " = " + op.kind + "(";
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const LogicalTensor& input = random.graph.tensor(op.inputs[i]);
      text += (i == 0 ? "" : ", ") + input.name + " " + to_string(input.type.shape);
    }
    text += ")";
  }
  return text;
}

}  // namespace sextant
