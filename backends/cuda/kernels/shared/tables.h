// What families that work on many tensors at once share: cutting tensors into chunks, one kernel
// that is several.
#pragma once

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/chunk.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

inline bool are_aligned(std::initializer_list<const void*> addresses) {
  constexpr std::uintptr_t kAccess = 16;
  for (const void* address : addresses)
    if (reinterpret_cast<std::uintptr_t>(address) % kAccess != 0) return false;
  return true;
}

// Of so many elements; one at least, which may be empty.
inline std::int64_t num_chunks_of(std::int64_t elements, std::int64_t length) {
  return std::max<std::int64_t>(1, (elements + length - 1) / length);
}

template <typename Row>
std::int64_t num_chunks_of(const std::vector<Row>& rows, std::int64_t length) {
  std::int64_t count = 0;
  for (const Row& row : rows) count += num_chunks_of(row.elements, length);
  return count;
}

// Of rows with `elements`, in chunks of `length`; row by row.
template <typename Row>
std::vector<CudaChunk> chunks_of(const std::vector<Row>& rows, std::int64_t length) {
  std::vector<CudaChunk> chunks;
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (std::int64_t chunk = 0; chunk < num_chunks_of(rows[row].elements, length); ++chunk)
      chunks.push_back({chunk * length, static_cast<std::int32_t>(row)});
  return chunks;
}

// No call writes what another one reads or writes, so that all of them may run at once. (Bytes that
// die with one call may be the output of the next.)
inline bool are_independent(std::span<const KernelContext> calls) {
  struct Use {
    const std::byte* begin;
    const std::byte* end;
    bool is_written;
  };
  std::vector<Use> uses;
  for (const KernelContext& call : calls)
    for (const auto* operands : {&call.in, &call.out})
      for (const KernelOperand& operand : *operands)
        uses.push_back(
            {operand.data, operand.data + size_of(operand.local).value, operands == &call.out});
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.begin < b.begin; });
  const Use* furthest = nullptr;  // of those before, the one that ends last
  for (const Use& use : uses) {
    const bool overlaps = furthest != nullptr && use.begin < furthest->end && use.begin < use.end;
    if (overlaps && (use.is_written || furthest->is_written)) return false;
    if (furthest == nullptr || furthest->end < use.end) furthest = &use;
  }
  return true;
}

class KernelSequence final : public CudaKernel {
 public:
  explicit KernelSequence(std::vector<std::unique_ptr<CudaKernel>> kernels)
      : kernels_(std::move(kernels)) {}
  void enqueue(cudaStream_t stream) override {
    for (const auto& kernel : kernels_) kernel->enqueue(stream);
  }

 private:
  std::vector<std::unique_ptr<CudaKernel>> kernels_;
};

inline std::unique_ptr<CudaKernel> in_sequence(std::vector<std::unique_ptr<CudaKernel>> kernels) {
  if (kernels.size() == 1) return std::move(kernels[0]);
  return std::make_unique<KernelSequence>(std::move(kernels));
}

}  // namespace sextant
