// A process number means something only to processes of one kernel and one namespace.
#include "backends/hosts/peer_watch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <signal.h>
#include <utility>

namespace sextant {
namespace {

std::string machine_text() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &space) != 0) return {};
  return boot + ":" + std::to_string(space.st_ino);
}

}  // namespace

PeerIdentity own_identity() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {host.data(), machine_text(), ::getpid()};
}

std::string to_text(const PeerIdentity& identity) {
  return identity.host + "\n" + identity.machine + "\n" + std::to_string(identity.pid);
}

PeerIdentity peer_identity_from(std::string_view text) {
  const std::size_t first = text.find('\n'), second = text.find('\n', first + 1);
  PeerIdentity identity{std::string(text.substr(0, first)),
                        std::string(text.substr(first + 1, second - first - 1)), 0};
  const std::string_view pid = text.substr(second + 1);
  std::from_chars(pid.data(), pid.data() + pid.size(), identity.pid);
  return identity;
}

PeerWatch::PeerWatch(std::size_t own, std::size_t peers, std::chrono::milliseconds timeout,
                     Time now)
    : own_(own), peers_(peers), timeout_(timeout) {
  for (Peer& peer : peers_) peer.heard = now;
}

void PeerWatch::identify(std::vector<PeerIdentity> identities) {
  for (std::size_t p = 0; p < peers_.size(); ++p) peers_[p].identity = std::move(identities[p]);
}

bool PeerWatch::is_missing(const Peer& peer) const {
  const std::string& machine = peers_[own_].identity.machine;
  if (machine.empty() || peer.identity.machine != machine) return false;
  return ::kill(static_cast<pid_t>(peer.identity.pid), 0) != 0 && errno == ESRCH;
}

std::optional<std::size_t> PeerWatch::look(Time now) {
  std::optional<std::size_t> lost;
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    Peer& peer = peers_[p];
    if (p == own_ || peer.state != PeerState::kHere) continue;
    const bool missing = is_missing(peer);
    if (!missing)
      peer.missing_since.reset();
    else if (!peer.missing_since)
      peer.missing_since = now;
    if (missing && now - *peer.missing_since >= kTimeToArrive)
      peer.state = PeerState::kGone;
    else if (!missing && now - peer.heard > timeout_)
      peer.state = PeerState::kSilent;
    if (peer.state != PeerState::kHere && !lost) lost = p;
  }
  return lost;
}

bool PeerWatch::is_any_missing() const {
  for (const Peer& peer : peers_)
    if (peer.state == PeerState::kHere && peer.missing_since) return true;
  return false;
}

bool PeerWatch::is_lost(std::size_t peer) const {
  return peers_[peer].state == PeerState::kGone || peers_[peer].state == PeerState::kSilent;
}

bool PeerWatch::is_lost_or_quiet(std::size_t peer, Time now) const {
  return is_lost(peer) ||
         (peers_[peer].state == PeerState::kHere && now - peers_[peer].heard > timeout_ / 2);
}

bool PeerWatch::have_all_left_or_gone() const {
  for (std::size_t p = 0; p < peers_.size(); ++p)
    if (p != own_ && peers_[p].state == PeerState::kHere) return false;
  return true;
}

}  // namespace sextant
