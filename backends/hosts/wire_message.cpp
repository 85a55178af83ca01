// The trailer is appended to a copy, on the sender's own thread, and cut off where it arrives.
#include "backends/hosts/wire_message.h"

#include "core/base/check.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace sextant {
static_assert(sizeof(WireTrailer) == 24 && std::is_trivially_copyable_v<WireTrailer>);

std::vector<HostBytes> wire_parts(WireTrailer trailer, std::span<const std::byte> bytes,
                                  std::size_t longest) {
  std::vector<HostBytes> parts;
  for (std::size_t first = 0; first == 0 || first < bytes.size(); first += longest) {
    const auto part = bytes.subspan(first, std::min(longest, bytes.size() - first));
    trailer.more = first + part.size() < bytes.size();
    HostBytes& sent = parts.emplace_back();
    sent.reserve(part.size() + sizeof(trailer));
    sent.assign(part.begin(), part.end());
    const auto tail = std::as_bytes(std::span(&trailer, 1));
    sent.insert(sent.end(), tail.begin(), tail.end());
  }
  return parts;
}

void set_number(HostBytes& part, std::uint64_t number) {
  std::memcpy(part.data() + part.size() - sizeof(WireTrailer) + offsetof(WireTrailer, number),
              &number, sizeof(number));
}

void WireReader::put(HostBytes part) {
  WireMessage message;
  require(part.size() >= sizeof(message.trailer), ErrorCode::kRankFailed,
          "a message of {} bytes has no trailer", part.size());
  std::memcpy(&message.trailer, part.data() + part.size() - sizeof(message.trailer),
              sizeof(message.trailer));
  part.resize(part.size() - sizeof(message.trailer));
  message.bytes = std::move(part);
  const std::uint64_t number = message.trailer.number;
  order_.put(number, std::move(message));
}

std::optional<WireMessage> WireReader::take() {
  while (std::optional<WireMessage> part = order_.take()) {
    const HostTag tag = part->trailer.tag();
    const auto begun = begun_.find(tag);
    if (begun == begun_.end() && !part->trailer.more) return part;
    HostBytes& whole = begun == begun_.end() ? begun_[tag] : begun->second;
    whole.insert(whole.end(), part->bytes.begin(), part->bytes.end());
    if (part->trailer.more) continue;
    part->bytes = std::move(whole);
    begun_.erase(tag);
    return part;
  }
  return std::nullopt;
}

}  // namespace sextant
