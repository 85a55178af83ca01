// Weights from the generator that fills state registers, samples as the loader cuts them.
#include "io/exchange.h"

#include "core/base/check.h"
#include "core/graphs/initial_contents.h"
#include "core/graphs/logical_graph.h"
#include "core/operators/layers/loss.h"
#include "io/safetensors.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace sextant {
namespace {

constexpr std::int64_t kElementsAtOnce = std::int64_t{1} << 20;

template <typename Element>
void append_parameter(SafetensorsWriter& file, const InitialContents& contents) {
  std::vector<double> values;
  std::vector<Element> elements;
  for (std::int64_t first = 0; first < contents.elements(); first += kElementsAtOnce) {
    values.resize(static_cast<std::size_t>(std::min(kElementsAtOnce, contents.elements() - first)));
    contents.fill(first, values);
    elements.assign(values.begin(), values.end());
    file.append(std::as_bytes(std::span(elements)));
  }
}

void append_samples(SafetensorsWriter& file, const TokenData& data, const SampleRange& range,
                    bool are_labels) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(range.sequence));
  for (std::int64_t sample = 0; sample < range.steps * range.global_batch; ++sample) {
    const auto start = data.sample_start(range.seed, sample, range.sequence, range.global_batch);
    require(start.has_value(), ErrorCode::kUsage,
            "{}: with last_batch=pad there are samples without tokens, which have no file",
            data.name());
    const std::int64_t first = *start + (are_labels && !range.mask ? 1 : 0);
    data.tokens().read(first, ids);
    std::optional<MaskedSample> masked;
    if (range.mask) masked.emplace(*range.mask, range.seed, sample, range.sequence);
    hide_ids(
        data.tokens(), first, masked ? &*masked : nullptr, 0, are_labels,
        [](const char*) { return static_cast<std::int32_t>(kIgnoreIndex); }, ids);
    file.append(std::as_bytes(std::span(ids)));
  }
}

}  // namespace

std::int64_t write_initial_weights(const std::string& path, const LogicalGraph& forward,
                                   std::uint64_t seed) {
  std::vector<const LogicalOp*> parameters;
  std::vector<NamedTensor> tensors;
  std::int64_t elements = 0;
  for (const LogicalOp& op : forward.ops()) {
    if (op.role != OperatorRole::kParameter) continue;
    const TensorType& type = forward.tensor(op.outputs.front()).type;
    require(type.dtype == DType::kF32 || type.dtype == DType::kF64, ErrorCode::kInternal,
            "parameter '{}' is {}, not f32 or f64", op.name, to_string(type.dtype));
    parameters.push_back(&op);
    tensors.push_back({op.name, type});
    elements += type.shape.elements();
  }
  SafetensorsWriter file(path, tensors);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const InitialContents contents(*parameters[i], tensors[i].type.shape, seed);
    if (tensors[i].type.dtype == DType::kF32)
      append_parameter<float>(file, contents);
    else
      append_parameter<double>(file, contents);
  }
  file.finish();
  return elements;
}

std::optional<TokenMask> token_mask_of(const LogicalGraph& forward) {
  for (const LogicalOp& op : forward.ops())
    if (op.role == OperatorRole::kInput)
      if (const auto mask = token_mask(op.attributes)) return mask;
  return std::nullopt;
}

void write_samples(const std::string& path, const TokenData& data, const SampleRange& range) {
  const TensorType type{Shape{range.steps, range.global_batch, range.sequence}, DType::kI32};
  SafetensorsWriter file(path, {{"tokens", type}, {"labels", type}});
  append_samples(file, data, range, false);
  append_samples(file, data, range, true);
  file.finish();
}

}  // namespace sextant
