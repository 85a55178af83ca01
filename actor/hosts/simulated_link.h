// A network that misbehaves as networks may, by chance from a seed: messages are late, overtake
// each other and come twice. None is lost, which a transport sees to. No clock and no thread: its
// time passes when somebody asks for the next arrival.
#pragma once

#include "actor/hosts/host_mailbox.h"
#include "core/base/ids.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <utility>

namespace sextant {

struct LinkFaults {
  std::uint64_t seed = 0;
  std::uint32_t max_delay = 20;      // sends and arrivals that go by before a message comes
  std::uint32_t repeat_percent = 0;  // messages that come twice
};

struct Packet {
  Rank from, to;
  std::uint64_t number = 0;  // among those from one member to the other
  HostTag tag;
  HostBytes bytes;
};

class SimulatedLink {
 public:
  explicit SimulatedLink(const LinkFaults& faults) : faults_(faults), random_(faults.seed) {}

  void send(const Packet& packet);
  // What comes next, at whichever member; nothing: nothing is on its way.
  std::optional<Packet> next();
  bool is_idle() const { return underway_.empty(); }
  // Messages that came after one that was sent behind them, or twice.
  std::int64_t overtaken() const { return overtaken_; }
  std::int64_t repeated() const { return repeated_; }

 private:
  std::uint64_t due() { return time_ + 1 + random_() % (faults_.max_delay + 1); }

  LinkFaults faults_;
  std::mt19937_64 random_;
  std::uint64_t time_ = 0;
  std::multimap<std::uint64_t, Packet> underway_;          // by the time when it comes
  std::map<std::pair<Rank, Rank>, std::uint64_t> latest_;  // number that came, and one more
  std::int64_t overtaken_ = 0, repeated_ = 0;
};

}  // namespace sextant
