// Memory for measurements: filled with numbers, read past the caches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sextant {

// bf16 numbers, normal with deviation 1; two of them, or four, are also normal f32 and small f64.
cudaError_t enqueue_fill_normal(void* to, std::size_t bytes, cudaStream_t stream);
// Whole numbers in [0, limit), evenly spread.
cudaError_t enqueue_fill_ids(std::int32_t* to, std::size_t count, std::int64_t limit,
                             cudaStream_t stream);
cudaError_t enqueue_fill_ids(std::int64_t* to, std::size_t count, std::int64_t limit,
                             cudaStream_t stream);
// Reads everything and writes nothing: lines in the cache are clean afterwards.
cudaError_t enqueue_read(const void* from, std::size_t bytes, std::uint32_t* never,
                         cudaStream_t stream);
cudaError_t enqueue_nothing(cudaStream_t stream);

}  // namespace sextant
