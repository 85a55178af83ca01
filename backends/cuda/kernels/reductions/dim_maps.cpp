// Maps of dims: those of extent 1 left out, neighbours that all tensors walk through alike merged.
#include "backends/cuda/kernels/reductions/dim_maps.h"

namespace sextant {

std::vector<std::int64_t> strides_among(const Shape& shape, const std::vector<bool>& has_dim) {
  std::vector<std::int64_t> strides(shape.rank(), 0);
  std::int64_t step = 1;
  for (std::size_t dim = shape.rank(); dim-- > 0;) {
    if (!has_dim[dim]) continue;
    strides[dim] = step;
    step *= shape[dim];
  }
  return strides;
}

DimMap map_of(const Shape& shape, const std::vector<bool>& taken, const TwoStrides& strides) {
  DimMap map;
  for (std::size_t dim = shape.rank(); dim-- > 0;) {
    if (!taken[dim]) continue;
    map.positions *= shape[dim];
    if (shape[dim] == 1) continue;
    const int inner = map.dims - 1;
    bool continues = inner >= 0;
    for (int tensor = 0; continues && tensor < DimMap::kMostTensors; ++tensor)
      continues = strides[tensor][dim] == map.strides[tensor][inner] * map.extents[inner];
    if (continues) {
      map.extents[inner] *= shape[dim];
      continue;
    }
    map.extents[map.dims] = shape[dim];
    for (int tensor = 0; tensor < DimMap::kMostTensors; ++tensor)
      map.strides[tensor][map.dims] = strides[tensor][dim];
    ++map.dims;
  }
  return map;
}

}  // namespace sextant
