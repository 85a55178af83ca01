// The protocol in random interleavings of a few dozen graphs, as it is and with bugs planted in it.
// A failure names graph and seed: SEXTANT_INTERLEAVING="graph:seed" runs that one alone.
#include "tests/actor/interleaving.h"

#include "core/base/error.h"
#include "tests/actor/host_thread_run.h"
#include "tests/support/forked_outcome.h"
#include "tests/support/long_run.h"
#include "tests/support/one_thread.h"
#include "tests/support/pipeline_graph.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant::interleaving_test {
using namespace testing;

namespace {

// Pipelines of one to three stages with all that actors know: loaders and readers on the host,
// accumulation, state, all-reduces, transfers, launch groups, shared slots and their guards.
const std::vector<std::pair<std::string, PhysicalGraph>>& graphs() {
  static const auto made = [] {
    std::vector<std::pair<std::string, PhysicalGraph>> all;
    for (const PipelineSchedule schedule :
         {PipelineSchedule::kGPipe, PipelineSchedule::kOneFOneB, PipelineSchedule::kZeroBubble})
      for (const int stages : {1, 2, 3})
        for (const int replicas : {1, 2})
          for (const bool groups : {false, true}) {
            if (stages == 1 && groups) continue;  // nothing to group
            PipelineSpec spec;
            spec.stages = stages;
            spec.replicas = replicas;
            spec.micro_batches = groups ? 4 : 3;
            spec.schedule = schedule;
            spec.host_actors = true;
            spec.launch_groups = groups;
            all.emplace_back(fmt::format("{}-{}x{}{}", static_cast<int>(schedule), stages, replicas,
                                         groups ? "-groups" : ""),
                             pipeline_graph(spec));
          }
    return all;
  }();
  return made;
}

std::vector<ExploredGraph> explored(PlantedBug bug) {
  std::vector<ExploredGraph> all;
  for (const auto& [name, graph] : graphs()) all.emplace_back(name, graph, bug);
  return all;
}

std::optional<std::string> wrong_of(const ExploredGraph& graph, std::uint64_t seed) {
  return is_of_host_thread(graph.bug()) ? run_host_thread(graph, seed).wrong
                                        : run_interleaving(graph, seed).wrong;
}

// Whether one of the first interleavings goes wrong.
bool is_found(const std::vector<ExploredGraph>& all) {
  constexpr std::uint64_t kSeeds = 40;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const ExploredGraph& graph : all)
      if (wrong_of(graph, seed)) return true;
  return false;
}

}  // namespace

TEST_CASE("no interleaving reads a wrong content, waits for ever or leaves anything behind" *
          doctest::skip(kSkipsOneThread)) {
  const std::vector<ExploredGraph> all = explored(PlantedBug::kNone);
  const char* const one = std::getenv("SEXTANT_INTERLEAVING");
  const std::uint64_t interleavings = is_long_run() ? 100'000 : 3'000;
  std::int64_t events = 0, early = 0, repeated = 0;
  for (std::uint64_t i = 0; i < interleavings; ++i) {
    const ExploredGraph& graph = all[i % all.size()];
    const std::uint64_t seed = i / all.size();
    const std::string name = fmt::format("{}:{}", graph.name(), seed);
    if (one != nullptr && name != one) continue;
    const InterleavingResult result = run_interleaving(graph, seed);
    events += result.events;
    early += result.early;
    repeated += result.repeated;
    INFO("SEXTANT_INTERLEAVING=" << name << ": " << result.wrong.value_or(""));
    REQUIRE_FALSE(result.wrong.has_value());
  }
  MESSAGE(interleavings << " interleavings of " << all.size() << " graphs, " << events
                        << " events; " << early << " messages came early, " << repeated
                        << " again");
  if (one != nullptr) return;
  CHECK(early > static_cast<std::int64_t>(interleavings));
  CHECK(repeated > static_cast<std::int64_t>(interleavings));
}

TEST_CASE("a host thread and its launch thread come to their end in every order of their turns" *
          doctest::skip(kSkipsOneThread)) {
  const std::vector<ExploredGraph> all = explored(PlantedBug::kNone);
  const char* const one = std::getenv("SEXTANT_HOST_THREAD");
  const std::uint64_t runs = is_long_run() ? 20'000 : 600;
  std::int64_t turns = 0;
  for (std::uint64_t i = 0; i < runs; ++i) {
    const ExploredGraph& graph = all[i % all.size()];
    const std::string name = fmt::format("{}:{}", graph.name(), i / all.size());
    if (one != nullptr && name != one) continue;
    const HostThreadResult result = run_host_thread(graph, i / all.size());
    turns += result.turns;
    INFO("SEXTANT_HOST_THREAD=" << name << ": " << result.wrong.value_or(""));
    REQUIRE_FALSE(result.wrong.has_value());
  }
  MESSAGE(runs << " runs of " << all.size() << " graphs, " << turns << " turns");
}

// The loader's credits come with fences of a step that is launched behind them, so it does not ask
// these but the end of the step before that.
TEST_CASE("a loader behind another host actor waits for no launch that is not made" *
          doctest::skip(kSkipsOneThread)) {
  for (const int micro_batches : {1, 3}) {
    const ExploredGraph graph("behind a source", pipeline_graph({.stages = 1,
                                                                 .micro_batches = micro_batches,
                                                                 .host_actors = true,
                                                                 .data_actors = true}));
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      CAPTURE(seed);
      const HostThreadResult result = run_host_thread(graph, seed);
      INFO(result.wrong.value_or(""));
      REQUIRE_FALSE(result.wrong.has_value());
    }
  }
}

// The race that was there: between what is posted and what is said of it the host thread acts,
// says that it has done all, and is called busy again. Nobody tells anybody anything after that.
TEST_CASE("a host thread that is called busy by post leaves drain waiting for ever" *
          doctest::skip(kSkipsOneThread)) {
  const std::vector<ExploredGraph> all = explored(PlantedBug::kHostCalledBusy);
  std::map<std::string, int> found;
  for (const ExploredGraph& graph : all)
    for (std::uint64_t seed = 0; seed < 12; ++seed)
      if (const auto wrong = run_host_thread(graph, seed).wrong) ++found[*wrong];
  CHECK(found.size() == 1);
  CHECK(found["the threads of the rank wait for ever"] > 10);
  // To the turn, what a seed says.
  CHECK(run_host_thread(all[0], 5).turns == run_host_thread(all[0], 5).turns);
}

TEST_CASE("an interleaving is what its seed says" * doctest::skip(kSkipsOneThread)) {
  const ExploredGraph graph("two stages", graphs()[3].second);
  std::map<std::int64_t, int> events;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::int64_t first = run_interleaving(graph, seed).events;
    CHECK(run_interleaving(graph, seed).events == first);
    ++events[first];
  }
  CHECK(events.size() > 1);
}

TEST_CASE("every planted bug is found in some interleaving" * doctest::skip(kSkipsOneThread)) {
  CHECK(planted_bugs().size() >= 20);
  std::string list;
  for (const NamedBug& planted : planted_bugs()) {
    const Outcome outcome = outcome_of([&] { return is_found(explored(planted.bug)); });
    INFO(std::string(planted.name) << ": " << to_text(outcome));
    CHECK(outcome != Outcome::kClean);
    CHECK(outcome != Outcome::kCrashed);
    list += fmt::format("\n{}: {}", planted.name, to_text(outcome));
  }
  MESSAGE(list);
}

}  // namespace sextant::interleaving_test
