// Updates of parameters: 256 threads a block, a block per chunk, four elements and
// so 16 bytes of every f32 state per thread and access. A first launch, one thread per parameter,
// counts the update and computes its rate and corrections, so that no block does it again; where
// each parameter is one block, that does it itself, which saves small ones a launch. Whether a step
// happens is read from the control, so nothing waits for the host.
#include "backends/cuda/kernels/shared/numbers.cuh"
#include "backends/cuda/kernels/training/updates.h"

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;  // elements per access

__device__ double rate_at(const CudaRate& rate, std::int64_t update) {
  const std::int64_t full = rate.warm_up > 1 ? rate.warm_up : 1;
  if (update <= full) return rate.full * static_cast<double>(update) / static_cast<double>(full);
  if (rate.schedule == CudaSchedule::kConstant) return rate.full;
  if (update >= rate.total) return rate.minimum;
  const double progress =
      static_cast<double>(update - full) / static_cast<double>(rate.total - full);
  const double left =
      rate.schedule == CudaSchedule::kLinear ? 1.0 - progress : 0.5 * (1.0 + cospi(progress));
  return rate.minimum + (rate.full - rate.minimum) * left;
}

// Counts the update: once per row and launch.
__device__ CudaUpdateStep begun(const CudaUpdateRow& row) {
  CudaUpdateStep step = {};
  step.updates = load_number<double>(row.control_type, row.control, 1) != 0.0;
  if (step.updates) {
    const std::int64_t update = ++*row.step;
    const auto count = static_cast<double>(update);
    step.coefficient = load_number<double>(row.control_type, row.control, 0);
    step.rate = rate_at(row.rate, update);
    step.factor1 = 1.0 / (1.0 - pow(row.beta1, count));
    step.factor2 = 1.0 / (1.0 - pow(row.beta2, count));
  }
  if (row.rate_used != nullptr)
    *row.rate_used = row.adds_rate ? *row.rate_used + step.rate : step.rate;
  return step;
}

__global__ void begin_updates(CudaUpdates x) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < x.num_rows) x.steps[at] = begun(x.rows[at]);
}

// What an update does to one element. In f64 the constants are those of the reference; in f32 they
// are rounded once.
template <typename State, CudaUpdate kUpdate>
struct Rule {
  State coefficient, rate, factor1, factor2, decay, momentum, epsilon, keep1, add1, keep2, add2;
  bool nesterov;

  __device__ Rule(const CudaUpdateRow& row, const CudaUpdateStep& step)
      : coefficient(static_cast<State>(step.coefficient)),
        rate(static_cast<State>(step.rate)),
        factor1(static_cast<State>(step.factor1)),
        factor2(static_cast<State>(step.factor2)),
        decay(static_cast<State>(row.decay)),
        momentum(static_cast<State>(row.momentum)),
        epsilon(static_cast<State>(row.epsilon)),
        keep1(static_cast<State>(row.beta1)),
        add1(static_cast<State>(1.0 - row.beta1)),
        keep2(static_cast<State>(row.beta2)),
        add2(static_cast<State>(1.0 - row.beta2)),
        nesterov(row.nesterov) {}

  // The direction of kLambDirection; of the others, `p` has moved.
  __device__ __forceinline__ State operator()(State gradient, State& p, State& m, State& v) const {
    State g = gradient * coefficient;
    if constexpr (kUpdate == CudaUpdate::kSgd) {
      p -= rate * (g + decay * p);
      return State(0);
    } else if constexpr (kUpdate == CudaUpdate::kMomentum) {
      g += decay * p;
      m = momentum * m + g;
      p -= rate * (nesterov ? g + momentum * m : m);
      return State(0);
    } else {
      m = keep1 * m + add1 * g;
      v = keep2 * v + add2 * g * g;
      const State direction = m * factor1 / (sqrt(v * factor2) + epsilon) + decay * p;
      if constexpr (kUpdate == CudaUpdate::kAdamW) p -= rate * direction;
      return direction;
    }
  }
};

// `kCount` elements from `at` on: four at a time where addresses allow it, else one.
template <int kCount, typename T>
__device__ __forceinline__ void load(const void* data, std::int64_t at, T (&to)[kCount]) {
  if constexpr (kCount == kWidth) {
    const auto four = *reinterpret_cast<const Values<T, kWidth>*>(static_cast<const T*>(data) + at);
#pragma unroll
    for (int k = 0; k < kCount; ++k) to[k] = four.values[k];
  } else {
    to[0] = static_cast<const T*>(data)[at];
  }
}
template <int kCount, typename T>
__device__ __forceinline__ void store(void* data, std::int64_t at, const T (&from)[kCount]) {
  if constexpr (kCount == kWidth) {
    Values<T, kWidth> four;
#pragma unroll
    for (int k = 0; k < kCount; ++k) four.values[k] = from[k];
    *reinterpret_cast<Values<T, kWidth>*>(static_cast<T*>(data) + at) = four;
  } else {
    static_cast<T*>(data)[at] = from[0];
  }
}

template <int kCount, typename State, typename Gradient, CudaUpdate kUpdate>
__device__ __forceinline__ void update_at(const CudaUpdateRow& row,
                                          const Rule<State, kUpdate>& rule, std::int64_t at) {
  constexpr bool kHasM = kUpdate != CudaUpdate::kSgd;
  constexpr bool kHasV = kUpdate == CudaUpdate::kAdamW || kUpdate == CudaUpdate::kLambDirection;
  Gradient g[kCount];
  State p[kCount], m[kCount], v[kCount], d[kCount];
  load<kCount>(row.gradient, at, g);
  load<kCount>(row.parameter, at, p);
  if constexpr (kHasM) load<kCount>(row.m, at, m);
  if constexpr (kHasV) load<kCount>(row.v, at, v);
#pragma unroll
  for (int k = 0; k < kCount; ++k) d[k] = rule(static_cast<State>(widen(g[k])), p[k], m[k], v[k]);
  if constexpr (kHasM) store<kCount>(row.m, at, m);
  if constexpr (kHasV) store<kCount>(row.v, at, v);
  if constexpr (kUpdate == CudaUpdate::kLambDirection) {
    if (row.adds_direction) {
      State present[kCount];
      load<kCount>(row.direction, at, present);
#pragma unroll
      for (int k = 0; k < kCount; ++k) d[k] += present[k];
    }
    store<kCount>(row.direction, at, d);
  } else {
    store<kCount>(row.parameter, at, p);
  }
}

template <typename State, typename Gradient, CudaUpdate kUpdate>
__device__ __forceinline__ void update_chunk(const CudaUpdateRow& row,
                                             const Rule<State, kUpdate>& rule, std::int64_t first,
                                             int count) {
  const int whole = row.is_aligned ? count / kWidth * kWidth : 0;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread * kWidth; i < whole; i += kThreads * kWidth)
    update_at<kWidth, State, Gradient, kUpdate>(row, rule, first + i);
  for (int i = whole + thread; i < count; i += kThreads)
    update_at<1, State, Gradient, kUpdate>(row, rule, first + i);
}

// The direction of a step that is skipped is zero.
template <typename State>
__device__ void clear_direction(const CudaUpdateRow& row, std::int64_t first, int count) {
  if (row.adds_direction) return;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads)
    static_cast<State*>(row.direction)[first + i] = State(0);
}

template <bool kBegins>
__device__ __forceinline__ CudaUpdateStep step_of(const CudaUpdates& x, std::int32_t row) {
  if constexpr (!kBegins) return x.steps[row];
  __shared__ CudaUpdateStep step;
  if (threadIdx.x == 0) step = begun(x.rows[row]);
  __syncthreads();
  return step;
}

template <typename State, CudaUpdate kUpdate, bool kBegins>
__global__ void __launch_bounds__(kThreads) update_chunks(CudaUpdates x) {
  const CudaChunk chunk = x.chunks[blockIdx.x];
  const CudaUpdateRow row = x.rows[chunk.row];
  const CudaUpdateStep step = step_of<kBegins>(x, chunk.row);
  const std::int64_t left = row.elements - chunk.first;
  const int count = static_cast<int>(left < x.chunk_elements ? left : x.chunk_elements);
  if (!step.updates) {
    if constexpr (kUpdate == CudaUpdate::kLambDirection)
      clear_direction<State>(row, chunk.first, count);
    return;
  }
  const Rule<State, kUpdate> rule(row, step);
  if constexpr (std::is_same_v<State, double>) {
    update_chunk<State, double, kUpdate>(row, rule, chunk.first, count);
  } else {
    if (row.gradient_type == DType::kBF16)
      update_chunk<State, __nv_bfloat16, kUpdate>(row, rule, chunk.first, count);
    else if (row.gradient_type == DType::kF16)
      update_chunk<State, __half, kUpdate>(row, rule, chunk.first, count);
    else
      update_chunk<State, float, kUpdate>(row, rule, chunk.first, count);
  }
}

template <CudaUpdate kUpdate, bool kBegins>
void start_chunks(const CudaUpdates& x, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(x.num_chunks);
  if (x.state_type == DType::kF64)
    update_chunks<double, kUpdate, kBegins><<<blocks, kThreads, 0, stream>>>(x);
  else
    update_chunks<float, kUpdate, kBegins><<<blocks, kThreads, 0, stream>>>(x);
}

template <CudaUpdate kUpdate>
void start(const CudaUpdates& x, cudaStream_t stream) {
  if (x.rows_are_chunks)
    start_chunks<kUpdate, true>(x, stream);
  else
    start_chunks<kUpdate, false>(x, stream);
}

}  // namespace

cudaError_t enqueue_updates(const CudaUpdates& updates, cudaStream_t stream) {
  if (updates.num_rows == 0) return cudaSuccess;
  constexpr int kRowsPerBlock = 64;
  const auto blocks = static_cast<unsigned>((updates.num_rows + kRowsPerBlock - 1) / kRowsPerBlock);
  if (!updates.rows_are_chunks) begin_updates<<<blocks, kRowsPerBlock, 0, stream>>>(updates);
  if (updates.num_chunks > 0) {
    switch (updates.update) {
      case CudaUpdate::kSgd:
        start<CudaUpdate::kSgd>(updates, stream);
        break;
      case CudaUpdate::kMomentum:
        start<CudaUpdate::kMomentum>(updates, stream);
        break;
      case CudaUpdate::kAdamW:
        start<CudaUpdate::kAdamW>(updates, stream);
        break;
      case CudaUpdate::kLambDirection:
        start<CudaUpdate::kLambDirection>(updates, stream);
        break;
    }
  }
  return cudaGetLastError();
}

}  // namespace sextant
