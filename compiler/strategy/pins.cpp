// Names with '*' stand for any run of characters, so that one pin reaches all equal layers.
#include "compiler/strategy/pins.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/graphs/operator.h"

#include <string>
#include <string_view>
#include <vector>

namespace sextant {
namespace {

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, retry = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string dims_of(const Shape& shape) {
  if (shape.rank() == 0) return "B or P, it is a scalar";
  return shape.rank() == 1 ? "S(0), B or P"
                           : fmt::format("S(0) to S({}), B or P", shape.rank() - 1);
}

class Pins {
 public:
  Pins(const LogicalGraph& training, WordConstraints& constraints)
      : training_(training), constraints_(constraints) {}

  void apply(const WordPin& pin) {
    const bool found = pin.input ? pin_inputs(pin) : pin_tensors(pin);
    if (!found) refuse_name(pin);
  }

 private:
  bool pin_tensors(const WordPin& pin) {
    bool found = false;
    for (std::size_t index = 0; index < training_.tensors().size(); ++index) {
      const LogicalTensor& tensor = training_.tensors()[index];
      if (!matches(pin.name, tensor.name) || training_.op(tensor.producer).recompute_of) continue;
      found = true;
      require_fits(pin, training_.op(tensor.producer), tensor);
      if (!training_.op(tensor.producer).parameter)
        constraints_.tensors[TensorId(index)] = pin.words;
    }
    return found;
  }

  bool pin_inputs(const WordPin& pin) {
    bool found = false;
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const LogicalOp& op = training_.ops()[index];
      if (!matches(pin.name, op.name) || op.recompute_of) continue;
      found = true;
      require(*pin.input < op.inputs.size(), ErrorCode::kUsage,
              "{}: operator '{}' ({}) has {} inputs", to_string(pin), op.name, op.kind,
              op.inputs.size());
      require_fits(pin, op, training_.tensor(op.inputs[*pin.input]));
      constraints_.inputs[{OpId(index), *pin.input}] = pin.words;
    }
    return found;
  }

  static void require_fits(const WordPin& pin, const LogicalOp& op, const LogicalTensor& tensor) {
    const Shape& shape = tensor.type.shape;
    for (const Sbp& word : pin.words)
      require(!word.is_split() || word.dim < shape.rank(), ErrorCode::kUsage,
              "{}: operator '{}' ({}), tensor '{}' of shape {}: {} is no word for it, wanted {}",
              to_string(pin), op.name, op.kind, tensor.name, to_string(shape), to_string(word),
              dims_of(shape));
  }

  [[noreturn]] void refuse_name(const WordPin& pin) const {
    std::vector<std::string> names;
    if (pin.input)
      for (const LogicalOp& op : training_.ops()) names.push_back(op.name);
    else
      for (const LogicalTensor& tensor : training_.tensors()) names.push_back(tensor.name);
    fail(ErrorCode::kUsage, "{}: no {} has that name{}", to_string(pin),
         pin.input ? "operator" : "tensor", did_you_mean(pin.name, names));
  }

  const LogicalGraph& training_;
  WordConstraints& constraints_;
};

}  // namespace

const NdSbp* pinned_words(const Strategy& strategy, std::string_view tensor) {
  const NdSbp* words = nullptr;
  for (const WordPin& pin : strategy.pins)
    if (!pin.input && matches(pin.name, tensor)) words = &pin.words;
  return words;
}

void apply_pins(const LogicalGraph& training, const Strategy& strategy,
                WordConstraints& constraints) {
  Pins pins(training, constraints);
  for (const WordPin& pin : strategy.pins) pins.apply(pin);
}

}  // namespace sextant
