// A Feistel network over pairs of bits permutes the numbers below a power of four; walking on until
// the image is below the count permutes those (Black and Rogaway, "Ciphers with arbitrary finite
// domains", 2002). Nothing is stored, whatever the size of the data.
#include "io/data/sample_order.h"

#include "core/base/check.h"
#include "core/base/counter_rng.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr std::pair<OrderKind, std::string_view> kOrders[] = {
    {OrderKind::kPlaces, "places"}, {OrderKind::kShuffled, "shuffled"}, {OrderKind::kFile, "file"}};
constexpr std::pair<LastBatch, std::string_view> kLastBatches[] = {
    {LastBatch::kWrap, "wrap"}, {LastBatch::kDrop, "drop"}, {LastBatch::kPad, "pad"}};

template <typename Table>
auto value_named(const Table& table, std::string_view text, const char* what) {
  for (const auto& [value, name] : table)
    if (name == text) return value;
  std::string names;
  for (const auto& entry : table) names += (names.empty() ? "" : ", ") + std::string(entry.second);
  fail(ErrorCode::kUsage, "{} '{}': wanted {}", what, text, names);
}

template <typename Table, typename Value>
std::string_view name_in(const Table& table, Value value) {
  for (const auto& entry : table)
    if (entry.first == value) return entry.second;
  return "";
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::int64_t window_of(std::string_view text) {
  std::int64_t window = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), window);
  require(error == std::errc() && end == text.data() + text.size() && window >= 1,
          ErrorCode::kUsage, "order of samples: window={}, wanted a number of records, 1 or more",
          text);
  return window;
}

void set_value(OrderSettings& settings, std::string_view word) {
  const std::size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  require(equals != std::string_view::npos && (key == "window" || key == "last_batch"),
          ErrorCode::kUsage, "order of samples: '{}', wanted window=N or last_batch=wrap|drop|pad",
          word);
  const std::string_view value = word.substr(equals + 1);
  if (key == "window")
    settings.window = window_of(value);
  else
    settings.last_batch = value_named(kLastBatches, value, "last_batch");
}

constexpr int kRounds = 6;

// One pass over numbers of 2 * half bits.
std::uint64_t mixed(std::uint64_t number, int half, const CounterRng& random) {
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  std::uint64_t left = number >> half, right = number & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t next = left ^ (random.bits(round << 32 | right) & mask);
    left = right;
    right = next;
  }
  return left << half | right;
}

}  // namespace

OrderSettings parse_order(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  require(!words.empty(), ErrorCode::kUsage, "order of samples: wanted places, shuffled or file");
  OrderSettings settings{.kind = value_named(kOrders, words.front(), "order of samples")};
  for (std::size_t i = 1; i < words.size(); ++i) set_value(settings, words[i]);
  require(settings.kind != OrderKind::kPlaces || words.size() == 1, ErrorCode::kUsage,
          "order of samples '{}': places are drawn for ever, without windows and last batches",
          text);
  require(settings.kind != OrderKind::kFile || !settings.window, ErrorCode::kUsage,
          "order of samples '{}': nothing is shuffled, so there is no window", text);
  return settings;
}

std::string to_string(const OrderSettings& settings) {
  std::string text(name_in(kOrders, settings.kind));
  if (settings.window) text += fmt::format(" window={}", *settings.window);
  if (settings.last_batch != LastBatch::kWrap)
    text += fmt::format(" last_batch={}", name_in(kLastBatches, settings.last_batch));
  return text;
}

std::int64_t permuted(std::int64_t index, std::int64_t count, std::uint64_t key) {
  if (count == 1) return 0;
  const int bits = std::bit_width(static_cast<std::uint64_t>(count - 1));
  const CounterRng random(key, "order of samples");
  auto image = static_cast<std::uint64_t>(index);
  do image = mixed(image, (bits + 1) / 2, random);
  while (image >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(image);
}

SampleOrder::SampleOrder(const OrderSettings& settings, std::uint64_t seed, std::int64_t records,
                         std::int64_t global_batch, const std::string& name)
    : settings_(settings), seed_(seed), records_(records), positions_(records) {
  require(settings.kind != OrderKind::kPlaces, ErrorCode::kInternal, "places have no epochs");
  require(records > 0, ErrorCode::kBadInput, "{}: there is no sample", name);
  const std::int64_t rest = records % global_batch;
  if (settings.last_batch == LastBatch::kDrop) positions_ -= rest;
  if (settings.last_batch == LastBatch::kPad && rest > 0) positions_ += global_batch - rest;
  require(positions_ > 0, ErrorCode::kBadInput,
          "{}: {} samples, a global batch has {}: with last_batch=drop none is left", name, records,
          global_batch);
}

std::optional<std::int64_t> SampleOrder::record_at(std::int64_t position) const {
  const std::int64_t epoch = position / positions_, index = position % positions_;
  if (index >= records_) return std::nullopt;
  if (settings_.kind == OrderKind::kFile) return index;
  const std::int64_t window = std::min(settings_.window.value_or(records_), records_);
  const std::int64_t first = index - index % window;
  const std::int64_t size = std::min(window, records_ - first);
  const CounterRng keys(seed_, "orders of epochs");
  const std::uint64_t key =
      keys.bits(static_cast<std::uint64_t>(epoch)) ^ static_cast<std::uint64_t>(first);
  return first + permuted(index - first, size, key);
}

}  // namespace sextant
