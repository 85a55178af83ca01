// What `quantize` makes of a tensor, for inference and kernels.
#pragma once

#include "core/tensors/attributes.h"

namespace sextant {

// The order of a tensor's dims, or its last one first; both are outputs in this order.
struct CopyOrders {
  bool has_rows = true, has_columns = false;
};
// By `layout`: rows (without it too), columns, both. Throws Error(kBadInput) for another word.
CopyOrders copy_orders(const Attributes& attributes);

}  // namespace sextant
