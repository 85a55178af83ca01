// States of a rank between host and card: first contents, and copies beside the steps.
#pragma once

#include "actor/protocol/device.h"
#include "core/base/dtype.h"
#include "core/base/units.h"
#include "core/graphs/initial_contents.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// The bits are those that the CPU backend stores: drawn on the host's cores in double, rounded once
// to the dtype. Copies are on the default stream.
void fill_on_device(const InitialContents& contents, DType dtype, std::byte* destination);

// Copies of states in pinned memory of the host, made by the card's copy engine on a stream of
// their own:
//   queues       step n, over | step n + 1 until it changes a state | wait(copied) | ...
//   copy stream               | copies -> copied |
// States that lie side by side on the card are one copy, with what little is between them.
class CudaStateCopies final : public StateCopies {
 public:
  struct Place {
    const std::byte* on_card = nullptr;
    Bytes size;
  };
  // Throws Error(kDevice) where the host has no such memory.
  CudaStateCopies(int device, const std::vector<Place>& places);
  ~CudaStateCopies() override;
  CudaStateCopies(const CudaStateCopies&) = delete;
  CudaStateCopies& operator=(const CudaStateCopies&) = delete;

  void begin() override;
  void wait() override;
  std::span<const std::byte> bytes(std::size_t state) const override { return states_[state]; }
  // For the streams of launches that change states; over where no copy has begun.
  cudaEvent_t copied() const { return copied_; }

 private:
  struct Piece {
    const std::byte* on_card = nullptr;
    std::int64_t on_host = 0, bytes = 0;
  };
  void lay_out(const std::vector<Place>& places);

  const int device_;
  std::vector<Piece> pieces_;
  std::vector<std::int64_t> offsets_;  // by state
  std::int64_t size_ = 0;
  std::byte* host_ = nullptr;
  std::vector<std::span<const std::byte>> states_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t copied_ = nullptr;
};

}  // namespace sextant
