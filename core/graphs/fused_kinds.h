// The groups of operators that a device may have one kernel for: chains, and operators that read
// one tensor. The table is all there is: the compiler looks for these groups, the validator knows
// them, a device registers a kernel under the name of one or lets the members run one by one.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct FusedKind {
  // A link of the chain: it reads output 0 of the link before it at this input and nowhere else. Or
  // a sibling of the link before it: it reads there what that one reads at input `shares`. Before
  // it is the one named last, or number `behind`.
  struct Link {
    std::string_view kind;
    int reads_at = 0;
    std::optional<int> shares = std::nullopt;
    std::optional<std::size_t> behind = std::nullopt;

    // Of link `number` of a kind.
    constexpr std::size_t before(std::size_t number) const { return behind.value_or(number - 1); }
  };
  static constexpr int kAnyInput = -1;  // commutative kinds
  static constexpr std::size_t kMostLinks = 5;

  std::string_view kind;
  std::array<Link, kMostLinks> links = {};
  // Its members are gradients for inputs, which come first, and of weights: no group where a
  // schedule parts the two.
  bool joins_gradients = false;

  // Those that are used. Bounds and fusion ask for them millions of times.
  constexpr std::span<const Link> members() const {
    std::size_t count = 0;
    while (count < kMostLinks && !links[count].kind.empty()) ++count;
    return std::span(links).first(count);
  }
};

// Those with more members first. Operands of a fused operator: the inputs of the members in order,
// each tensor once, without what only members see; the outputs of the members in order, without
// that.
std::span<const FusedKind> fused_kinds();
// nullptr: no fused kind has this name.
const FusedKind* find_fused_kind(std::string_view kind);
std::vector<std::string> fused_kind_names();  // sorted

}  // namespace sextant
