// A search whose plans are compiled by others is the search without them, whoever is how slow.

#include "search/search/evaluators.h"

#include "search/search/search.h"
#include "tests/search/small_spaces.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace sextant::evaluators_test {
namespace {

using namespace small_spaces;

// Somebody in another process, who has what was expected of him so many calls later.
class SlowHelper final : public Evaluators {
 public:
  SlowHelper(const SearchProblem& problem, std::size_t calls)
      : evaluator_(problem, {}), calls_(calls) {}

  std::size_t wanted() const override { return 2; }
  void expect(std::span<const Strategy> next) override {
    ++call_;
    for (const Strategy& strategy : next) {
      const std::string text = to_string(strategy);
      if (found_.contains(text)) continue;
      found_[text] = {call_ + calls_,
                      evaluation_text(evaluator_.evaluate(parse_strategy(text), StopPoll()))};
    }
  }
  std::optional<Evaluation> take(const Strategy& strategy, const StopPoll&) override {
    const auto found = found_.find(to_string(strategy));
    if (found == found_.end() || found->second.from > call_) return std::nullopt;
    ++used;
    return evaluation_from(found->second.text);
  }

  std::size_t used = 0;

 private:
  struct Found {
    std::size_t from = 0;
    std::string text;
  };
  StrategyEvaluator evaluator_;
  const std::size_t calls_;
  std::size_t call_ = 0;
  std::map<std::string, Found> found_;
};

// All that a search says but the order of misses.
std::string text_of(const SearchResult& result) {
  std::string text;
  for (const Candidate& plan : result.plans) text += evaluation_text(plan) + "\n";
  for (const Candidate& miss : result.misses) text += evaluation_text(miss) + "\n";
  for (const Rejection& rejection : result.rejections)
    text += rejection.what + std::to_string(rejection.count) + rejection.reason + "\n";
  for (const std::int64_t count :
       {result.counted, result.simulated, result.cut_by_memory, result.cut_by_bound, result.refused,
        result.open, result.compiled, result.lower_bound.value})
    text += std::to_string(count) + " ";
  return text;
}

TEST_CASE("what others compile ahead changes nothing of a search") {
  for (const SearchInstance& instance : {instances().front(), instances().back()}) {
    const SearchProblem problem = problem_of(instance);
    SearchLimits limits;
    limits.patience = 6;
    const std::string alone = text_of(search(problem, limits));
    for (const std::size_t calls : {0, 1, 3}) {
      SlowHelper helper(problem, calls);
      limits.evaluators = &helper;
      CHECK(text_of(search(problem, limits)) == alone);
      if (calls == 0) CHECK(helper.used > 0);
      limits.evaluators = nullptr;
    }
  }
}

TEST_CASE("what became of a strategy is read as it was, to the bit") {
  const SearchInstance instance = instances().at(1);  // of four ranks
  const SearchProblem problem = problem_of(instance);
  StrategyEvaluator evaluator(problem, {});
  std::size_t plans = 0, refusals = 0;
  for (const char* text : {"dp=4 micro_batch=1", "dp=2 tp=2 micro_batch=1",
                           "dp=1 tp=4 micro_batch=1", "dp=2 pp=2 micro_batch=1",
                           "dp=1 pp=4 micro_batch=1 schedule=zb-h1", "dp=1 pp=4 micro_batch=3"}) {
    const std::string wrote = evaluation_text(evaluator.evaluate(parse_strategy(text), StopPoll()));
    const Evaluation read = evaluation_from(wrote);
    CHECK(evaluation_text(read) == wrote);
    (std::holds_alternative<Candidate>(read) ? plans : refusals) += 1;
  }
  CHECK(plans >= 3);
  CHECK(refusals >= 1);
}

}  // namespace
}  // namespace sextant::evaluators_test
