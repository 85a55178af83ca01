// Extents of attention and which keys a query sees: the arithmetic of backends/cpu/kernels/
// attention.cpp, for the host and for kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// q [batch, queries, heads, size], k [batch, keys, kv_heads, size], v with value_size; `first_*`
// say where they lie in the whole. A query sees the keys up to its own global position, all of them
// unless `causal`; in chunks, those of its own chunk, which come from `shift` chunks before.
struct AttentionShape {
  std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, size = 0, value_size = 0;
  std::int64_t first_query = 0, first_key = 0, first_head = 0, first_kv_head = 0;
  std::int64_t group = 1;  // query heads per key/value head
  std::int64_t chunk = 0;  // positions; 0: the sequence is whole
  std::int64_t shift = 0;
  bool causal = true;
  double scale = 1;

  __host__ __device__ std::int64_t row(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return (b * queries + s) * heads + h;
  }
  __host__ __device__ std::int64_t key_row(std::int64_t b, std::int64_t t, std::int64_t kv) const {
    return (b * keys + t) * kv_heads + kv;
  }
  __host__ __device__ std::int64_t kv_head_of(std::int64_t head) const {
    return (first_head + head) / group - first_kv_head;
  }
  // Query heads [first, last) that read key/value head `kv`.
  __host__ __device__ std::int64_t first_head_of(std::int64_t kv) const {
    return within(0, (first_kv_head + kv) * group - first_head, heads);
  }
  __host__ __device__ std::int64_t last_head_of(std::int64_t kv) const {
    return first_head_of(kv + 1);
  }

  // Keys [first_seen, last_seen) of query s, local indices; both grow with s, but for queries that
  // see nothing, of which last_seen <= first_seen.
  __host__ __device__ std::int64_t first_seen(std::int64_t s) const {
    if (chunk == 0) return 0;
    return within(0, (first_query + s) / chunk * chunk - first_key, keys);
  }
  __host__ __device__ std::int64_t last_seen(std::int64_t s) const {
    const std::int64_t position = first_query + s;
    if (!causal && chunk == 0) return keys;
    if (causal && chunk != 0 && position / chunk < shift) return 0;
    const bool is_cut = causal && (chunk == 0 || shift == 0);  // by the query's own position
    const std::int64_t end = is_cut ? position + 1 : (position / chunk + 1) * chunk;
    return within(0, end - first_key, keys);
  }
  // Queries [first_seeing, last_seeing): no query outside sees one of the keys [t, t + count).
  __host__ __device__ std::int64_t first_seeing(std::int64_t t) const {
    const std::int64_t position = first_key + t;
    if (!causal && chunk == 0) return 0;
    const bool is_cut = causal && (chunk == 0 || shift == 0);
    const std::int64_t begin = is_cut ? position : position / chunk * chunk;
    return within(0, begin - first_query, queries);
  }
  __host__ __device__ std::int64_t last_seeing(std::int64_t t, std::int64_t count) const {
    if (chunk == 0) return queries;
    return within(0, ((first_key + t + count - 1) / chunk + 1) * chunk - first_query, queries);
  }

  __host__ __device__ static std::int64_t within(std::int64_t low, std::int64_t value,
                                                 std::int64_t high) {
    return value < low ? low : value > high ? high : value;
  }
};

}  // namespace sextant
