// Where errors of a strategy's text are.
#pragma once

#include "core/base/error.h"

namespace sextant {

inline const Place kInStrategy{"strategy"};

}  // namespace sextant
