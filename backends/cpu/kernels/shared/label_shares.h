// How the target of a row is spread: on its label, and on every class.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"

namespace sextant {

struct LabelShares {
  double label = 1.0, each = 0.0;
};

inline LabelShares label_shares(const KernelContext& context) {
  const double smoothing = context.attributes().real_or("smoothing", 0.0);
  if (smoothing == 0) return {};
  return {.label = 1 - smoothing,
          .each = smoothing / static_cast<double>(context.attributes().integer("classes"))};
}

}  // namespace sextant
