// Any tensor is rows of its last dim; experts are matrices behind each other.
#include "io/weights/foreign_layout.h"

#include "core/base/check.h"

namespace sextant {
namespace {

std::int64_t last_extent(const Shape& shape) {
  return shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
}

}  // namespace

ForeignMatrix foreign_matrix(const ForeignTensor& tensor, const Shape& own) {
  ForeignMatrix m;
  m.columns = m.own_row_stride = last_extent(own);
  const std::int64_t of_own = tensor.expert ? own.elements() / own[0] : own.elements();
  m.rows = m.columns == 0 ? 0 : of_own / m.columns;
  m.own_begin = tensor.expert.value_or(0) * of_own;
  const std::int64_t width = last_extent(tensor.shape);
  m.row_stride = tensor.is_transposed ? 1 : width;
  m.column_stride = tensor.is_transposed ? width : 1;
  m.begin = tensor.first_column.value_or(0) * m.column_stride;
  const bool fits = tensor.is_transposed
                        ? tensor.shape == Shape{m.columns, m.rows}
                        : m.rows * width == tensor.shape.elements() &&
                              tensor.first_column.value_or(0) + m.columns <= width &&
                              (tensor.first_column || m.columns == width);
  require(fits && (!tensor.expert || *tensor.expert < own[0]), ErrorCode::kInternal,
          "'{}' of {} cannot lie in '{}' of {}", tensor.own, to_string(own), tensor.names.front(),
          to_string(tensor.shape));
  return m;
}

}  // namespace sextant
