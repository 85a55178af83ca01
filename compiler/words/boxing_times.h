// When a staged graph boxes a tensor, where that is not as often as its values change. Facts about
// tensors, whoever states them; ZeRO 2 and 3 are two of these and nothing else.
#pragma once

#include "core/base/ids.h"
#include "core/tensors/sbp.h"

#include <map>
#include <set>

namespace sextant {

struct BoxingTimes {
  // Values whose sum over the step is read: every micro-batch boxes its own to these words, and the
  // sum is taken in them. Not here: the sum is taken in the producer's words and boxed once. A
  // reduction that would leave an axis whole is not worth repeating and waits for the end of the
  // step all the same.
  std::map<TensorId, NdSbp> sum_in;
  // Boxed anew for the forward and for the backward readers of every layer and micro-batch, so that
  // no boxed copy lives longer than one of them needs it.
  std::set<TensorId> per_use;
};

}  // namespace sextant
