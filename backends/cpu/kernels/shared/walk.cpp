// Strides of tensors seen from a tensor with more dims.
#include "backends/cpu/kernels/shared/walk.h"

namespace sextant {

std::vector<std::size_t> strides_onto(const Shape& shape, const std::vector<bool>& has_dim) {
  std::vector<std::size_t> strides(shape.rank(), 0);
  std::size_t stride = 1;
  for (std::size_t dim = shape.rank(); dim-- > 0;) {
    if (!has_dim[dim]) continue;
    strides[dim] = stride;
    stride *= static_cast<std::size_t>(shape[dim]);
  }
  return strides;
}

}  // namespace sextant
