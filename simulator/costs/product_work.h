// How much of a device's matrix units a product takes by its shape: tiles in waves, and sums that
// are split where tiles alone leave units idle.
#pragma once

#include "core/graphs/kernel_names.h"

namespace sextant {

struct ProductWork {
  double padded = 1;  // multiply-adds that the units are taken for, over those asked for: >= 1
  double partial_bytes = 0;  // written and read again where a sum is split
};

// Output tiles of `tile` x `tile` elements, or half as wide at `kHalfTileRate` of the rate, run in
// waves over `units`. Filling and draining a tile costs `lost_extent` of its inner extent; zero:
// half an edge. A sum may be split over the units that would idle, at the price of its parts in
// f32, of which half are still in the cache when they are added up; the fastest of all ways is
// taken, as libraries that measure do. `seconds_per_padded`: of the product, were its `padded` 1;
// `seconds_per_byte`: of partial bytes. Nothing is padded where tile or units are zero.
ProductWork product_work(const MatmulExtents& extents, double tile, double units,
                         double lost_extent, double seconds_per_padded, double seconds_per_byte);

// Of products with an operand whose rows do not begin at multiples of 16 bytes: the copy engines of
// a device do not read those.
bool has_loose_rows(const MatmulExtents& extents, double element_bytes);

}  // namespace sextant
