// Host side of movement: boxes and strides become moves, with as few dims and as wide elements as
// they allow.
#pragma once

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/movement/movement.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace sextant {

// One dim of a move, strides in elements of the tensors.
struct MoveDim {
  std::int64_t extent = 1, from = 0, to = 0;
};

// `dims` row-major, of elements of `dtype`; adds instead of moving where asked to.
CudaMove make_move(DType dtype, const void* from, void* to, std::vector<MoveDim> dims, bool adds);

// A kernel that is fills and moves, one after the other.
class Movement final : public CudaKernel {
 public:
  void add(const CudaMove& move) { steps_.emplace_back(move); }
  void add(const CudaFill& fill) { steps_.emplace_back(fill); }
  void enqueue(cudaStream_t stream) override;

 private:
  std::vector<std::variant<CudaFill, CudaMove>> steps_;
};

// `value` in `dtype`, rounded as the reference rounds, repeated to eight bytes.
std::uint64_t pattern_of(DType dtype, double value);
// The neutral element of a reduction in `dtype`; limits of integers by saturation, of bool 0 or 1.
std::uint64_t neutral_pattern(ReduceOp op, DType dtype);
CudaFill fill_of(const KernelOperand& operand, std::uint64_t pattern);

}  // namespace sextant
