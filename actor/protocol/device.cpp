// What a device answers that has no way to its state, and copies of one that waits for them.
#include "actor/protocol/device.h"

#include "core/base/check.h"

#include <utility>

namespace sextant {
namespace {

// `begin` is all.
class CopiesAtOnce final : public StateCopies {
 public:
  CopiesAtOnce(Device& device, std::vector<StateToCopy> states)
      : device_(device), states_(std::move(states)) {
    for (const StateToCopy& state : states_)
      copies_.emplace_back(static_cast<std::size_t>(state.size.value));
  }
  void begin() override {
    for (std::size_t i = 0; i < states_.size(); ++i)
      device_.read_state(states_[i].instance, states_[i].reg, copies_[i]);
  }
  void wait() override {}
  std::span<const std::byte> bytes(std::size_t state) const override { return copies_[state]; }

 private:
  Device& device_;
  const std::vector<StateToCopy> states_;
  std::vector<std::vector<std::byte>> copies_;
};

}  // namespace

void Device::read_state(InstanceId, std::int32_t, std::span<std::byte>) {
  fail(ErrorCode::kDevice, "states of a device of kind '{}' cannot be read", spec().name);
}

void Device::write_state(InstanceId, std::int32_t, std::span<const std::byte>) {
  fail(ErrorCode::kDevice, "states of a device of kind '{}' cannot be written", spec().name);
}

std::shared_ptr<StateCopies> Device::make_state_copies(std::vector<StateToCopy> states) {
  return std::make_shared<CopiesAtOnce>(*this, std::move(states));
}

}  // namespace sextant
