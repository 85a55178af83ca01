// The model as the user means it: operators on global tensors, one micro-batch of forward (and,
// after autodiff, backward and optimizer) work. No device, no split.
#pragma once

#include "core/base/ids.h"
#include "core/graphs/operator_role.h"
#include "core/graphs/phase.h"
#include "core/tensors/attributes.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// What a tensor is to the training step. Activations and gradients are everything else's output.
enum class TensorRole : std::uint8_t {
  kActivation,
  kParameter,  // output of a `parameter` operator; state, lives from step to step
  kInput,      // output of an `input` operator; filled by the loader once per micro-batch
  kGradient,   // made by autodiff
};

// How weights start, keyed by (seed, parameter name, global element index).
struct Initializer {
  enum class Kind : std::uint8_t { kZeros, kOnes, kNormal };
  Kind kind = Kind::kZeros;
  double standard_deviation = 0.0;
  bool operator==(const Initializer&) const = default;
};

struct LogicalTensor {
  std::string name;
  TensorType type;
  TensorRole role = TensorRole::kActivation;
  OpId producer;
  std::size_t output_index = 0;  // among the producer's outputs
};

// Facts about a parameter that the graph alone cannot tell.
struct ParameterInfo {
  Initializer initializer;
  bool weight_decay = true;
  // The dim that tensor parallelism splits by convention (Megatron-LM: column, row, vocabulary);
  // nothing: replicated. A strategy may use it as words; inference treats it like any user's words.
  std::optional<std::size_t> tensor_parallel_dim;
  // The dim that counts experts, which expert parallelism splits; nothing: no expert's weight.
  std::optional<std::size_t> expert_parallel_dim = std::nullopt;
};

struct LogicalOp {
  std::string kind;  // name in the operator registry
  std::string name;  // unique: "layer3.attention.q"
  Attributes attributes;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  Phase phase = Phase::kForward;
  // Unit of stage assignment, in model order: consecutive, from 0. Operators of a layer never
  // leave each other's stage. Gradient and optimizer operators carry the layer of their origin.
  int layer = 0;
  std::optional<ParameterInfo> parameter;  // of `parameter` operators
  // Of Phase::kRecompute: the forward operator it repeats, word for word.
  std::optional<OpId> recompute_of = std::nullopt;
  OperatorRole role = OperatorRole::kPlain;  // of its kind; LogicalGraph::add sets it
};

class OperatorRegistry;

// Append-only; inputs must exist before their consumer, so the graph is acyclic by construction and
// the order of insertion is a topological order. Tensor types come from the operators' shape rules.
class LogicalGraph {
 public:
  explicit LogicalGraph(const OperatorRegistry& registry);

  // Appends an operator and its outputs, typed by the registry's shape rule. Throws
  // Error(kBadInput) naming the operator when the kind is unknown, an input does not exist, the
  // name is taken or the shape rule refuses. Outputs are named `name` (or `name:1`, `name:2` ...).
  OpId add(LogicalOp op);

  const OperatorRegistry& registry() const { return *registry_; }
  std::span<const LogicalOp> ops() const { return ops_; }
  std::span<const LogicalTensor> tensors() const { return tensors_; }
  const LogicalOp& op(OpId id) const { return ops_[id.index()]; }
  const LogicalTensor& tensor(TensorId id) const { return tensors_[id.index()]; }
  TensorId output(OpId id, std::size_t index = 0) const { return ops_[id.index()].outputs[index]; }
  // Every (operator, input position) that reads the tensor, in order of insertion.
  struct Use {
    OpId op;
    std::size_t input = 0;
  };
  std::span<const Use> uses(TensorId id) const { return uses_[id.index()]; }

  // The tensor to minimise: a scalar sum over tokens, and the scalar count of tokens it sums.
  // The step minimises loss_sum / token_count over the whole global batch.
  void set_loss(TensorId loss_sum, TensorId token_count);
  std::optional<TensorId> loss_sum() const { return loss_sum_; }
  std::optional<TensorId> token_count() const { return token_count_; }

  int num_layers() const { return num_layers_; }  // largest layer + 1
  // The operator of this name; nothing: there is none.
  std::optional<OpId> find_op(std::string_view name) const;

 private:
  std::vector<TensorType> infer_outputs(const LogicalOp& op) const;
  std::size_t slot_of_name(std::string_view name) const;
  void index_name(OpId id);

  const OperatorRegistry* registry_;
  std::vector<LogicalOp> ops_;
  std::vector<LogicalTensor> tensors_;
  std::vector<std::vector<Use>> uses_;
  std::optional<TensorId> loss_sum_, token_count_;
  int num_layers_ = 0;
  std::vector<OpId> name_slots_;  // hash table over the operators' names
};

// Graphviz text of the graph (Boost.Graph writes it): operators as vertices, tensors as edges.
std::string to_graphviz(const LogicalGraph& graph);

// Order in which every operator follows its producers (Boost.Graph's topological sort with ties
// broken by id): equals insertion order for a graph built by `add`, and checks that it does.
std::vector<OpId> topological_order(const LogicalGraph& graph);

}  // namespace sextant
