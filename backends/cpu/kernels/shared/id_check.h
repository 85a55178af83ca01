// Ids that no rank has a row or a class for. A rank sees every id of its tokens and knows how many
// there are in all, so the first one that looks it up says so, however rows and classes are split.
// The device names operator, act and step.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"
#include "core/base/check.h"
#include "core/operators/layers/loss.h"

#include <cstddef>
#include <cstdint>

namespace sextant {

// Extent of the whole tensor of which the operand is a part.
inline std::int64_t global_extent(const KernelOperand& operand, std::size_t dim) {
  return operand.layout->global.shape[dim];
}

inline void require_row(std::int64_t id, std::int64_t rows) {
  require(id >= 0 && id < rows, ErrorCode::kBadInput, "the id {} is not one of 0 to {}", id,
          rows - 1);
}

inline std::int64_t ignored_label(const KernelContext& context) {
  return context.attributes().integer_or("ignore_index", kIgnoreIndex);
}

// Input 0 are the logits.
inline void require_label(const KernelContext& context, std::int64_t label) {
  const KernelOperand& logits = context.in[0];
  const std::int64_t classes = global_extent(logits, logits.local.shape.rank() - 1);
  require((label >= 0 && label < classes) || label == ignored_label(context), ErrorCode::kBadInput,
          "the label {} is neither a class, 0 to {}, nor ignore_index {}", label, classes - 1,
          ignored_label(context));
}

}  // namespace sextant
