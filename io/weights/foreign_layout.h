// Which element of a foreign tensor is which of ours.
#pragma once

#include "core/files/foreign_tensor.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>

namespace sextant {

// Strides of a matrix of ours in a foreign tensor, and where it begins in both.
struct ForeignMatrix {
  std::int64_t rows = 1, columns = 1;
  std::int64_t own_begin = 0, own_row_stride = 1;  // ours are row-major
  std::int64_t begin = 0, row_stride = 1, column_stride = 1;
};
// `own`: the shape of the whole tensor of ours. Throws Error(kInternal) where both cannot be one.
ForeignMatrix foreign_matrix(const ForeignTensor& tensor, const Shape& own);

// visit(index in ours, index in theirs) for all that they have in common.
template <typename Visit>
void for_each_pair(const ForeignTensor& tensor, const Shape& own, const Visit& visit) {
  const ForeignMatrix m = foreign_matrix(tensor, own);
  for (std::int64_t row = 0; row < m.rows; ++row)
    for (std::int64_t column = 0; column < m.columns; ++column)
      visit(static_cast<std::size_t>(m.own_begin + row * m.own_row_stride + column),
            static_cast<std::size_t>(m.begin + row * m.row_stride + column * m.column_stride));
}

}  // namespace sextant
