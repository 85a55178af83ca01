// What a device answers that has no way to its state.
#include "actor/protocol/device.h"

#include "core/base/check.h"

namespace sextant {

void Device::read_state(InstanceId, std::int32_t, std::span<std::byte>) {
  fail(ErrorCode::kDevice, "states of a device of kind '{}' cannot be read", spec().name);
}

void Device::write_state(InstanceId, std::int32_t, std::span<const std::byte>) {
  fail(ErrorCode::kDevice, "states of a device of kind '{}' cannot be written", spec().name);
}

}  // namespace sextant
