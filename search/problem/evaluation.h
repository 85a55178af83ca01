// What became of a strategy that was compiled, as a text that another process reads.
#pragma once

#include "core/base/error.h"
#include "search/problem/candidate.h"

#include <string>
#include <string_view>
#include <variant>

namespace sextant {

// A plan, or the refusal of the compiler.
using Evaluation = std::variant<Candidate, Error>;

// The candidate, or throws the refusal.
Candidate taken(Evaluation evaluation);

// To the bit. The text is no format of files: both processes are of one build.
std::string evaluation_text(const Evaluation& evaluation);
Evaluation evaluation_from(std::string_view text);

}  // namespace sextant
