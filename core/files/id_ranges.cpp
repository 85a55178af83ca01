// One pass over the operators in their order: what may stand in every tensor of integers.
#include "core/files/id_ranges.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/loss.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace sextant {
namespace {

// Integers between two bounds, both included, and perhaps one outside that stands for no id.
struct IdRange {
  std::int64_t least = 0, most = 0;
  std::optional<std::int64_t> ignored;
  OpId input;  // the input of the graph that lets in the highest, if one does
};
using MaybeRange = std::optional<IdRange>;

MaybeRange range_of_input(const LogicalOp& op, OpId id, DType dtype) {
  IdRange range{.least = 0, .most = 0, .ignored = {}, .input = id};
  if (op.attributes.contains("limit")) {
    range.most = op.attributes.integer("limit") - 1;
  } else if (dtype == DType::kI32) {
    range.least = std::numeric_limits<std::int32_t>::min();
    range.most = std::numeric_limits<std::int32_t>::max();
  } else {
    range.least = std::numeric_limits<std::int64_t>::min();
    range.most = std::numeric_limits<std::int64_t>::max();
  }
  if (op.attributes.contains("ignore_index")) range.ignored = op.attributes.integer("ignore_index");
  return range;
}

// Nothing where one of them may be anything.
MaybeRange either(const MaybeRange& a, const MaybeRange& b) {
  if (!a || !b) return std::nullopt;
  IdRange range = a->most >= b->most ? *a : *b;
  range.least = std::min(a->least, b->least);
  if (!range.ignored) range.ignored = a->ignored ? a->ignored : b->ignored;
  return range;
}

// A number as it is stored among integers.
std::int64_t whole(double value) {
  constexpr auto kLeast = static_cast<double>(std::numeric_limits<std::int64_t>::min());
  constexpr auto kMost = static_cast<double>(std::numeric_limits<std::int64_t>::max());
  if (value >= kMost) return std::numeric_limits<std::int64_t>::max();
  return value <= kLeast ? std::numeric_limits<std::int64_t>::min()
                         : static_cast<std::int64_t>(value);
}

IdRange single(std::int64_t value) {
  return {.least = value, .most = value, .ignored = {}, .input = {}};
}

IdRange clamped(IdRange range, const Attributes& attributes) {
  const std::int64_t least = whole(attributes.real_or("min", -HUGE_VAL));
  const std::int64_t most = whole(attributes.real_or("max", HUGE_VAL));
  if (range.ignored) {  // a label like any other from here on
    const MaybeRange label = single(*range.ignored);
    range = *either(range, label);
    range.ignored.reset();
  }
  range.least = std::clamp(range.least, least, most);
  range.most = std::clamp(range.most, least, most);
  return range;
}

// Of the largest along the last dim: only indices are integers among the outputs of top_k.
IdRange places_of(const Shape& shape) {
  return {.least = 0, .most = shape[shape.rank() - 1] - 1, .ignored = {}, .input = {}};
}

bool only_moves(std::string_view kind) {
  static constexpr std::array<std::string_view, 6> kKinds = {"reshape", "transpose", "slice",
                                                             "split",   "roll",      "expand"};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

class IdRanges {
 public:
  explicit IdRanges(const LogicalGraph& graph) : graph_(graph), of_(graph.tensors().size()) {
    for (std::size_t index = 0; index < graph.ops().size(); ++index) {
      const OpId id(index);
      for (const TensorId output : graph.op(id).outputs)
        of_[output.index()] = range_of_output(id, output);
    }
  }

  const MaybeRange& operator[](TensorId tensor) const { return of_[tensor.index()]; }

 private:
  MaybeRange range_of_output(OpId id, TensorId output) const {
    const LogicalOp& op = graph_.op(id);
    const DType dtype = graph_.tensor(output).type.dtype;
    if (dtype != DType::kI32 && dtype != DType::kI64) return std::nullopt;
    if (op.kind == "input") return range_of_input(op, id, dtype);
    const auto in = [&](std::size_t input) { return (*this)[op.inputs[input]]; };
    if (op.kind == "constant") return single(whole(op.attributes.real("value")));
    if (op.kind == "top_k") return places_of(graph_.tensor(op.inputs[0]).type.shape);
    if (op.kind == "cast") return in(0);  // nothing where the input is no integer
    // A look-up of no place gives a zero, like the padding.
    if (op.kind == "gather" || op.kind == "take_along_dim" || op.kind == "pad")
      return either(in(0), single(0));
    if (only_moves(op.kind)) return in(0);
    if (op.kind == "where") return either(in(1), in(2));
    if (op.kind == "clamp" && in(0)) return clamped(*in(0), op.attributes);
    if (op.kind == "concat") {
      MaybeRange all = in(0);
      for (std::size_t input = 1; input < op.inputs.size(); ++input) all = either(all, in(input));
      return all;
    }
    return std::nullopt;
  }

  const LogicalGraph& graph_;
  std::vector<MaybeRange> of_;  // by tensor
};

// Of an operator that counts with ids.
class IdReader {
 public:
  IdReader(const LogicalGraph& graph, const LogicalOp& op, const OperatorDef& def)
      : graph_(graph), op_(op), ids_(*def.ids) {
    std::vector<TensorType> inputs;
    for (const TensorId input : op.inputs) inputs.push_back(graph.tensor(input).type);
    count_ = ids_.count(inputs, op.attributes);
  }

  void require_takes(const IdRange& range) const {
    if (range.least < 0 || range.most >= count_) refuse_limit(range);
    if (range.ignored && !takes_ignored(*range.ignored)) refuse_ignored(range);
  }

 private:
  bool takes_ignored(std::int64_t ignored) const {
    if (ignored >= 0 && ignored < count_) return true;
    switch (ids_.outside) {
      case IdInput::Outside::kNone:
        return false;
      case IdInput::Outside::kIgnored:
        return ignored == op_.attributes.integer_or("ignore_index", kIgnoreIndex);
      case IdInput::Outside::kAny:
        return true;
    }
    return false;
  }

  std::string source(const IdRange& range) const {
    return range.input.is_valid() ? fmt::format("the input '{}'", graph_.op(range.input).name)
                                  : fmt::format("'{}'", ids_name());
  }

  std::string ids_name() const { return graph_.tensor(op_.inputs[ids_.input]).name; }

  [[noreturn]] void refuse_limit(const IdRange& range) const {
    const bool has_limit =
        !range.input.is_valid() || graph_.op(range.input).attributes.contains("limit");
    const std::string found =
        has_limit ? fmt::format("lets in ids from {} to {}", range.least, range.most)
                  : "has no limit";
    fail(ErrorCode::kBadInput,
         "operator '{}' ({}): {} {}, but there are {} {}: wanted a limit of at most {}", op_.name,
         op_.kind, source(range), found, count_, ids_.of, count_);
  }

  [[noreturn]] void refuse_ignored(const IdRange& range) const {
    const std::string wanted =
        ids_.outside == IdInput::Outside::kIgnored
            ? fmt::format("the operator ignores {}",
                          op_.attributes.integer_or("ignore_index", kIgnoreIndex))
            : std::string("the operator ignores none");
    fail(ErrorCode::kBadInput,
         "operator '{}' ({}): {} has the ignore_index {}, which is none of the {} {}, and {}",
         op_.name, op_.kind, source(range), *range.ignored, count_, ids_.of, wanted);
  }

  const LogicalGraph& graph_;
  const LogicalOp& op_;
  const IdInput& ids_;
  std::int64_t count_ = 0;
};

}  // namespace

void require_ids_in_range(const LogicalGraph& graph) {
  const IdRanges ranges(graph);
  for (const LogicalOp& op : graph.ops()) {
    const OperatorDef& def = graph.registry().get(op.kind);
    if (!def.ids) continue;
    if (const MaybeRange& range = ranges[op.inputs[def.ids->input]])
      IdReader(graph, op, def).require_takes(*range);
  }
}

}  // namespace sextant
