// Candidates are taken by their bounds, the least first, and compiled as a search would compile
// them, without simulation and checks.
#include "search/search/memory_help.h"

#include "compiler/expand/expand.h"
#include "core/base/error.h"
#include "search/bounds/least_costs.h"
#include "search/bounds/node_facts.h"
#include "search/space/space.h"
#include "simulator/costs/library_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

class Candidates {
 public:
  Candidates(const Strategy& strategy, std::int64_t num_devices)
      : from_(strategy), num_devices_(num_devices) {
    shard();
    forget();
    accumulate();
    split(&Strategy::tp);
    split(&Strategy::pp);
    split(&Strategy::cp);
  }
  const std::vector<Strategy>& list() const { return list_; }

 private:
  void shard() {
    for (int zero = from_.zero + 1; zero <= 3 && from_.dp > 1; ++zero) {
      list_.push_back(from_);
      list_.back().zero = zero;
    }
  }

  // Keep less for the backward pass.
  void forget() {
    using Kind = Recompute::Kind;
    for (const Kind kind : {Kind::kSelective, Kind::kFull}) {
      if (from_.recompute.kind != Kind::kNone && kind != Kind::kFull) continue;
      if (from_.recompute.kind == kind) continue;
      list_.push_back(from_);
      list_.back().recompute = {kind, 0};
    }
    if (from_.schedule != Schedule::kGPipe || from_.pp == 1) return;
    list_.push_back(from_);
    list_.back().schedule = Schedule::kOneFOneB;
  }

  void accumulate() {
    if (from_.micro_batch % 2 != 0) return;
    list_.push_back(from_);
    list_.back().micro_batch /= 2;
  }

  // Twice as many parts on the same devices, or on devices that stand idle.
  void split(std::int64_t Strategy::*parts) {
    Strategy wider = from_;
    wider.*parts *= 2;
    if (wider.pp != from_.pp) wider.layers = {};  // a list of other stages
    if (from_.dp % 2 == 0) {
      wider.dp /= 2;
      wider.ep = std::gcd(wider.ep, wider.dp);  // experts cannot be spread over more replicas
    } else if (wider.ranks() > num_devices_) {
      return;
    }
    list_.push_back(wider);
  }

  const Strategy& from_;
  std::int64_t num_devices_;
  std::vector<Strategy> list_;
};

std::string difference(const Strategy& from, const Strategy& to) {
  const std::vector<std::string> before = settings_of(from), after = settings_of(to);
  std::string text;
  for (const std::string& setting : after)
    if (std::find(before.begin(), before.end(), setting) == before.end())
      text += (text.empty() ? "" : " ") + setting;
  return text;
}

// Nothing when the strategy cannot be honoured.
std::optional<Bytes> peak_of(const SearchProblem& problem, const Strategy& strategy,
                             const SearchModels& models) {
  try {
    const Strategy known = parse_strategy(to_string(strategy));  // refuses what is not built
    ExpandOptions options;
    options.checks = options.guards = false;
    const LogicalGraph training = problem.training_graph(known);
    const PhysicalGraph graph = models.boxing
                                    ? compile(training, known, problem.global_batch, *models.cost,
                                              *models.network, *models.boxing, options)
                                    : compile(training, known, problem.global_batch, *models.cost,
                                              *models.network, options);
    return device_memory(graph, *problem.cluster).needed();
  } catch (const Error&) {
    return std::nullopt;
  }
}

// What no plan of the strategy can do without; nothing when the strategy cannot be honoured.
std::optional<MemoryRemedy> bounded(const Strategy& strategy, NodeFacts& facts, Bytes capacity) {
  try {
    const NodeFacts::Excess excess = facts.excess_of({Level::kPieces, strategy});
    return MemoryRemedy{.strategy = strategy,
                        .change = {},
                        .known = excess.missing > Bytes(0) ? MemoryRemedy::Known::kTooLarge
                                                           : MemoryRemedy::Known::kMayFit,
                        .is_compiled = false,
                        .peak = excess.needed + (capacity - excess.room)};
  } catch (const Error& error) {
    if (!is_refusal(error)) throw;
    return std::nullopt;
  }
}

bool is_more_promising(const MemoryRemedy& a, const MemoryRemedy& b) {
  return std::tuple(a.known, a.peak) < std::tuple(b.known, b.peak);
}

std::vector<MemoryRemedy> bounded_remedies(const SearchProblem& problem, const Strategy& strategy,
                                           NodeFacts& facts, Bytes peak, Bytes capacity) {
  std::vector<MemoryRemedy> remedies;
  const Candidates candidates(strategy, problem.cluster->num_devices());
  for (const Strategy& candidate : candidates.list()) {
    std::optional<MemoryRemedy> remedy = bounded(candidate, facts, capacity);
    if (!remedy || remedy->peak >= peak) continue;
    remedy->change = difference(strategy, candidate);
    remedies.push_back(*std::move(remedy));
  }
  std::stable_sort(remedies.begin(), remedies.end(), is_more_promising);
  return remedies;
}

}  // namespace

std::vector<MemoryRemedy> memory_remedies(const SearchProblem& problem, const Strategy& strategy,
                                          const SearchModels& models, Bytes peak, Bytes capacity,
                                          std::int64_t acts) {
  const LeastCosts costs(*problem.cluster, problem.compute_dtype, *models.cost);
  const FirstGraph first = first_graph(problem);
  const StopPoll never;
  NodeFacts facts(problem, *problem.cluster, costs, first, models, never);
  const auto operators = static_cast<std::int64_t>(first.training.ops().size());
  std::vector<MemoryRemedy> remedies;
  bool is_first = true;
  for (MemoryRemedy& remedy : bounded_remedies(problem, strategy, facts, peak, capacity)) {
    const std::int64_t needed = operators * facts.micro_batches_of(remedy.strategy);
    if (is_first || needed <= acts) {
      acts -= std::min(acts, needed);
      const std::optional<Bytes> compiled = peak_of(problem, remedy.strategy, models);
      if (!compiled || *compiled >= peak) continue;
      is_first = false;
      remedy.is_compiled = true;
      remedy.peak = *compiled;
      remedy.known =
          *compiled <= capacity ? MemoryRemedy::Known::kFits : MemoryRemedy::Known::kTooLarge;
    }
    remedies.push_back(std::move(remedy));
  }
  std::stable_sort(remedies.begin(), remedies.end(), is_more_promising);
  return remedies;
}

std::vector<std::string> remedy_texts(const std::vector<MemoryRemedy>& remedies, Bytes peak) {
  std::vector<std::string> texts;
  for (const MemoryRemedy& remedy : remedies) {
    std::string text = fmt::format("{} needs {}{}", remedy.change,
                                   remedy.is_compiled ? "" : "at least ", to_text(remedy.peak));
    switch (remedy.known) {
      case MemoryRemedy::Known::kFits:
        text += ", which fits";
        break;
      case MemoryRemedy::Known::kMayFit:
        text += " and may be enough: it was not tried";
        break;
      case MemoryRemedy::Known::kTooLarge:
        text += remedy.is_compiled
                    ? fmt::format(": {} less, not enough alone", to_text(peak - remedy.peak))
                    : ", not enough alone";
        break;
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace sextant
