// The box of [batch, sequence] that a rank holds decides which samples and places it reads.
#include "io/data/token_data.h"

#include "core/base/check.h"
#include "core/base/counter_rng.h"
#include "core/operators/movement/sources.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sextant {
namespace {

constexpr std::string_view kLabels = "labels";

// What the model accepts from this input.
void check_range(std::int64_t id, const Actor& input, std::int64_t sample, std::int64_t place) {
  const Attributes& attributes = input.attributes;
  if (!attributes.contains("limit")) return;
  const std::int64_t limit = attributes.integer("limit");
  if (id >= 0 && id < limit) return;
  if (attributes.contains("ignore_index") && id == attributes.integer("ignore_index")) return;
  fail(ErrorCode::kBadInput, "{}: sample {}, place {}: id {} is outside the vocabulary 0 to {}",
       input.name, sample, place, id, limit - 1);
}

std::int32_t ignored_label(const Actor& input, const std::string& data, const char* why) {
  require(input.attributes.contains("ignore_index"), ErrorCode::kBadInput,
          "{}: {}, but the model's input '{}' has no label that is ignored", data, why, input.name);
  return static_cast<std::int32_t>(input.attributes.integer("ignore_index"));
}

}  // namespace

void hide_ids(const TokenSource& tokens, std::int64_t first, const MaskedSample* masked,
              std::int64_t place, bool are_labels, const IgnoredLabel& ignored,
              std::span<std::int32_t> ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto along = static_cast<std::int64_t>(i);
    if (are_labels && tokens.is_masked(first + along)) ids[i] = ignored("tokens are masked");
    if (masked == nullptr) continue;
    if (!are_labels)
      ids[i] = masked->shown(place + along, ids[i]);
    else if (!masked->is_predicted(place + along))
      ids[i] = ignored("tokens are not predicted");
  }
}

TokenData::TokenData(std::vector<std::int32_t> ids, std::string name)
    : TokenData(std::make_shared<TokenList>(std::move(ids)), std::move(name)) {}

TokenData::TokenData(std::shared_ptr<const TokenSource> tokens, std::string name,
                     const OrderSettings& order)
    : tokens_(std::move(tokens)), name_(std::move(name)), order_(order) {}

TokenData TokenData::from_path(const std::string& path, Bytes limit) {
  return {text_tokens(path, limit), path};
}

bool TokenData::fills(std::string_view input, const TensorType& type) const {
  return takes_token_data(input, type);
}

void TokenData::check(const TensorType& main_input, std::int64_t global_batch) const {
  sample_start(0, 0, main_input.shape[1], global_batch);
}

std::string TokenData::fingerprint() const {
  return tokens_->fingerprint() + " " + to_string(order_);
}

std::optional<std::int64_t> TokenData::sample_start(std::uint64_t seed, std::int64_t position,
                                                    std::int64_t sequence,
                                                    std::int64_t global_batch) const {
  const std::int64_t places = tokens_->size() - sequence;
  require(places > 0, ErrorCode::kBadInput,
          "{}: {} tokens, but a sample of sequence length {} needs {}", name_, tokens_->size(),
          sequence, sequence + 1);
  if (order_.kind == OrderKind::kPlaces) {
    const CounterRng random(seed, "sample");
    return static_cast<std::int64_t>(random.bits(static_cast<std::uint64_t>(position)) %
                                     static_cast<std::uint64_t>(places));
  }
  const std::int64_t records = (tokens_->size() - 1) / sequence;
  const SampleOrder order(order_, seed, records, global_batch, name_);
  const std::optional<std::int64_t> record = order.record_at(position);
  return record ? std::optional(*record * sequence) : std::nullopt;
}

// A sample that only fills a batch up has ids 0 and no labels.
void TokenData::fill_row(const InputPart& part, std::int64_t row,
                         std::span<std::int32_t> ids) const {
  const Actor& input = part.input;
  const Interval& places = part.box.dims[1];
  const bool are_labels = input.name == kLabels;
  const std::int64_t position = part.first_position + part.box.dims[0].offset + row;
  const std::optional<std::int64_t> start =
      sample_start(part.seed, position, part.type.shape[1], part.global_batch);
  if (!start) {
    std::fill(ids.begin(), ids.end(),
              are_labels ? ignored_label(input, name_, "a short batch is filled up") : 0);
    return;
  }
  const std::optional<TokenMask> mask = token_mask(input.attributes);
  const std::int64_t first = *start + places.offset + (are_labels && !mask ? 1 : 0);
  tokens_->read(first, ids);
  for (std::size_t i = 0; i < ids.size(); ++i)
    check_range(ids[i], input, position, places.offset + static_cast<std::int64_t>(i));
  std::optional<MaskedSample> masked;
  if (mask) masked.emplace(*mask, part.seed, position, part.type.shape[1]);
  hide_ids(
      *tokens_, first, masked ? &*masked : nullptr, places.offset, are_labels,
      [&](const char* why) { return ignored_label(input, name_, why); }, ids);
}

void TokenData::fill(const InputPart& part, std::span<std::byte> bytes) const {
  const std::int64_t rows = part.box.dims[0].extent, places = part.box.dims[1].extent;
  const std::size_t row_bytes = static_cast<std::size_t>(places) * sizeof(std::int32_t);
  require(bytes.size() == static_cast<std::size_t>(rows) * row_bytes, ErrorCode::kInternal,
          "input '{}': {} bytes for {} rows of {} ids", part.input.name, bytes.size(), rows,
          places);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(places));
  for (std::int64_t row = 0; row < rows && places > 0; ++row) {
    fill_row(part, row, ids);
    std::memcpy(bytes.data() + static_cast<std::size_t>(row) * row_bytes, ids.data(), row_bytes);
  }
}

}  // namespace sextant
