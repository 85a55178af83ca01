// Bytes of images as numbers.
#include "core/operators/pointwise/normalize_images.h"

#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/image_planes.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace sextant {
namespace {

void normalize_images(const KernelContext& context, Workspace&) {
  const KernelOperand& x = context.in[0];
  const ImagePlanes planes(context);
  const auto* values = reinterpret_cast<const std::uint8_t*>(x.data);
  const Output y(context, 0);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const ChannelNormal& channel = planes.normal(static_cast<std::int64_t>(i) / planes.elements);
    y.put(i, static_cast<double>(normalized(values[i], channel)));
  }
}

}  // namespace

void add_normalize_images_kernels(KernelTable& table) {
  table.add(std::string(kNormalizeImages), normalize_images);
}

}  // namespace sextant
