// Dims that are one dim on both sides are merged; where rows are contiguous on both sides, elements
// become the widest words that divide rows, strides and addresses.
#include "backends/cuda/kernels/movement/moves.h"

#include "backends/cuda/cuda_check.h"
#include "core/base/check.h"
#include "core/base/elements.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sextant {
namespace {

constexpr std::int64_t kWidest = 16;  // bytes of an access
constexpr std::int64_t kSmall = std::int64_t{1} << 31;
// Smaller tiles would be mostly empty.
constexpr std::int64_t kLeastTile = 16;

// Without dims of one element; a dim that continues the one behind it on both sides is merged.
std::vector<MoveDim> merged(const std::vector<MoveDim>& dims) {
  std::vector<MoveDim> result;
  for (const MoveDim& dim : dims) {
    if (dim.extent == 1) continue;
    if (!result.empty()) {
      MoveDim& before = result.back();
      if (before.from == dim.from * dim.extent && before.to == dim.to * dim.extent) {
        before = {before.extent * dim.extent, dim.from, dim.to};
        continue;
      }
    }
    result.push_back(dim);
  }
  if (result.empty()) result.push_back({1, 1, 1});
  return result;
}

bool divides(std::int64_t word, std::int64_t bytes) { return bytes % word == 0; }
bool divides(std::int64_t word, const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(word) == 0;
}

// Bytes of the widest word that moves rows whole.
std::int64_t word_bytes(std::int64_t size, const CudaMove& move, const std::vector<MoveDim>& dims) {
  const MoveDim& last = dims.back();
  if (last.from != 1 || last.to != 1) return size;
  const auto fits = [&](std::int64_t word) {
    return divides(word, size * last.extent) && divides(word, move.from) &&
           divides(word, move.to) &&
           std::all_of(dims.begin(), dims.end() - 1, [&](const MoveDim& dim) {
             return divides(word, size * dim.from) && divides(word, size * dim.to);
           });
  };
  std::int64_t word = kWidest;
  while (word > size && !fits(word)) word /= 2;
  return word;
}

void widen(std::vector<MoveDim>& dims, std::int64_t times) {
  for (MoveDim& dim : dims) dim.from /= times, dim.to /= times;
  MoveDim& last = dims.back();
  last = {last.extent / times, 1, 1};
}

// Rows that are one element, repeated, and can be written in the widest words.
bool repeats(std::int64_t size, const CudaMove& move, const std::vector<MoveDim>& dims) {
  const MoveDim& last = dims.back();
  return last.from == 0 && last.to == 1 && divides(kWidest, size * last.extent) &&
         divides(kWidest, move.to) &&
         std::all_of(dims.begin(), dims.end() - 1,
                     [&](const MoveDim& dim) { return divides(kWidest, size * dim.to); });
}

void widen_repeated(std::vector<MoveDim>& dims, std::int64_t times) {
  for (MoveDim& dim : dims) dim.to /= times;
  MoveDim& last = dims.back();
  last = {last.extent / times, 0, 1};
}

int tiled_dim(const std::vector<MoveDim>& dims) {
  const MoveDim& last = dims.back();
  if (last.to != 1 || last.from == 1 || last.extent < kLeastTile) return -1;
  for (std::size_t dim = 0; dim + 1 < dims.size(); ++dim)
    if (dims[dim].from == 1 && dims[dim].extent >= kLeastTile) return static_cast<int>(dim);
  return -1;
}

template <typename Integer>
Integer saturated(double value) {
  using Limits = std::numeric_limits<Integer>;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(Limits::lowest())) return Limits::lowest();
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<Integer>(value);
}

template <typename T>
std::uint64_t repeated(T value) {
  unsigned char bytes[8];
  for (std::size_t at = 0; at < sizeof(bytes); at += sizeof(T))
    std::memcpy(bytes + at, &value, sizeof(T));
  std::uint64_t pattern = 0;
  std::memcpy(&pattern, bytes, sizeof(pattern));
  return pattern;
}

}  // namespace

CudaMove make_move(DType dtype, const void* from, void* to, std::vector<MoveDim> dims, bool adds) {
  CudaMove move;
  move.from = from;
  move.to = to;
  move.adds = adds;
  move.dtype = dtype;
  move.elements = 1;
  for (const MoveDim& dim : dims) move.elements *= dim.extent;
  if (move.elements == 0) return move;
  dims = merged(dims);
  const std::int64_t size = size_of(dtype).value;
  const bool is_repeated = !adds && repeats(size, move, dims);
  const std::int64_t word = adds ? size : is_repeated ? kWidest : word_bytes(size, move, dims);
  if (is_repeated) {
    widen_repeated(dims, word / size);
    move.repeated_bytes = static_cast<int>(size);
  } else if (word > size) {
    widen(dims, word / size);
  }
  move.element_bytes = static_cast<int>(word);
  move.elements /= word / size;
  move.is_small = move.elements < kSmall;
  if (!adds && !is_repeated) move.tiled_dim = tiled_dim(dims);
  SEXTANT_INVARIANT(dims.size() <= static_cast<std::size_t>(kMostDims), "a move of {} dims",
                    dims.size());
  for (const MoveDim& dim : dims) {
    CudaDim& made = move.dims[move.rank++];
    made = {dim.extent, dim.from, dim.to, Divisor()};
    if (move.is_small) made.divisor = Divisor(dim.extent);
  }
  return move;
}

void Movement::enqueue(cudaStream_t stream) {
  for (const auto& step : steps_) {
    if (const auto* fill = std::get_if<CudaFill>(&step))
      SEXTANT_CUDA(enqueue_fill(*fill, stream));
    else
      SEXTANT_CUDA(enqueue_move(std::get<CudaMove>(step), stream));
  }
}

std::uint64_t pattern_of(DType dtype, double value) {
  switch (dtype) {
    case DType::kF64:
      return repeated(value);
    case DType::kF32:
      return repeated(static_cast<float>(value));
    case DType::kBF16:
      return repeated(__nv_bfloat16(static_cast<float>(value)));
    case DType::kF16:
      return repeated(__half(static_cast<float>(value)));
    case DType::kI64:
      return repeated(saturated<std::int64_t>(value));
    case DType::kI32:
      return repeated(saturated<std::int32_t>(value));
    case DType::kBool:
      return repeated(static_cast<std::uint8_t>(value != 0.0));
    case DType::kE4M3:
      return repeated(to_float8_e4m3(static_cast<float>(value)).bits);
    case DType::kE5M2:
      return repeated(to_float8_e5m2(static_cast<float>(value)).bits);
    case DType::kU8:
      return repeated(saturated<std::uint8_t>(value));
  }
  return 0;
}

std::uint64_t neutral_pattern(ReduceOp op, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case ReduceOp::kSum:
      return 0;
    case ReduceOp::kMax:
      // A flag is true for everything that is not 0, -infinity included.
      return dtype == DType::kBool ? 0 : pattern_of(dtype, -kInfinity);
    case ReduceOp::kMin:
      return pattern_of(dtype, kInfinity);
  }
  return 0;
}

CudaFill fill_of(const KernelOperand& operand, std::uint64_t pattern) {
  return {operand.data, size_of(operand.local).value, pattern};
}

}  // namespace sextant
