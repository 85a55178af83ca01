// How messages look between processes: bytes with a trailer behind them, long ones in parts,
// numbered by their sender. No network.
#pragma once

#include "actor/hosts/arrival_order.h"
#include "actor/hosts/host_mailbox.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

enum class WireKind : std::uint8_t { kMessage, kAlive, kAbort, kGoodbye };

struct WireTrailer {
  std::uint64_t number = 0;  // among the parts from this sender to this receiver
  std::uint64_t key = 0;
  WireKind kind = WireKind::kMessage;
  HostSubject subject = HostSubject::kGather;
  bool more = false;  // of the same message follows
  std::uint8_t unused[5] = {};
  HostTag tag() const { return {subject, key}; }
};

// MPI counts bytes in an int.
inline constexpr std::size_t kLongestPart = std::size_t{1} << 30;

// One at least, of `longest` bytes and a trailer at most; their numbers are not set yet.
std::vector<HostBytes> wire_parts(WireTrailer trailer, std::span<const std::byte> bytes,
                                  std::size_t longest = kLongestPart);
void set_number(HostBytes& part, std::uint64_t number);

struct WireMessage {
  WireTrailer trailer;
  HostBytes bytes;
};

// The parts of one sender, which come in any order and may come again.
class WireReader {
 public:
  // Throws Error(kRankFailed) for a part without a trailer.
  void put(HostBytes part);
  // The next whole message, in the order in which the last parts were sent.
  std::optional<WireMessage> take();

 private:
  ArrivalOrder<WireMessage> order_;
  std::map<HostTag, HostBytes> begun_;
};

}  // namespace sextant
