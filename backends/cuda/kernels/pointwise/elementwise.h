// Functions of the elements at one place of one to three tensors, callable from C++.
#pragma once

#include "backends/cuda/kernels/shared/strides.h"
#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

enum class Function : std::uint8_t {
  // of every type
  kWhere,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kLogicalNot,
  kLogicalAnd,
  kLogicalOr,
  // of numbers
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kAbs,
  kNeg,
  kSign,
  kSquare,
  kRelu,
  kAddScalar,  // x + a
  kClamp,      // to [a, b]
  // of floating types
  kMaximumGrad,
  kMinimumGrad,
  kClampGrad,  // dy where a <= x <= b
  kScale,      // a x
  kPow,        // x^a
  kExp,
  kLog,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kFloor,
  kRound,
  kReluGrad,
  kTanh,
  kTanhGrad,
  kSigmoid,
  kSigmoidGrad,
  kGelu,  // with erf
  kGeluGrad,
  kGeluTanh,
  kGeluTanhGrad,
  kSilu,
  kSiluGrad
};
inline constexpr int kNumFunctions = static_cast<int>(Function::kSiluGrad) + 1;

struct FunctionArguments {
  Function function = Function::kAdd;
  // Of all operands but the condition of `where` and the result of a comparison, which are bool.
  DType dtype = DType::kF32;
  const void* in[3] = {};
  void* out = nullptr;
  bool accumulate = false;  // out += instead of out =
  double a = 0, b = 0;      // attributes
  std::int64_t elements = 0;
  Strides strides;
  bool is_one_run = false, falls_into_packs = false;  // OperandRuns
};

cudaError_t enqueue_function(const FunctionArguments& arguments, cudaStream_t stream);

// One per type for short compilations: 16 bytes at a time.
cudaError_t enqueue_f32_packs(const FunctionArguments& arguments, cudaStream_t stream);
cudaError_t enqueue_bf16_packs(const FunctionArguments& arguments, cudaStream_t stream);
cudaError_t enqueue_f16_packs(const FunctionArguments& arguments, cudaStream_t stream);

}  // namespace sextant
