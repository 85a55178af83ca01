// Equal times keep the order in which they were drawn, so a seed says all.
#include "actor/hosts/simulated_link.h"

#include <algorithm>

namespace sextant {

void SimulatedLink::send(const Packet& packet) {
  ++time_;
  underway_.emplace(due(), packet);
  if (random_() % 100 >= faults_.repeat_percent) return;
  ++repeated_;
  underway_.emplace(due(), packet);
}

std::optional<Packet> SimulatedLink::next() {
  if (underway_.empty()) return std::nullopt;
  const auto first = underway_.begin();
  time_ = std::max(time_ + 1, first->first);
  std::optional<Packet> packet(std::move(first->second));
  underway_.erase(first);
  std::uint64_t& latest = latest_[{packet->from, packet->to}];
  if (packet->number < latest) ++overtaken_;
  latest = std::max(latest, packet->number + 1);
  return packet;
}

}  // namespace sextant
