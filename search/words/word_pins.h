// From labels to pins: few words that a user could give by name, under which inference arrives at
// words of the same cost by itself.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/graphs/logical_graph.h"
#include "sbp/inference.h"
#include "search/min_sum/min_sum_search.h"
#include "search/min_sum/problem.h"
#include "search/words/words_problem.h"

#include <optional>
#include <vector>

namespace sextant {

// Those of the strategy's own words. Nothing: it has none, or they are no labels.
std::optional<Labels> own_labels(const LogicalGraph& training, const WordsProblem& problem);

// The least sum, which is at most that of the strategy's own words where these are labels; stopped
// before a better one, theirs.
MinSumSolution solve_words(const LogicalGraph& training, const WordsProblem& problem,
                           MinSumOptions options = {});

struct PinnedWords {
  std::vector<WordPin> pins;  // behind those of the strategy; none can be left out
  WordAssignment words;       // of the strategy with these pins
  Labels labels;              // of the problem, for these words
};

// `labels` have a finite cost in `problem`, which was made of `training`. The words found cost no
// more than they do, and are those of `labels` unless others that cost as much need fewer pins.
PinnedWords pin_words(const LogicalGraph& training, const WordsProblem& problem,
                      const Labels& labels);

}  // namespace sextant
