// Relatives are found by trying: the operator's shape rule decides which make sense.
#include "tests/conformance/operators/kernel_cases.h"

#include "core/base/error.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <set>

namespace sextant {
namespace {

// Empty, one, odd, a block of threads, and rows of models with their neighbours.
constexpr std::int64_t kExtents[] = {0, 1, 17, 64, 129, 1023, 1024, 1025, 1600, 4096};
// Multiples of these sizes reach kernels that want aligned extents.
constexpr std::int64_t kFactors[] = {8, 16, 32};

std::string text_of(const std::vector<CaseOperand>& operands) {
  std::string text;
  for (const CaseOperand& operand : operands) {
    const Shape local = operand.box.local_shape();
    text += text.empty() ? "" : ", ";
    text += to_string(local) + " " + std::string(to_string(operand.global.dtype));
    if (local == operand.global.shape) continue;
    text += " of " + to_string(operand.global.shape) + " from";
    for (const Interval& interval : operand.box.dims) text += " " + std::to_string(interval.offset);
  }
  return text;
}

std::vector<CaseOperand> whole_operands(const std::vector<TensorType>& types) {
  std::vector<CaseOperand> operands;
  for (const TensorType& type : types) operands.push_back(whole_operand(type));
  return operands;
}

std::vector<TensorType> types_of(const std::vector<CaseOperand>& operands) {
  std::vector<TensorType> types;
  for (const CaseOperand& operand : operands) types.push_back(operand.global);
  return types;
}

// The operator on these whole tensors; throws Error where its rule refuses them.
KernelCase case_of(const OperatorDef& def, const OperatorExample& example) {
  const std::vector<TensorType> outputs = def.infer(example.inputs, example.attributes);
  KernelCase made{.kind = def.kind,
                  .attributes = example.attributes,
                  .in = whole_operands(example.inputs),
                  .out = whole_operands(outputs),
                  .ranges = example.ranges,
                  .is_state = std::vector<bool>(outputs.size(), false)};
  made.ranges.resize(example.inputs.size(), {-3, 3});
  for (const std::size_t output : def.state_outputs) made.is_state[output] = true;
  made.flops = def.work(example.inputs, outputs, example.attributes).flops;
  return made;
}

bool is_within(const KernelCase& made, const CaseLimits& limits) {
  const auto fits = [&limits](const CaseOperand& operand) {
    return operand.global.shape.elements() <= limits.elements;
  };
  return made.flops <= limits.flops && std::all_of(made.in.begin(), made.in.end(), fits) &&
         std::all_of(made.out.begin(), made.out.end(), fits);
}

OperatorExample with_extents(const OperatorExample& example,
                             const std::function<std::int64_t(std::int64_t)>& change) {
  OperatorExample changed = example;
  for (TensorType& input : changed.inputs) {
    std::vector<std::int64_t> extents = input.shape.extents();
    std::transform(extents.begin(), extents.end(), extents.begin(), change);
    input.shape = Shape(std::move(extents));
  }
  return changed;
}

// Ids and labels count up to this extent: fewer would leave some out of range.
bool is_counted(const OperatorExample& example, std::int64_t extent) {
  for (std::size_t i = 0; i < example.ranges.size(); ++i)
    if (!is_floating(example.inputs[i].dtype) && example.ranges[i].second + 1 == extent)
      return true;
  return false;
}

std::vector<OperatorExample> relatives(const OperatorExample& example) {
  std::set<std::int64_t> extents;
  for (const TensorType& input : example.inputs)
    extents.insert(input.shape.extents().begin(), input.shape.extents().end());
  std::vector<OperatorExample> made{example};
  for (const std::int64_t extent : extents)
    for (const std::int64_t other : kExtents)
      if (other > extent || !is_counted(example, extent))
        made.push_back(
            with_extents(example, [=](std::int64_t e) { return e == extent ? other : e; }));
  for (const std::int64_t factor : kFactors)
    made.push_back(with_extents(example, [=](std::int64_t e) { return e * factor; }));
  return made;
}

// The part of the device at `coordinate` of `parts`.
std::vector<CaseOperand> parts_of(const std::vector<CaseOperand>& operands,
                                  const std::vector<Sbp>& words, std::int64_t parts,
                                  std::int64_t coordinate) {
  std::vector<CaseOperand> made = operands;
  const std::vector<std::int64_t> hierarchy{parts}, coordinates{coordinate};
  for (std::size_t i = 0; i < made.size(); ++i)
    made[i].box = shard_of(made[i].global.shape, {words[i]}, hierarchy, coordinates);
  return made;
}

// Later inputs of long lists share a bit.
constexpr std::size_t kMostMasked = 8;

// f64 inputs that bit i of `mask` marks become `dtype`, the others f32.
std::optional<KernelCase> with_mask(const KernelCase& original, DType dtype, unsigned mask,
                                    const std::vector<std::size_t>& wide) {
  const OperatorDef& def = builtin_operators().get(original.kind);
  OperatorExample example{.inputs = types_of(original.in),
                          .attributes = original.attributes,
                          .ranges = original.ranges};
  for (std::size_t i = 0; i < wide.size(); ++i)
    example.inputs[wide[i]].dtype =
        (mask >> std::min<std::size_t>(i, kMostMasked - 1) & 1U) != 0 ? dtype : DType::kF32;
  for (const auto& [name, value] : original.attributes.entries())
    if (value == AttributeValue(std::string("f64")))
      example.attributes.set(name, std::string(to_string(dtype)));
  try {
    KernelCase made = case_of(def, example);
    for (std::size_t i = 0; i < made.in.size(); ++i) made.in[i].box = original.in[i].box;
    for (std::size_t i = 0; i < made.out.size(); ++i) made.out[i].box = original.out[i].box;
    return made;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string KernelCase::text() const {
  return kind + " (" + text_of(in) + " -> " + text_of(out) + ")";
}

CaseOperand whole_operand(const TensorType& type) {
  CaseOperand operand{.global = type, .box = {}};
  for (const std::int64_t extent : type.shape.extents())
    operand.box.dims.push_back({.offset = 0, .extent = extent});
  return operand;
}

std::vector<KernelCase> whole_cases(const OperatorDef& def, const CaseLimits& limits) {
  std::vector<KernelCase> cases;
  if (def.examples == nullptr) return cases;
  for (const OperatorExample& example : def.examples())
    for (const OperatorExample& relative : relatives(example)) {
      try {
        KernelCase made = case_of(def, relative);
        const auto is_same = [&made](const KernelCase& other) {
          return other.in == made.in && other.attributes == made.attributes;
        };
        if (is_within(made, limits) && std::none_of(cases.begin(), cases.end(), is_same))
          cases.push_back(std::move(made));
      } catch (const Error&) {  // not a shape of this operator
      }
    }
  return cases;
}

std::vector<KernelCase> shard_cases(const OperatorDef& def) {
  std::vector<KernelCase> cases;
  if (def.examples == nullptr) return cases;
  for (const OperatorExample& example : def.examples()) {
    const KernelCase global = case_of(def, example);
    for (const SbpSignature& row :
         def.signatures(example.inputs, types_of(global.out), example.attributes)) {
      for (const std::int64_t parts : {2, 3}) {
        const std::vector<std::int64_t> hierarchy{parts};
        if (row.ring != 0 || !fits(std::vector{&row}, hierarchy)) continue;
        for (std::int64_t device = 0; device < parts; ++device) {
          KernelCase part = global;
          part.in = parts_of(global.in, row.inputs, parts, device);
          part.out = parts_of(global.out, row.outputs, parts, device);
          if (part.in != global.in || part.out != global.out) cases.push_back(std::move(part));
        }
      }
    }
  }
  return cases;
}

std::vector<KernelCase> in_dtype(const KernelCase& original, DType dtype) {
  std::vector<std::size_t> wide;
  for (std::size_t i = 0; i < original.in.size(); ++i)
    if (original.in[i].global.dtype == DType::kF64) wide.push_back(i);
  if (wide.empty()) return dtype == DType::kF32 ? std::vector{original} : std::vector<KernelCase>{};
  const unsigned all = (1U << std::min(wide.size(), kMostMasked)) - 1;
  std::vector<unsigned> masks;
  for (unsigned mask = 1; mask <= all; ++mask) masks.push_back(mask);
  std::stable_sort(masks.begin(), masks.end(),
                   [](unsigned a, unsigned b) { return std::popcount(a) > std::popcount(b); });
  for (const unsigned mask : masks)
    if (auto made = with_mask(original, dtype, mask, wide)) return {std::move(*made)};
  return {};
}

}  // namespace sextant
