// Pins are added where inference first leaves the labels, in the order of the graph, then taken
// away again as far as the words stay, and said of equal layers at once.
#include "search/words/word_pins.h"

#include "core/base/check.h"
#include "core/base/error.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace sextant {
namespace {

using Pins = std::vector<WordPin>;

class PinFinder {
 public:
  PinFinder(const LogicalGraph& training, const WordsProblem& problem, const Labels& labels)
      : training_(training),
        problem_(problem),
        labels_(labels),
        cost_(cost_of(problem.problem(), labels)) {}

  PinnedWords run() {
    Pins pins = grow();
    WordAssignment words = *infer(pins);
    shrink(pins, words);
    if (join_layers(pins, words)) shrink(pins, words);
    const std::optional<Labels> found = problem_.labels_of(words);
    require(found && cost_of(problem_.problem(), *found) <= cost_, ErrorCode::kInternal,
            "{} pins give words of another cost", pins.size());
    return {std::move(pins), std::move(words), *found};
  }

 private:
  // Nothing: no words fit these pins.
  std::optional<WordAssignment> infer(const Pins& pins) {
    Strategy strategy = problem_.strategy();
    strategy.pins.insert(strategy.pins.end(), pins.begin(), pins.end());
    try {
      return words_of_strategy(training_, strategy, by_bytes_);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInfeasible) throw;
      return std::nullopt;
    }
  }

  bool is_good(const WordAssignment& words) const {
    const std::optional<Labels> labels = problem_.labels_of(words);
    return labels && cost_of(problem_.problem(), *labels) <= cost_;
  }

  std::size_t num_ops() const { return training_.ops().size(); }

  // The first operator with other words than its label; the number of operators if there is none.
  std::size_t first_other(const std::optional<WordAssignment>& words) const {
    if (!words) return 0;
    for (std::size_t op = 0; op < num_ops(); ++op)
      if (words->of(OpId(op)) != problem_.words_of(OpId(op), labels_)) return op;
    return num_ops();
  }

  Pins pins_of_parameters() const {
    Pins pins;
    for (std::size_t op = 0; op < num_ops(); ++op) {
      const OpVariable& own = problem_.operators()[op];
      if (own.read.size() < 2) continue;
      const auto label = static_cast<std::size_t>(labels_[static_cast<std::size_t>(own.variable)]);
      pins.push_back(
          {training_.tensor(training_.ops()[op].outputs[0]).name, std::nullopt, own.read[label]});
    }
    return pins;
  }

  Pins pins_of_outputs(std::size_t op) const {
    const OpWords& words = problem_.words_of(OpId(op), labels_);
    Pins pins;
    for (std::size_t i = 0; i < words.outputs.size(); ++i)
      pins.push_back(
          {training_.tensor(training_.ops()[op].outputs[i]).name, std::nullopt, words.outputs[i]});
    return pins;
  }

  Pins pins_of_inputs(std::size_t op) const {
    const OpWords& words = problem_.words_of(OpId(op), labels_);
    Pins pins;
    for (std::size_t i = 0; i < words.inputs.size(); ++i)
      pins.push_back({training_.ops()[op].name, i, words.inputs[i]});
    return pins;
  }

  static Pins joined(Pins pins, const Pins& more) {
    pins.insert(pins.end(), more.begin(), more.end());
    return pins;
  }

  // Under these nothing is left to choose: every operator that reads has all of its words given.
  Pins all_pins() const {
    Pins pins = pins_of_parameters();
    for (std::size_t op = 0; op < num_ops(); ++op)
      if (!training_.ops()[op].inputs.empty())
        pins = joined(joined(std::move(pins), pins_of_outputs(op)), pins_of_inputs(op));
    return pins;
  }

  // Of an operator first its results are said, then what it reads, then both: whatever brings
  // inference further. Where nothing does, everything is said.
  Pins grow() {
    Pins pins = pins_of_parameters();
    std::optional<WordAssignment> words = infer(pins);
    for (std::size_t op = first_other(words); op < num_ops();) {
      if (words && is_good(*words)) return pins;
      std::size_t furthest = op;
      for (const Pins& more : {pins_of_outputs(op), pins_of_inputs(op),
                               joined(pins_of_outputs(op), pins_of_inputs(op))}) {
        Pins longer = joined(pins, more);
        std::optional<WordAssignment> found = infer(longer);
        furthest = first_other(found);
        if (furthest <= op) continue;
        pins = std::move(longer);
        words = std::move(found);
        break;
      }
      if (furthest <= op) return all_pins();
      op = furthest;
    }
    return pins;
  }

  // Whole ranges at a time first, those behind before those in front; then one by one until none
  // can go.
  void shrink(Pins& pins, const WordAssignment& wanted) {
    for (std::size_t length = pins.size(); length > 1; length = (length + 1) / 2)
      drop_ranges(pins, length, wanted);
    while (drop_ranges(pins, 1, wanted)) {
    }
  }

  bool drop_ranges(Pins& pins, std::size_t length, const WordAssignment& wanted) {
    bool dropped = false;
    for (std::size_t end = pins.size(); end > 0;) {
      const std::size_t begin = end > length ? end - length : 0;
      Pins fewer(pins.begin(), pins.begin() + static_cast<std::ptrdiff_t>(begin));
      fewer.insert(fewer.end(), pins.begin() + static_cast<std::ptrdiff_t>(end), pins.end());
      if (is_same(infer(fewer), wanted)) {
        pins = std::move(fewer);
        dropped = true;
      }
      end = begin;
    }
    return dropped;
  }

  // "layer3.mlp.up" -> "layer*.mlp.up"
  static std::string without_numbers(const std::string& name) {
    std::string pattern;
    for (const char c : name) {
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit) pattern += c;
      if (is_digit && !pattern.ends_with('*')) pattern += '*';
    }
    return pattern;
  }

  // Pins that say the same of equal layers become one, where that changes no other words.
  bool join_layers(Pins& pins, const WordAssignment& wanted) {
    bool joined_any = false;
    for (std::size_t first = 0; first < pins.size(); ++first) {
      WordPin pattern = pins[first];
      pattern.name = without_numbers(pattern.name);
      Pins fewer = pins;
      fewer[first] = pattern;
      for (std::size_t other = fewer.size(); --other > first;)
        if (without_numbers(fewer[other].name) == pattern.name &&
            fewer[other].input == pattern.input && fewer[other].words == pattern.words)
          fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(other));
      if (fewer.size() == pins.size() || !is_same(infer(fewer), wanted)) continue;
      pins = std::move(fewer);
      joined_any = true;
    }
    return joined_any;
  }

  bool is_same(const std::optional<WordAssignment>& words, const WordAssignment& wanted) const {
    if (!words) return false;
    for (std::size_t op = 0; op < num_ops(); ++op)
      if (words->of(OpId(op)) != wanted.of(OpId(op))) return false;
    return true;
  }

  const LogicalGraph& training_;
  const WordsProblem& problem_;
  const Labels& labels_;
  const std::int64_t cost_;
  BoxingPlans by_bytes_{BoxingObjective::kBytes};
};

}  // namespace

std::optional<Labels> own_labels(const LogicalGraph& training, const WordsProblem& problem) {
  try {
    BoxingPlans by_bytes(BoxingObjective::kBytes);
    return problem.labels_of(words_of_strategy(training, problem.strategy(), by_bytes));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInfeasible) throw;
    return std::nullopt;
  }
}

MinSumSolution solve_words(const LogicalGraph& training, const WordsProblem& problem,
                           MinSumOptions options) {
  std::optional<Labels> own = own_labels(training, problem);
  const std::int64_t own_cost = own ? cost_of(problem.problem(), *own) : kForbiddenCost;
  options.most_cost = std::min(options.most_cost, own_cost);
  MinSumSolution solution = solve(problem.problem(), options);
  if (solution.labels || own_cost == kForbiddenCost) return solution;
  solution.labels = std::move(own);
  solution.cost = own_cost;
  return solution;
}

PinnedWords pin_words(const LogicalGraph& training, const WordsProblem& problem,
                      const Labels& labels) {
  return PinFinder(training, problem, labels).run();
}

}  // namespace sextant
