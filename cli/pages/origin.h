// Where the numbers of a figure come from: no table and no picture of a page is without it.
#pragma once

#include "io/pages/markup.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

enum class OriginKind : std::uint8_t {
  kSimulated,
  kMeasured,
  kCounted,  // a fact of the plan or of the files: bytes, words, numbers of things
  kPublished,
  kCalibrated,
  kAssumed,
  kStated,  // by whoever wrote the file
};
std::string_view to_string(OriginKind kind);  // "simulated"

struct Origin {
  OriginKind kind = OriginKind::kCounted;
  std::string source;  // "plan.json, hash 12ab...; tape mode"
};

// The word in a frame.
Markup origin_badge(OriginKind kind);

// `body` with what it shows and where that comes from below it; several where it holds numbers
// side by side.
Markup figure_of(const Markup& body, const std::vector<Origin>& origins);

}  // namespace sextant
