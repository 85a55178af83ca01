// The element-wise kinds, as a table. (Of operands that stretch, the one that has the type of the
// output is read once per element.)
#include "compiler/memory/in_place.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace sextant {
namespace {

enum class Inputs : std::uint8_t { kFirst, kFirstTwo, kFirstThree };

// Sorted by kind.
constexpr std::array<std::pair<std::string_view, Inputs>, 37> kInPlaceKinds = {{
    {"abs", Inputs::kFirst},
    {"add", Inputs::kFirstTwo},
    {"add_scalar", Inputs::kFirst},
    {"bias_add", Inputs::kFirst},
    {"clamp", Inputs::kFirst},
    {"clamp_grad", Inputs::kFirstTwo},
    {"div", Inputs::kFirstTwo},
    {"dropout", Inputs::kFirst},
    {"exp", Inputs::kFirst},
    {"floor", Inputs::kFirst},
    {"gelu", Inputs::kFirst},
    {"gelu_grad", Inputs::kFirstTwo},
    {"log", Inputs::kFirst},
    {"maximum", Inputs::kFirstTwo},
    {"maximum_grad", Inputs::kFirstThree},
    {"minimum", Inputs::kFirstTwo},
    {"minimum_grad", Inputs::kFirstThree},
    {"mul", Inputs::kFirstTwo},
    {"neg", Inputs::kFirst},
    {"pow", Inputs::kFirst},
    {"reciprocal", Inputs::kFirst},
    {"relu", Inputs::kFirst},
    {"relu_grad", Inputs::kFirstTwo},
    {"round", Inputs::kFirst},
    {"rsqrt", Inputs::kFirst},
    {"scale", Inputs::kFirst},
    {"sigmoid", Inputs::kFirst},
    {"sigmoid_grad", Inputs::kFirstTwo},
    {"sign", Inputs::kFirst},
    {"silu", Inputs::kFirst},
    {"silu_grad", Inputs::kFirstTwo},
    {"sqrt", Inputs::kFirst},
    {"square", Inputs::kFirst},
    {"sub", Inputs::kFirstTwo},
    {"tanh", Inputs::kFirst},
    {"tanh_grad", Inputs::kFirstTwo},
    {"where", Inputs::kFirstThree},
}};
static_assert(std::is_sorted(kInPlaceKinds.begin(), kInPlaceKinds.end(),
                             [](const auto& a, const auto& b) { return a.first < b.first; }));

constexpr std::array<std::size_t, 3> kIndices = {0, 1, 2};

}  // namespace

std::span<const std::size_t> overwritten_inputs(std::string_view kind) {
  const auto known = std::lower_bound(
      kInPlaceKinds.begin(), kInPlaceKinds.end(), kind,
      [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
  if (known == kInPlaceKinds.end() || known->first != kind) return {};
  return std::span(kIndices).first(static_cast<std::size_t>(known->second) + 1);
}

}  // namespace sextant
