// Makes the strides of operands: dims that all of them walk through alike become one.
#pragma once

#include "actor/calls/kernel_context.h"
#include "backends/cuda/kernels/shared/strides.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// Per dim of `output`, first to last, how far a step along it moves in the row-major operand, which
// stretches to `output`: a missing leading dim or an extent of 1 repeats.
std::vector<std::int64_t> stretched_strides(const Shape& operand, const Shape& output);

// The row-major index in the global tensor of the first element of the box.
std::int64_t first_global_index(const Shape& global, const Shard& box);

// One entry of `strides` per operand, at most Strides::kMostOperands. There is at least one dim
// left, so that a scalar is a run of one element.
Strides merged_strides(const Shape& output, std::span<const std::vector<std::int64_t>> strides);

// How the operands of a pass are read; all outputs have the shape `output`.
struct OperandRuns {
  Strides strides;
  // Every operand is read in the order of the output, each element once, 16 bytes at a time.
  bool is_one_run = false;
  // Every 16 bytes of the output meet 16 bytes of each operand or one repeated element.
  bool falls_into_packs = false;
};

// `pack`: elements of a pack. `strides`: of operands besides `in`, which are not read in packs.
OperandRuns runs_of(std::span<const KernelOperand* const> in, const Shape& output, bool aligned,
                    std::int64_t pack, std::span<const std::vector<std::int64_t>> strides = {});

}  // namespace sextant
