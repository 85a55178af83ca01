// What lives from step to step on a card, for checkpoints: read, written and copied.
#pragma once

#include "backends/cuda/cuda_program.h"
#include "backends/cuda/cuda_state.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sextant {

// Of one rank, whose card is current in every call. A state is named by the instance that has it
// and its register there.
class DeviceStates {
 public:
  // Borrows the program.
  DeviceStates(const CudaProgram& program, Rank rank) : program_(program), rank_(rank) {}

  // While no launch is under way; as many bytes as the state has.
  void read(InstanceId instance, std::int32_t reg, std::span<std::byte> to) const;
  void write(InstanceId instance, std::int32_t reg, std::span<const std::byte> from) const;
  // Once. `device`: CUDA ordinal.
  std::shared_ptr<StateCopies> make_copies(int device, const std::vector<StateToCopy>& states);
  // When the copies that have begun are over; null where none are made.
  cudaEvent_t copied() const { return copies_ ? copies_->copied() : nullptr; }

 private:
  std::span<std::byte> state_of(InstanceId instance, std::int32_t reg, std::size_t bytes) const;

  const CudaProgram& program_;
  const Rank rank_;
  std::shared_ptr<CudaStateCopies> copies_;
};

}  // namespace sextant
