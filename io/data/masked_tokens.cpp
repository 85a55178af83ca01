// Two draws a place: whether it is predicted and how it is shown, and the id that replaces it.
#include "io/data/masked_tokens.h"

namespace sextant {
namespace {

// In parts of 2^16, from the upper bits of a draw: 15 %; of those 80 % and 10 %.
constexpr std::uint64_t kShare = std::uint64_t{1} << 16;
constexpr std::uint64_t kPredicted = kShare * 15 / 100, kHidden = kShare * 80 / 100,
                        kReplaced = kShare * 90 / 100;

}  // namespace

std::optional<TokenMask> token_mask(const Attributes& input) {
  if (!input.contains("mask_id") || !input.contains("limit")) return std::nullopt;
  return TokenMask{.mask_id = static_cast<std::int32_t>(input.integer("mask_id")),
                   .vocabulary = input.integer("limit")};
}

MaskedSample::MaskedSample(const TokenMask& mask, std::uint64_t seed, std::int64_t position,
                           std::int64_t sequence)
    : mask_(mask),
      random_(seed, "masked tokens"),
      first_(static_cast<std::uint64_t>(position) * 2 * static_cast<std::uint64_t>(sequence)),
      sure_(static_cast<std::int64_t>(
          CounterRng(seed, "masked place").bits(static_cast<std::uint64_t>(position)) %
          static_cast<std::uint64_t>(sequence))) {}

std::uint64_t MaskedSample::draw(std::int64_t place) const {
  return random_.bits(first_ + 2 * static_cast<std::uint64_t>(place));
}

bool MaskedSample::is_predicted(std::int64_t place) const {
  return place == sure_ || (draw(place) >> 48) < kPredicted;
}

std::int32_t MaskedSample::shown(std::int64_t place, std::int32_t id) const {
  if (!is_predicted(place)) return id;
  const std::uint64_t way = (draw(place) >> 32) % kShare;
  if (way < kHidden) return mask_.mask_id;
  if (way >= kReplaced) return id;
  const std::uint64_t other = random_.bits(first_ + 2 * static_cast<std::uint64_t>(place) + 1);
  return static_cast<std::int32_t>(other % static_cast<std::uint64_t>(mask_.vocabulary));
}

}  // namespace sextant
