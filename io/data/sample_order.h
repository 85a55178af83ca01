// Which record the sample at a position is: epochs, each in an order of its own (README: order,
// window, short last batch).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sextant {

enum class OrderKind : std::uint8_t { kPlaces, kShuffled, kFile };
enum class LastBatch : std::uint8_t { kWrap, kDrop, kPad };

struct OrderSettings {
  OrderKind kind = OrderKind::kShuffled;
  std::optional<std::int64_t> window = {};  // records; nothing: all
  LastBatch last_batch = LastBatch::kWrap;
  bool operator==(const OrderSettings&) const = default;
};

// "shuffled window=1000 last_batch=drop" and back. Throws Error(kUsage) with what would do.
OrderSettings parse_order(std::string_view text);
std::string to_string(const OrderSettings& settings);

// The image of `index` under a permutation of 0 .. count - 1 that `key` chooses.
std::int64_t permuted(std::int64_t index, std::int64_t count, std::uint64_t key);

class SampleOrder {
 public:
  // Not for OrderKind::kPlaces, which has no epochs. Throws Error(kBadInput) naming `name` where
  // there are no records, or too few for one batch and they are dropped.
  SampleOrder(const OrderSettings& settings, std::uint64_t seed, std::int64_t records,
              std::int64_t global_batch, const std::string& name);

  // Nothing: the place is filled up (LastBatch::kPad). A position is 0 or more.
  std::optional<std::int64_t> record_at(std::int64_t position) const;
  std::int64_t positions_per_epoch() const { return positions_; }

 private:
  OrderSettings settings_;
  std::uint64_t seed_;
  std::int64_t records_, positions_;
};

}  // namespace sextant
