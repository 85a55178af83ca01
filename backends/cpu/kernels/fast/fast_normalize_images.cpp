// Bytes of images as numbers. A channel has 256 of them: they are made once a call and looked up,
// in whatever type is wanted.
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/pieces.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/image_planes.h"
#include "core/base/elements.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {
namespace {

constexpr std::size_t kValues = 256;

template <typename Storage>
std::vector<Storage> tables_of(const std::vector<ChannelNormal>& normals) {
  std::vector<Storage> tables;
  tables.reserve(normals.size() * kValues);
  for (const ChannelNormal& channel : normals)
    for (std::size_t value = 0; value < kValues; ++value)
      tables.push_back(narrow<Storage>(normalized(static_cast<std::uint8_t>(value), channel)));
  return tables;
}

template <typename Storage>
void look_up(const std::uint8_t* x, const Storage* table, Storage* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = table[x[i]];
}

void normalize_images(const KernelContext& context, Workspace& workspace) {
  if (elements(context.out[0]) == 0) return;
  const ImagePlanes planes(context);
  visit_storage(context.out[0].local.dtype, [&](auto zero) {
    using Storage = decltype(zero);
    const std::vector<Storage> tables = tables_of<Storage>(planes.normals);
    in_pieces(
        workspace, planes.count, planes.elements, [&](std::int64_t first, std::int64_t length) {
          for (std::int64_t plane = first; plane < first + length; ++plane) {
            const std::size_t channel = static_cast<std::size_t>(plane) % planes.normals.size();
            const std::int64_t at = plane * planes.elements;
            look_up(input<std::uint8_t>(context, 0) + at, &tables[channel * kValues],
                    output<Storage>(context, 0) + at, planes.elements);
          }
        });
  });
}

}  // namespace

void add_fast_normalize_images_kernels(KernelTable& table) {
  table.add(std::string(kNormalizeImages), normalize_images, accumulates_none);
}

}  // namespace sextant
