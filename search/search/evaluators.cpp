// The same models and graphs as in the search itself.
#include "search/search/evaluators.h"

#include "search/bounds/node_facts.h"
#include "search/space/conditions.h"

namespace sextant {

namespace {

constexpr std::size_t kKeptGraphs = 4;

}  // namespace

StrategyEvaluator::StrategyEvaluator(const SearchProblem& problem, const SearchLimits& limits)
    : problem_(problem),
      cluster_(limited(*problem.cluster, limits.memory)),
      models_(make_search_models(problem)),
      graphs_(kKeptGraphs) {
  models_.cluster = &cluster_;
}

Evaluation StrategyEvaluator::evaluate(const Strategy& strategy, const StopPoll& stop) {
  try {
    const LogicalGraph& graph = graphs_.of(strategy, [&] {
      stop();
      return problem_.training_graph(strategy);
    });
    return evaluate_strategy(graph, strategy, problem_.global_batch, models_, stop);
  } catch (const Error& error) {
    if (!is_refusal(error)) throw;
    return error;
  }
}

}  // namespace sextant
