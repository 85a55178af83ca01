// Memory for the operands of launches that are measured: made once, grown, filled with numbers.
#pragma once

#include "actor/calls/kernel_context.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace sextant {

// What a tensor takes beside others.
std::size_t aligned_bytes(const TensorType& type);

// Memory of the card that is current when it is reserved. It loses its contents when it grows.
class BenchPool {
 public:
  using Fill = std::function<void(void*, std::size_t)>;
  explicit BenchPool(Fill fill);
  ~BenchPool();
  BenchPool(const BenchPool&) = delete;
  BenchPool& operator=(const BenchPool&) = delete;

  // False where the card has not so much.
  bool reserve(std::size_t bytes);
  void refill();
  std::byte* at(std::size_t offset) const { return data_ + offset; }

 private:
  Fill fill_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Inputs hold normal numbers, or ids below a limit; fills are enqueued on the stream.
class BenchOperands {
 public:
  explicit BenchOperands(cudaStream_t stream);

  // Ids that are filled in from now on are in [0, limit).
  void set_id_limit(std::int64_t limit);
  // Gives all operands addresses; false where the card has not so much memory.
  bool place(std::vector<KernelContext>& calls);
  BenchPool& inputs() { return inputs_; }
  BenchPool& outputs() { return outputs_; }

 private:
  std::int64_t id_limit_ = 1000;
  BenchPool inputs_, outputs_, ids32_, ids64_;
};

}  // namespace sextant
