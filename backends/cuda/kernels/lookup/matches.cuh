// Which threads of a block hold something, as a list in the order of the threads.
#pragma once

#include <cstdint>

namespace sextant {

// In shared memory; all threads of the block call `find` together. `kThreads` is the block's size,
// a multiple of 32.
template <int kThreads>
struct MatchList {
  static constexpr int kWarps = kThreads / 32;
  int count;
  std::int16_t at[kThreads];  // threads that hold something, ascending
  int of_warp[kWarps];

  // The list of threads that said yes; valid until the next call.
  __device__ __forceinline__ void find(bool holds) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const unsigned votes = __ballot_sync(0xFFFFFFFFu, holds);
    __syncthreads();  // the last list is no longer read
    if (lane == 0) of_warp[warp] = __popc(votes);
    __syncthreads();
    int before = 0, all = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      before += w < warp ? of_warp[w] : 0;
      all += of_warp[w];
    }
    if (holds) at[before + __popc(votes & ((1u << lane) - 1))] = static_cast<std::int16_t>(thread);
    if (thread == 0) count = all;
    __syncthreads();
  }
};

}  // namespace sextant
