// How loops over many elements are cut for a team: by their number alone.
#pragma once

#include "backends/cpu/kernels/shared/reference.h"
#include "backends/cpu/kernels/shared/workspace.h"

#include <algorithm>
#include <cstdint>

namespace sextant {

// What one thread does in less time than another takes to begin: 64 KiB of floats.
inline constexpr std::int64_t kPiece = std::int64_t{1} << 14;

// work(first, length) for parts of `count`, each of about kPiece elements where one of the `count`
// is `size` elements.
template <typename Work>
void in_pieces(Workspace& workspace, std::int64_t count, std::int64_t size, const Work& work) {
  if (count <= 0) return;
  const std::int64_t length = std::max<std::int64_t>(kPiece / std::max<std::int64_t>(size, 1), 1);
  workspace.run((count + length - 1) / length, [&](std::int64_t piece, std::int64_t) {
    work(piece * length, std::min(length, count - piece * length));
  });
}

// Elements next to each other. Pieces begin at whole vectors: what is computed with vectors does
// not depend on the cut.
template <typename Work>
void in_pieces(Workspace& workspace, std::int64_t count, const Work& work) {
  in_pieces(workspace, count, 1, work);
}

// work(row) for every row.
template <typename Work>
void for_each_row_of(const Rows& rows, Workspace& workspace, const Work& work) {
  in_pieces(workspace, rows.count, rows.length, [&](std::int64_t first, std::int64_t length) {
    for (std::int64_t row = first; row < first + length; ++row) work(row);
  });
}

}  // namespace sextant
