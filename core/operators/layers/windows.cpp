// Attributes of windows and the arithmetic of their extents.
#include "core/operators/layers/windows.h"

#include "core/base/check.h"
#include "core/operators/rules.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

std::vector<std::int64_t> entries(std::string_view kind, const Attributes& attributes,
                                  std::string_view name, std::vector<std::int64_t> fallback,
                                  std::int64_t least) {
  if (!attributes.contains(name)) return fallback;
  const std::vector<std::int64_t>& given = attributes.integers(name);
  require(given.size() == fallback.size(), ErrorCode::kBadInput,
          "{}: {} has {} entries, wanted one for each of the {} spatial dims", kind, name,
          given.size(), fallback.size());
  for (const std::int64_t value : given)
    require(value >= least, ErrorCode::kBadInput, "{}: {} {} is less than {}", kind, name, value,
            least);
  return given;
}

}  // namespace

Windows::Windows(std::string_view kind, const Attributes& attributes,
                 std::vector<std::int64_t> kernel_extents, std::vector<std::int64_t> default_stride)
    : kernel(std::move(kernel_extents)) {
  const std::vector<std::int64_t> ones(kernel.size(), 1), zeros(kernel.size(), 0);
  for (const std::int64_t extent : kernel)
    require(extent >= 1, ErrorCode::kBadInput, "{}: the kernel has an extent of {}", kind, extent);
  stride = entries(kind, attributes, "stride", default_stride.empty() ? ones : default_stride, 1);
  padding = entries(kind, attributes, "padding", zeros, 0);
  dilation = entries(kind, attributes, "dilation", ones, 1);
}

std::int64_t Windows::count(std::size_t dim, std::int64_t extent) const {
  const std::int64_t room = extent + 2 * padding[dim] - span(dim);
  return room < 0 ? 0 : room / stride[dim] + 1;
}

bool Windows::is_pointwise(std::size_t dim) const {
  return kernel[dim] == 1 && stride[dim] == 1 && padding[dim] == 0;
}

bool Windows::is_aligned(std::size_t dim, std::int64_t extent) const {
  return padding[dim] == 0 && span(dim) <= stride[dim] &&
         extent == stride[dim] * count(dim, extent);
}

std::vector<std::int64_t> spatial_extents(const Shape& shape) {
  return {shape.extents().begin() + kFirstSpatialDim, shape.extents().end()};
}

std::vector<std::int64_t> window_counts(std::string_view kind, const Windows& windows,
                                        const Shape& x, const Attributes& attributes) {
  const std::vector<std::int64_t> here = spatial_extents(x);
  const std::vector<std::int64_t> all = entries(kind, attributes, "spatial", here, 0);
  std::vector<std::int64_t> counts;
  for (std::size_t dim = 0; dim < all.size(); ++dim) {
    require(here[dim] <= all[dim], ErrorCode::kBadInput,
            "{}: x is {}, more than the spatial extent {}", kind, to_string(x), all[dim]);
    counts.push_back(windows.count(dim, all[dim]));
    // A shard may be empty.
    require(counts[dim] > 0 || all[dim] == 0, ErrorCode::kBadInput,
            "{}: windows of {} do not fit the {} positions of x {} with padding {}", kind,
            windows.span(dim), all[dim], to_string(x), windows.padding[dim]);
    if (all[dim] == 0) counts[dim] = 0;
  }
  return counts;
}

Shape spatial_shape(std::int64_t n, std::int64_t c, const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> all{n, c};
  all.insert(all.end(), extents.begin(), extents.end());
  return Shape(std::move(all));
}

}  // namespace sextant
