// What the project knows about an operator kind. Families are in the rooms of core/operators/;
// kernels live in the backends under the same kind name.
#pragma once

#include "core/base/dtype.h"
#include "core/base/ids.h"
#include "core/graphs/operator_role.h"
#include "core/graphs/phase.h"
#include "core/graphs/work.h"
#include "core/tensors/attributes.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sextant {

class LogicalGraph;
struct LogicalOp;

// One legal row of words on one mesh axis. N-D signatures are products of rows, axis by axis.
struct SbpSignature {
  std::vector<Sbp> inputs;
  std::vector<Sbp> outputs;
  // Not 0: the row is sound only where the number of parts divides this, because a split may not
  // cut a group (the dims that a reshape merges, a key/value head and its queries). When several
  // axes take the row, the product of their extents must divide it; see `fits`.
  std::int64_t divisible = 0;
  // Not 0: with exactly this many parts the row is a communication that no kernel runs: each part
  // passes to the next device of the axis (Primitive::kShift). Of at most one axis.
  std::int64_t ring = 0;
  bool operator==(const SbpSignature&) const = default;
};

// Builds the gradients of one operator. The rule adds operators through `add`; the phase of each is
// weight_grad when it only serves a parameter and input_grad otherwise.
class GradientContext {
 public:
  virtual ~GradientContext() = default;
  virtual const LogicalGraph& graph() const = 0;
  virtual const LogicalOp& op() const = 0;
  virtual TensorId input(std::size_t index) const = 0;
  virtual TensorId output(std::size_t index) const = 0;
  // Gradient that arrived at an output; nothing when no path leads from it to the loss.
  virtual std::optional<TensorId> output_gradient(std::size_t index) const = 0;
  // False where the gradient of this input is not needed (labels, masks, constants).
  virtual bool wants(std::size_t input) const = 0;
  // True for what is made of parameters alone: its gradient is kept in the accumulator type.
  virtual bool is_weight(std::size_t input) const = 0;
  // Appends an operator that serves the gradient of `input` and returns its first output;
  // `outputs_of_last` gives the others.
  virtual TensorId add(std::string kind, std::vector<TensorId> inputs, Attributes attributes,
                       std::size_t for_input) = 0;
  virtual std::vector<TensorId> outputs_of_last() const = 0;
  virtual void set_input_gradient(std::size_t input, TensorId gradient) = 0;
};

// Inputs on which suites over all operators try a kind (soundness of its rows, its gradient).
struct OperatorExample {
  std::vector<TensorType> inputs = {};
  Attributes attributes = {};
  // Values of the inputs are drawn from [first, second], both included; [-3, 3] when left out.
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges = {};
};

// An input whose elements are ids: of classes, of rows of a table, of places along a dim.
struct IdInput {
  std::size_t input = 0;
  std::string_view of;  // "rows of the table"
  // How many of them there are, so that ids go from 0 to one less.
  std::int64_t (*count)(std::span<const TensorType> inputs, const Attributes&) = nullptr;
  // Which id outside has a meaning: none; the operator's `ignore_index`; any, because the operator
  // gives zeros for it.
  enum class Outside : std::uint8_t { kNone, kIgnored, kAny } outside = Outside::kNone;
};

struct OperatorDef {
  std::string kind;
  OperatorRole role = OperatorRole::kPlain;
  std::size_t min_inputs = 1, max_inputs = 1;
  // All that its kernels and its rules read. A graph that has others, or lacks a needed one, is
  // refused: nobody would see what its author asked for.
  std::vector<AttributeDef> attributes = {};
  // Output types from input types. Throws Error(kBadInput) saying what was found and wanted. Also
  // valid on local types for operators whose attributes hold no global extents.
  std::vector<TensorType> (*infer)(std::span<const TensorType> inputs, const Attributes&) = nullptr;
  // Cost of one act on local types.
  Work (*work)(std::span<const TensorType> inputs, std::span<const TensorType> outputs,
               const Attributes&) = nullptr;
  // Legal rows for these global types, in order of preference; always contains all-broadcast,
  // except for sources whose words are the user's choice (empty list: any words without partial).
  std::vector<SbpSignature> (*signatures)(std::span<const TensorType> inputs,
                                          std::span<const TensorType> outputs,
                                          const Attributes&) = nullptr;
  // Nothing: the operator has no gradient (integer or optimizer operators).
  void (*gradient)(GradientContext&) = nullptr;
  // Indices of outputs that the operator updates in place from step to step (parameter, moments):
  // state registers of the actor (10-waist, "State").
  std::vector<std::size_t> state_outputs = {};
  // Runs on the host thread (loader, metrics); never in the issue order.
  bool on_host = false;
  // The kernel needs to know where its shard lies in the global tensor (vocabulary offset).
  bool needs_offsets = false;
  // Some of its rows are rings; it has one input and one output.
  bool has_ring = false;
  std::optional<IdInput> ids = {};
  std::vector<OperatorExample> (*examples)() = nullptr;
};

// True when every axis of a mesh may take its row: `rows` and `hierarchy` have one entry per axis.
// Where rows split one dim, those of axes that stand earlier in `outermost_first` lie outside
// (none: axis order). Outside of a row whose parts may cut no group lies no other row that could
// cut one.
bool fits(std::span<const SbpSignature* const> rows, std::span<const std::int64_t> hierarchy,
          std::span<const std::size_t> outermost_first = {});

// Throws Error(kBadInput) naming the kind and the attribute that it does not know (with the nearest
// that it knows), lacks, or has of another type.
void require_attributes(const OperatorDef& def, const Attributes& attributes);

class OperatorRegistry {
 public:
  void add(OperatorDef def);  // throws Error(kUsage) when the kind is taken
  const OperatorDef* find(std::string_view kind) const;
  // Throws Error(kBadInput) naming the kind and the nearest known one.
  const OperatorDef& get(std::string_view kind) const;
  std::vector<std::string> kinds() const;  // sorted

 private:
  struct HashOfKind {
    using is_transparent = void;
    std::size_t operator()(std::string_view kind) const {
      return std::hash<std::string_view>{}(kind);
    }
  };
  // A compile asks for its operators by kind some hundred thousand times.
  std::unordered_map<std::string, OperatorDef, HashOfKind, std::equal_to<>> defs_;
};

// Every operator of core/operators, which defines it (builtin_operators.cpp). Built once,
// immutable.
const OperatorRegistry& builtin_operators();

}  // namespace sextant
