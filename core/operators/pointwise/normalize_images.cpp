// Images as bytes on their way into a model.
//
// | kind(operands) | words in | words out | |
// |---|---|---|---|
// | normalize_images(x) | B | B | |
// |  | S(d) | S(d) | any dim: a channel's numbers go by its global index |
//
// Its input is data, so no gradient passes.
#include "core/operators/pointwise/normalize_images.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <charconv>
#include <cmath>

namespace sextant {
namespace {

std::vector<float> numbers_in(const Attributes& attributes, std::string_view name) {
  const std::string& text = attributes.text(name);
  std::vector<float> numbers;
  const char* next = text.data();
  const char* const end = text.data() + text.size();
  for (;;) {
    float number = 0;
    const auto [after, failure] = std::from_chars(next, end, number);
    require(failure == std::errc() && std::isfinite(number) && (after == end || *after == ','),
            ErrorCode::kBadInput, "{}: {} '{}', wanted numbers with commas between them",
            kNormalizeImages, name, text);
    numbers.push_back(number);
    if (after == end) return numbers;
    next = after + 1;
  }
}

float of_channel(const std::vector<float>& numbers, std::size_t channel) {
  return numbers.size() == 1 ? numbers.front() : numbers[channel];
}

std::vector<TensorType> infer_normalize_images(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  require(x.dtype == DType::kU8, ErrorCode::kBadInput, "{}: x is {}, wanted u8", kNormalizeImages,
          to_text(x));
  require_min_rank(kNormalizeImages, "x", x, 2);
  channel_normals(attributes, x.shape[kNormalizedDim]);
  const TensorType y{.shape = x.shape, .dtype = dtype_attribute(attributes, "dtype")};
  require_floating(kNormalizeImages, "y", y);
  return {y};
}

Work normalize_images_work(Types inputs, Types outputs, const Attributes&) {
  return streaming_work(inputs, outputs, 3 * static_cast<Flops>(outputs[0].shape.elements()),
                        "elementwise");
}

Rows normalize_images_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t dim = 0; dim < inputs[0].shape.rank(); ++dim)
    rows.push_back({{Sbp::split(dim)}, {Sbp::split(dim)}});
  return rows;
}

std::vector<OperatorExample> normalize_images_examples() {
  const auto bytes = [](Shape shape) {
    return TensorType{.shape = std::move(shape), .dtype = DType::kU8};
  };
  return {{.inputs = {bytes({2, 3, 5, 7})},
           .attributes = {{"mean", std::string(kImageNetMeans)},
                          {"deviation", std::string(kImageNetDeviations)},
                          {"dtype", "f32"}},
           .ranges = {{0, 255}}},
          {.inputs = {bytes({3, 4, 16})},
           .attributes = {{"mean", "0.5"}, {"deviation", "0.25,0.5,1,2"}, {"dtype", "f64"}},
           .ranges = {{0, 255}}},
          {.inputs = {bytes({5, 2})},
           .attributes = {{"mean", "-1,0.25"}, {"deviation", "0.3"}, {"dtype", "bf16"}},
           .ranges = {{0, 255}}}};
}

}  // namespace

std::vector<ChannelNormal> channel_normals(const Attributes& attributes, std::int64_t channels) {
  const std::vector<float> means = numbers_in(attributes, "mean");
  const std::vector<float> deviations = numbers_in(attributes, "deviation");
  for (const auto& [name, numbers] : {std::pair{"mean", &means}, {"deviation", &deviations}})
    require(numbers->size() == 1 || static_cast<std::int64_t>(numbers->size()) == channels,
            ErrorCode::kBadInput, "{}: {} has {} numbers, wanted 1, or {} as x has channels",
            kNormalizeImages, name, numbers->size(), channels);
  std::vector<ChannelNormal> normals;
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(channels); ++channel) {
    normals.push_back({of_channel(means, channel), of_channel(deviations, channel)});
    require(normals.back().deviation > 0, ErrorCode::kBadInput,
            "{}: a deviation of {}, wanted numbers above 0", kNormalizeImages,
            normals.back().deviation);
  }
  return normals;
}

void add_normalize_images(OperatorRegistry& registry) {
  registry.add({.kind = std::string(kNormalizeImages),
                .attributes = {{"mean", kText}, {"deviation", kText}, {"dtype", kText}},
                .infer = infer_normalize_images,
                .work = normalize_images_work,
                .signatures = normalize_images_rows,
                .needs_offsets = true,
                .examples = normalize_images_examples});
}

}  // namespace sextant
