// Data for inputs that no file of the user's fills: every value is a function of (seed, input,
// sample, place in the sample), so any plan trains on the same samples.
#pragma once

#include "core/host_actors.h"

#include <cstdint>

namespace sextant {

// Dim 0 of an input counts samples. Integers lie below the input's `limit`, or are 0 and 1 without
// one; reals are normal. Throws Error(kBadInput) for a type that is neither f32, f64, i32 nor i64.
void fill_with_synthetic_data(const HostAct& act, std::uint64_t seed);

}  // namespace sextant
