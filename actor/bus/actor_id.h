// The name of an actor in a job. Node, device and queue say where it acts, so a message finds it
// from its name alone.
#pragma once

#include "actor/bus/routes.h"
#include "core/graphs/physical_graph.h"

#include <compare>
#include <cstdint>

namespace sextant {

// Actors that act on one thread: those of a device's queues, or the host actors beside them.
struct ActorThread {
  std::uint16_t node = 0;  // the process
  std::uint8_t device = 0;
  bool is_host = false;
  auto operator<=>(const ActorThread&) const = default;
};

// 1 bit reserved, 16 node, 7 device, 8 queue, 32 actor.
class ActorId {
 public:
  static constexpr int kNodeBits = 16, kDeviceBits = 7, kQueueBits = 8, kActorBits = 32;

  ActorId() = default;
  // Throws Error(kUsage) naming the number that has no room, or is negative.
  ActorId(std::int64_t node, std::int64_t device, QueueRole queue, std::int64_t actor);
  // Throws Error(kUsage) where the reserved bit is set, or the queue is none.
  static ActorId from_bits(std::uint64_t bits);

  std::uint64_t bits() const { return bits_; }
  std::uint16_t node() const {
    return static_cast<std::uint16_t>(bits_ >> (kDeviceBits + kQueueBits + kActorBits));
  }
  std::uint8_t device() const {
    return static_cast<std::uint8_t>(bits_ >> (kQueueBits + kActorBits) &
                                     ((1U << kDeviceBits) - 1));
  }
  QueueRole queue() const {
    return static_cast<QueueRole>(bits_ >> kActorBits & ((1U << kQueueBits) - 1));
  }
  std::uint32_t actor() const { return static_cast<std::uint32_t>(bits_); }
  ActorThread thread() const { return {node(), device(), queue() == QueueRole::kHost}; }

  auto operator<=>(const ActorId&) const = default;

 private:
  std::uint64_t bits_ = 0;
};

// How a message gets from one thread to an actor of another, or of the same.
constexpr Route route_of(const ActorThread& from, const ActorThread& to) {
  if (from == to) return Route::kSameThread;
  return from.node == to.node ? Route::kOtherThread : Route::kOtherProcess;
}

}  // namespace sextant
