// Words on both sides, axis by axis.
#include "actor/calls/local_boxing.h"

#include "core/base/check.h"

#include <cstdint>
#include <vector>

namespace sextant {
namespace {

// B -> P(sum): one coordinate keeps the value, or the sum would count it once per device. Under max
// and min all may keep it.
bool keeps_value(const NdSbp& from, const NdSbp& to, const std::vector<std::int64_t>& coordinates) {
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    const bool becomes_sum = to[axis].is_partial() && to[axis].reduce == ReduceOp::kSum;
    if (from[axis].is_broadcast() && becomes_sum && coordinates[axis] != 0) return false;
  }
  return true;
}

}  // namespace

std::optional<Shard> taken_over(const KernelContext& call) {
  if (call.in.empty()) return std::nullopt;
  const KernelOperand &from = call.in[0], &to = call.out[0];
  const NdSbp &from_words = from.layout->words, &to_words = to.layout->words;
  if (from.layout->placement != to.layout->placement) {
    if (from.box.is_empty() && to.box.is_empty()) return std::nullopt;
    require(from.box == to.box, ErrorCode::kInternal,
            "other words cannot move contents: {} -> {} is another part on this device",
            to_string(from_words), to_string(to_words));
    return to.box;
  }
  for (std::size_t axis = 0; axis < to_words.size(); ++axis)
    require(!from_words[axis].is_partial() || from_words[axis] == to_words[axis] ||
                call.hierarchy[axis] == 1,
            ErrorCode::kInternal, "local boxing cannot reduce: {} -> {}", to_string(from_words),
            to_string(to_words));
  if (!keeps_value(from_words, to_words, call.coordinates)) return std::nullopt;
  return intersect(from.box, to.box);
}

ReduceOp reduction_of(const NdSbp& words) {
  for (const Sbp& word : words)
    if (word.is_partial()) return word.reduce;
  return ReduceOp::kSum;
}

}  // namespace sextant
