// Which other processes of a job still live, from when each was last heard and from what the
// machine says of those that run on it. Times are arguments: no clock, no network.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Where a process runs.
struct PeerIdentity {
  std::string host;
  std::string machine;  // equal for processes that can see each other by number
  std::int64_t pid = 0;
};

// Of this process; and its text, which the others read.
PeerIdentity own_identity();
std::string to_text(const PeerIdentity& identity);
PeerIdentity peer_identity_from(std::string_view text);

enum class PeerState : std::uint8_t { kHere, kLeft, kGone, kSilent };

class PeerWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  PeerWatch(std::size_t own, std::size_t peers, std::chrono::milliseconds timeout, Time now);
  // Until then nobody is looked for by number.
  void identify(std::vector<PeerIdentity> identities);

  // What came of a peer: a message, or the last one.
  void heard(std::size_t peer, Time now) { peers_[peer].heard = now; }
  void left(std::size_t peer) { peers_[peer].state = PeerState::kLeft; }
  // A process that is missing for so long, in every look, is gone: what it said at last may be
  // under way before.
  static constexpr std::chrono::milliseconds kTimeToArrive{50};
  // Looks at all; the first that is lost since the last look.
  std::optional<std::size_t> look(Time now);
  // At the last look, and not known to be gone or to have left.
  bool is_any_missing() const;

  PeerState state(std::size_t peer) const { return peers_[peer].state; }
  // Whether the last look found it gone, or silent for too long.
  bool is_lost(std::size_t peer) const;
  // Lost, or about to be: not heard for half of the timeout, in which it says several times that it
  // lives.
  bool is_lost_or_quiet(std::size_t peer, Time now) const;
  bool have_all_left_or_gone() const;
  const PeerIdentity& identity(std::size_t peer) const { return peers_[peer].identity; }

 private:
  struct Peer {
    PeerIdentity identity;
    Time heard;
    PeerState state = PeerState::kHere;
    std::optional<Time> missing_since;
  };
  bool is_missing(const Peer& peer) const;

  std::size_t own_;
  std::vector<Peer> peers_;
  std::chrono::milliseconds timeout_;
};

}  // namespace sextant
