// The list of sound rows that operators leave out on purpose, each with its reason
// (omitted_rows.txt), and the patterns it is written in.
#pragma once

#include "core/graphs/operator.h"

#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// One line of the list: "kind: words of inputs -> words of outputs -- reason". A word may be `S`,
// any split, `P`, any partial value, or `*`, anything; several stand apart by `|`: `S(0)|B`.
struct Omission {
  int line = 0;
  std::string kind;
  std::vector<std::string> inputs, outputs;
  std::string reason;

  bool covers(std::string_view other_kind, const SbpSignature& row) const;
};

// Empty lines and lines that begin with # are left out. Throws Error(kBadInput) naming the line
// that is not of this form or gives no reason.
std::vector<Omission> parse_omissions(std::string_view text);

}  // namespace sextant
