// Solves, pins, compiles: the sum that is solved says nothing of overlap, so the simulator decides.
#include "search/words/plan_words.h"

#include "core/base/error.h"
#include "search/bounds/node_facts.h"
#include "search/words/word_pins.h"
#include "search/words/words_problem.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sextant {
namespace {

std::ptrdiff_t num_used_axes(const Strategy& strategy) {
  const std::vector<MeshAxis> axes = mesh_axes(strategy);
  return std::count_if(axes.begin(), axes.end(),
                       [](const MeshAxis& axis) { return axis.extent > 1; });
}

std::optional<Candidate> tried(const SearchProblem& problem, const SearchModels& models,
                               const Candidate& plan, const std::function<bool()>& stop) {
  if (setting_outside_words(plan.strategy) || num_used_axes(plan.strategy) > 1) return std::nullopt;
  const LogicalGraph training = problem.training_graph(plan.strategy);
  if (training.ops().size() > kMostWordOperators) return std::nullopt;
  const WordsProblem words = make_words_problem(
      training, plan.strategy, num_micro_batches(plan.strategy, problem.global_batch),
      *models.network, *models.cost);
  MinSumOptions options;
  int steps = 0;
  options.stop = [&] { return ++steps > kMostWordSteps || (stop && stop()); };
  const MinSumSolution solution = solve_words(training, words, options);
  if (!solution.labels || (stop && stop())) return std::nullopt;
  Strategy pinned = plan.strategy;
  for (WordPin& pin : pin_words(training, words, *solution.labels).pins)
    pinned.pins.push_back(std::move(pin));
  if (pinned == plan.strategy) return std::nullopt;
  Candidate candidate = evaluate_strategy(training, pinned, problem.global_batch, models);
  if (candidate.needed_memory > plan.capacity || candidate.step_time >= plan.step_time)
    return std::nullopt;
  return candidate;
}

}  // namespace

std::optional<Candidate> with_own_words(const SearchProblem& problem, const SearchModels& models,
                                        const Candidate& plan, const std::function<bool()>& stop) {
  try {
    return tried(problem, models, plan, stop);
  } catch (const Error& error) {
    if (!is_refusal(error)) throw;
    return std::nullopt;
  }
}

}  // namespace sextant
