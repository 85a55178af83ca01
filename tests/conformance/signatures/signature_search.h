// Brute force over one mesh axis: which rows of words are sound for an operator, claimed or not.
#pragma once

#include "tests/conformance/signatures/signature_cases.h"

#include <cstdint>
#include <vector>

namespace sextant {

// True when no communication and no change of a sum is needed from one word to the other: a slice
// of a copy, a share of it, a split filled up with neutral elements (sbp/README.md, "Steps").
bool is_free_step(const Sbp& from, const Sbp& to);

// True when `claimed` and free steps in front of it and behind it do what `row` does: every input
// arrives in the words of `row` and steps freely to those of `claimed`, whose outputs step freely
// to those of `row`. So nothing is lost if `row` is not claimed.
bool follows(const SbpSignature& row, const SbpSignature& claimed);

// How the kernels of a kind learn their extents, which limits what brute force may run: a kernel
// must not be called on shapes that do not belong together. Found from the rows the kind claims.
enum class ShapeRule : std::uint8_t {
  kInfer,      // the shape rule holds on local types
  kLocalised,  // ... with the local extents of the outputs in place of the global ones in
               // attributes
  kWidened,    // ... with a split input taken whole: the kernel writes elements beyond its shard,
               // and refuses operands whose other dims do not agree
  kBoxes,  // none of these, but the kernel is told the boxes of its operands (`needs_offsets`): it
           // places by them or refuses, so any boxes are tried
  kNone,   // none of these: only layouts of claimed rows are tried
};
ShapeRule shape_rule_of(const std::vector<SignatureCase>& cases);

// All sound rows over this many parts, each with the strongest word of every output (none that
// follows freely from another). Sound: equal to the global run on several sets of random values,
// whole numbers and fractions; one failure is enough. What is tried:
// - inputs: B, S(every dim), P(sum), P(max), P(min); no P for integers with a range (indices: a
//   share of an index means nothing) and no P(sum) for bool;
// - outputs: each on its own, from the local results; where a kernel must be told its box, every
//   box that the shape rule allows; state is never partial.
// Left out is only what a failure proves unsound: copies are one content of P(max) and of P(min),
// so a row that fails with B for an input fails with them too. P(sum) has no such content.
std::vector<SbpSignature> sound_rows(const SignatureCase& on, std::int64_t parts, ShapeRule rule);

}  // namespace sextant
