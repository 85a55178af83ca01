// Names of operators in tables, where equal layers are one row.
#pragma once

#include <string>

namespace sextant {

// "layer12.attention.q" -> "layer*.attention.q"
std::string without_layer_number(const std::string& name);

}  // namespace sextant
