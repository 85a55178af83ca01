// Which tokens a model of masked tokens predicts, and what it is shown of them.
#include "io/data/masked_tokens.h"

#include "io/data/token_data.h"
#include "io/exchange.h"
#include "models/any_model.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <span>
#include <vector>

namespace sextant::masked_tokens_test {
namespace {

constexpr std::int64_t kSequence = 32;

TEST_CASE("15 % of the tokens are predicted: 80 % hidden, 10 % replaced, 10 % as they are") {
  // An id that no draw of another one gives tells what was replaced from what is shown.
  constexpr std::int64_t kVocabulary = 1000;
  constexpr std::int32_t kMask = 1, kId = 5000;
  std::int64_t predicted = 0, hidden = 0, kept = 0, replaced = 0;
  constexpr std::int64_t kSamples = 4000, kLong = 100;
  for (std::int64_t position = 0; position < kSamples; ++position) {
    const MaskedSample sample({kMask, kVocabulary}, 7, position, kLong);
    for (std::int64_t place = 0; place < kLong; ++place) {
      const std::int32_t shown = sample.shown(place, kId);
      if (!sample.is_predicted(place)) {
        CHECK(shown == kId);
        continue;
      }
      ++predicted;
      hidden += shown == kMask;
      kept += shown == kId;
      replaced += shown < kVocabulary && shown != kMask;
    }
  }
  // 400,000 places: three deviations of the share are 0.002; one place of each sample is sure.
  const double share = static_cast<double>(predicted) / (kSamples * kLong);
  CHECK(share == doctest::Approx(0.15 + 0.85 / kLong).epsilon(0.02));
  CHECK(hidden + kept + replaced == predicted);
  CHECK(static_cast<double>(hidden) / predicted == doctest::Approx(0.8).epsilon(0.01));
  CHECK(static_cast<double>(kept) / predicted == doctest::Approx(0.1).epsilon(0.05));
}

TEST_CASE("a sample of one token predicts it") {
  for (std::int64_t position = 0; position < 50; ++position)
    CHECK(MaskedSample({0, 9}, 3, position, 1).is_predicted(0));
}

Actor input(const char* name) {
  Actor actor;
  actor.kind = "input";
  actor.name = name;
  actor.attributes.set("limit", std::int64_t{100});
  actor.attributes.set("mask_id", std::int64_t{99});
  if (std::string(name) == "labels") actor.attributes.set("ignore_index", std::int64_t{-100});
  return actor;
}

std::vector<std::int32_t> filled(const TokenData& data, const char* name, const Shard& box) {
  const TensorType type{{4, kSequence}, DType::kI32};
  const Actor actor = input(name);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(box.local_shape().elements()));
  data.fill({.input = actor,
             .type = type,
             .box = box,
             .first_position = 8,
             .global_batch = 4,
             .seed = 11},
            std::as_writable_bytes(std::span(ids)));
  return ids;
}

Shard box(Interval samples, Interval places) { return Shard{.dims = {samples, places}}; }

TEST_CASE("labels are the tokens of the same places, and no cut of the batch changes them") {
  std::vector<std::int32_t> text(400);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::int32_t>(i * 7 % 90);
  const TokenData data(text);
  const auto tokens = filled(data, "tokens", box({0, 4}, {0, kSequence}));
  const auto labels = filled(data, "labels", box({0, 4}, {0, kSequence}));
  std::size_t hidden = 0;
  for (std::int64_t row = 0; row < 4; ++row) {
    const std::int64_t start = *data.sample_start(11, 8 + row, kSequence, 4);
    for (std::int64_t place = 0; place < kSequence; ++place) {
      const auto at = static_cast<std::size_t>(row * kSequence + place);
      const std::int32_t own = text[static_cast<std::size_t>(start + place)];
      if (labels[at] == -100)
        CHECK(tokens[at] == own);
      else
        CHECK(labels[at] == own);
      hidden += tokens[at] == 99;
    }
  }
  CHECK(hidden > 0);
  for (const char* const name : {"tokens", "labels"}) {
    const auto whole = filled(data, name, box({0, 4}, {0, kSequence}));
    const auto part = filled(data, name, box({1, 2}, {5, 20}));
    for (std::size_t row = 0; row < 2; ++row)
      CHECK(std::equal(part.begin() + static_cast<std::ptrdiff_t>(row * 20),
                       part.begin() + static_cast<std::ptrdiff_t>(row * 20 + 20),
                       whole.begin() + static_cast<std::ptrdiff_t>((row + 1) * kSequence + 5)));
  }
}

TEST_CASE("the mask of a model is that of its inputs") {
  const auto mask_of = [](const char* model) {
    return token_mask_of(build_graph(load_any_model(model), 1, 8, DType::kF32));
  };
  CHECK_FALSE(mask_of("gpt-bytes-1m").has_value());
  const auto mask = mask_of("bert:layers=1,hidden=8,heads=2,vocab=300,seq=8,mask=103");
  REQUIRE(mask.has_value());
  CHECK(mask->mask_id == 103);
  CHECK(mask->vocabulary == 300);
}

}  // namespace
}  // namespace sextant::masked_tokens_test
