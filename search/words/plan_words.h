// A plan that a search found, with words per operator on top where they make its simulated step
// shorter.
#pragma once

#include "search/search/search.h"

#include <cstddef>
#include <functional>
#include <optional>

namespace sextant {

// What looking for words may take: operators of the training graph, and branches and sweeps of the
// solver. Counted, not timed, so the same plan gets the same words.
inline constexpr std::size_t kMostWordOperators = 300;
inline constexpr int kMostWordSteps = 500;

// `plan` with pins behind its own, compiled and simulated: shorter, and with no more memory than
// `plan.capacity`. Nothing: it is not; or `plan` is outside of what words are asked for (README),
// or uses more than one axis of the mesh of a stage, where planning all boxings takes longer than a
// search; or `stop` said so, which is polled while words are looked for.
std::optional<Candidate> with_own_words(const SearchProblem& problem, const SearchModels& models,
                                        const Candidate& plan,
                                        const std::function<bool()>& stop = {});

}  // namespace sextant
