// Bytes go as they lie: a state has one layout on all devices.
#include "backends/cuda/devices/device_states.h"

#include "backends/cuda/cuda_check.h"
#include "core/base/check.h"

namespace sextant {

std::span<std::byte> DeviceStates::state_of(InstanceId instance, std::int32_t reg,
                                            std::size_t bytes) const {
  const std::span<std::byte> state = program_.state_bytes(instance, reg);
  require(state.size() == bytes, ErrorCode::kInternal, "{} bytes for a state of {} on rank {}",
          bytes, state.size(), rank_.value);
  return state;
}

void DeviceStates::read(InstanceId instance, std::int32_t reg, std::span<std::byte> to) const {
  const std::span<std::byte> state = state_of(instance, reg, to.size());
  SEXTANT_CUDA(cudaMemcpy(to.data(), state.data(), to.size(), cudaMemcpyDefault));
}

// A copy from memory that is not pinned may return before its bytes are on the card, and queues do
// not wait for the default stream.
void DeviceStates::write(InstanceId instance, std::int32_t reg,
                         std::span<const std::byte> from) const {
  const std::span<std::byte> state = state_of(instance, reg, from.size());
  SEXTANT_CUDA(cudaMemcpy(state.data(), from.data(), from.size(), cudaMemcpyDefault));
  SEXTANT_CUDA(cudaStreamSynchronize(nullptr));
}

std::shared_ptr<StateCopies> DeviceStates::make_copies(int device,
                                                       const std::vector<StateToCopy>& states) {
  require(copies_ == nullptr, ErrorCode::kInternal, "rank {}: copies of states are made once",
          rank_.value);
  std::vector<CudaStateCopies::Place> places;
  for (const StateToCopy& state : states)
    places.push_back(
        {state_of(state.instance, state.reg, static_cast<std::size_t>(state.size.value)).data(),
         state.size});
  copies_ = std::make_shared<CudaStateCopies>(device, places);
  return copies_;
}

}  // namespace sextant
