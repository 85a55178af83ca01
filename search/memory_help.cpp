// Each candidate is compiled as a search would compile it, without simulation and checks.
#include "search/memory_help.h"

#include "compiler/expand.h"
#include "core/error.h"
#include "simulator/library_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
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
    if (from_.dp % 2 == 0)
      wider.dp /= 2;
    else if (wider.ranks() > num_devices_)
      return;
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
    const PhysicalGraph graph = compile(problem.training_graph(known), known, problem.global_batch,
                                        *models.cost, *models.network, options);
    return device_memory(graph, *problem.cluster).needed();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<MemoryRemedy> memory_remedies(const SearchProblem& problem, const Strategy& strategy,
                                          const SearchModels& models, Bytes peak) {
  std::vector<MemoryRemedy> remedies;
  const Candidates candidates(strategy, problem.cluster->num_devices());
  for (const Strategy& candidate : candidates.list()) {
    const std::optional<Bytes> needed = peak_of(problem, candidate, models);
    if (needed && *needed < peak)
      remedies.push_back({candidate, difference(strategy, candidate), *needed});
  }
  std::stable_sort(remedies.begin(), remedies.end(),
                   [](const MemoryRemedy& a, const MemoryRemedy& b) { return a.peak < b.peak; });
  return remedies;
}

std::vector<std::string> remedy_texts(const std::vector<MemoryRemedy>& remedies, Bytes peak,
                                      Bytes capacity) {
  std::vector<std::string> texts;
  for (const MemoryRemedy& remedy : remedies) {
    const bool fits = remedy.peak <= capacity;
    texts.push_back(fmt::format(
        "{} needs {}{}", remedy.change, to_text(remedy.peak),
        fits ? ", which fits"
             : fmt::format(": {} less, not enough alone", to_text(peak - remedy.peak))));
  }
  return texts;
}

}  // namespace sextant
