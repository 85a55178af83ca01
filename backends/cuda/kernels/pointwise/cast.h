// Change of the element type, of one tensor or of many at once.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

struct CastArguments {
  DType from = DType::kF32, to = DType::kF32;
  const void* in = nullptr;
  void* out = nullptr;
  bool accumulate = false;
  std::int64_t elements = 0;
  bool aligned = false;  // to 16 bytes
};

cudaError_t enqueue_cast(const CastArguments& arguments, cudaStream_t stream);

// A part of a tensor that one block casts: at most kCastPiece elements, from an aligned one on.
struct CastPiece {
  const void* in;
  void* out;
  std::int64_t elements;
};
inline constexpr std::int64_t kCastPiece = 16384;

struct CastManyArguments {
  DType from = DType::kF32, to = DType::kF32;
  const CastPiece* pieces = nullptr;  // on the device
  std::int64_t count = 0;
};

cudaError_t enqueue_cast_many(const CastManyArguments& arguments, cudaStream_t stream);

}  // namespace sextant
