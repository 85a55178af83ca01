// What the operators between a gradient and its parameter share: their operands and their rows.
#pragma once

#include "core/operators/rules.h"

#include <cstddef>
#include <string_view>

namespace sextant {

// Type of the parameter that a gradient moves, and of its moments: f64 for f64, else f32. A
// gradient may have accumulated in 16 bits; what it moves never has them.
TensorType require_gradient(std::string_view kind, const TensorType& gradient);
// {coefficient of the gradient, whether to update at all}: [2], f64 (f32 is understood).
void require_control(std::string_view kind, const TensorType& control);

// All B; and for every dim S of the first inputs and of the outputs that are shaped like them.
Rows update_rows(Types inputs, Types outputs, std::size_t num_split_inputs);

// Norms and counts of non-finite numbers: {sum of squares, count}, [2] f64.
inline TensorType stats_type() { return {.shape = {2}, .dtype = DType::kF64}; }

void add_lamb(OperatorRegistry& registry);
void add_update_control(OperatorRegistry& registry);

}  // namespace sextant
