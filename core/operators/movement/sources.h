// Builders of source operators, parameters and inputs, and which inputs read a text.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sextant {

// The attributes `init` and `init_std` of `parameter` and `adamw`, and back.
void set_initializer(Attributes& attributes, const Initializer& initializer);
Initializer initializer_of(const Attributes& attributes);

TensorId add_parameter(LogicalGraph& graph, std::string name, int layer, const TensorType& type,
                       const ParameterInfo& info);

// Which values the loader may deliver: [0, limit) and, where given, `ignored`. `mask`: the id that
// hides what a model of masked tokens is to predict; its tokens and labels are of the same places.
struct InputValues {
  std::optional<std::int64_t> limit;
  std::optional<std::int64_t> ignored;
  std::optional<std::int64_t> mask = std::nullopt;
};
TensorId add_input(LogicalGraph& graph, std::string name, int layer, const TensorType& type,
                   const InputValues& values = {});

// True for the inputs that a text fills: [batch, sequence] of i32 ids named `tokens` or `labels`.
bool takes_token_data(std::string_view input, const TensorType& type);

}  // namespace sextant
