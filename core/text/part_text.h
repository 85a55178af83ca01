// What is taken beside what there is, for people: "58.6 GiB of 80.0 GiB".
#pragma once

#include "core/base/units.h"

#include <string>

namespace sextant {

// Three significant digits as everywhere, and more where two different numbers would read alike.
std::string part_text(Bytes part, Bytes whole);

}  // namespace sextant
