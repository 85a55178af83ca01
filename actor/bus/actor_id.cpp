// Numbers into bits, each held against its room.
#include "actor/bus/actor_id.h"

#include "core/base/check.h"

namespace sextant {
namespace {

std::uint64_t checked(std::int64_t number, int bits, const char* what) {
  require(number >= 0 && number < std::int64_t{1} << bits, ErrorCode::kUsage,
          "{} {} of an actor: wanted 0 .. {}", what, number, (std::int64_t{1} << bits) - 1);
  return static_cast<std::uint64_t>(number);
}

}  // namespace

ActorId::ActorId(std::int64_t node, std::int64_t device, QueueRole queue, std::int64_t actor)
    : bits_(checked(node, kNodeBits, "node") << (kDeviceBits + kQueueBits + kActorBits) |
            checked(device, kDeviceBits, "device") << (kQueueBits + kActorBits) |
            static_cast<std::uint64_t>(queue) << kActorBits |
            checked(actor, kActorBits, "number")) {}

ActorId ActorId::from_bits(std::uint64_t bits) {
  ActorId id;
  id.bits_ = bits;
  require(bits >> 63U == 0, ErrorCode::kUsage, "actor {:#x}: the highest bit is reserved", bits);
  require(static_cast<std::size_t>(id.queue()) < kNumQueueRoles, ErrorCode::kUsage,
          "actor {:#x}: there is no queue {}", bits, static_cast<int>(id.queue()));
  return id;
}

}  // namespace sextant
