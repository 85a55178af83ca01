// Must (b): mutated graphs are refused, or run to the right numbers; none hangs.
#include "actor/bytes/byte_order.h"
#include "actor/protocol/dry_run.h"
#include "core/base/error.h"
#include "tests/conformance/protocol/cpu_mix_devices.h"
#include "tests/conformance/protocol/protocol_suite.h"
#include "tests/support/one_thread.h"
#include "tests/support/pipeline_graph.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <map>
#include <random>
#include <string>

namespace sextant::protocol_mutation_test {
using namespace testing;

namespace {

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  // Changes one thing and says what.
  std::string mutate(PhysicalGraph& graph) {
    RankProgram& program = pick(graph.programs.values());
    switch (below(17)) {
      case 0: {
        const std::size_t a = below(program.order.size()), b = below(program.order.size());
        std::swap(program.order[RunId(a)], program.order[RunId(b)]);
        return fmt::format("swap runs {} and {} of {}", a, b, program.name);
      }
      case 1: {
        const std::size_t a = below(program.order.size() - 1);
        std::swap(program.order[RunId(a)], program.order[RunId(a + 1)]);
        return fmt::format("swap runs {} and {} of {}", a, a + 1, program.name);
      }
      case 2: {
        const std::size_t a = below(program.order.size());
        std::vector<Run>& runs = program.order.values();
        runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(a));
        return fmt::format("remove run {} of {}", a, program.name);
      }
      case 3: {
        const std::size_t a = below(program.order.size());
        std::vector<Run>& runs = program.order.values();
        const Run copy = runs[a];
        runs.insert(runs.begin() + static_cast<std::ptrdiff_t>(a), copy);
        return fmt::format("duplicate run {} of {}", a, program.name);
      }
      case 4:
      case 5: {
        FrameBinding& frame = frame_of(program);
        frame.num_registers += below(2) == 0 ? 1 : -1;
        return fmt::format("{} registers for {}", frame.num_registers, frame_name_);
      }
      case 6: {
        FrameBinding& frame = frame_of(program);
        std::int32_t& slot = pick(frame.slot_of_content);
        slot = static_cast<std::int32_t>(below(frame.slot_offsets.size() + 1));
        return fmt::format("slot {} for a content of {}", slot, frame_name_);
      }
      case 7: {
        FrameBinding& frame = frame_of(program);
        Bytes& offset = pick(frame.slot_offsets);
        offset += Bytes(kBufferAlignment) * (below(2) == 0 ? 1 : -1);
        return fmt::format("a slot of {} moved to {}", frame_name_, offset.value);
      }
      case 8: {
        const Bytes other = pick(frame_of(program).slot_offsets);
        pick(frame_of(program).slot_offsets) = other;
        return fmt::format("a slot of {} moved onto another, at {}", frame_name_, other.value);
      }
      case 9:
      case 10: {
        if (program.guards.empty()) return "nothing";
        const std::size_t g = below(program.guards.size());
        program.guards.erase(program.guards.begin() + static_cast<std::ptrdiff_t>(g));
        return fmt::format("remove guard {} of {}", g, program.name);
      }
      case 11: {
        if (program.guards.empty()) return "nothing";
        Guard& guard = pick(program.guards);
        if (below(2) == 0) {
          guard.lag = 1 - guard.lag;
        } else {
          guard.earlier = RunId(below(program.order.size()));
        }
        return fmt::format("guard of run {} on {} with lag {} in {}", guard.later.value,
                           guard.earlier.value, guard.lag, program.name);
      }
      case 12: {
        Link& link = pick(program.links);
        link.consume_for += below(2) == 0 ? 1 : -1;
        return fmt::format("consume_for {} on a link of {}", link.consume_for, program.name);
      }
      case 13: {
        Instance& instance = pick(program.instances.values());
        instance.acts_per_step += below(2) == 0 ? 1 : -1;
        return fmt::format("{} acts for {}", instance.acts_per_step, instance.name);
      }
      case 14: {
        const std::size_t a = below(program.order.size() - 1);
        const LaunchGroupId group =
            below(2) == 0 ? LaunchGroupId(90) : program.order[RunId(a)].launch_group;
        program.order[RunId(a)].launch_group = program.order[RunId(a + 1)].launch_group = group;
        return fmt::format("launch group {} for runs {} and {} of {}", group, a, a + 1,
                           program.name);
      }
      case 15: {
        std::vector<GroupId>& groups = pick(graph.ranks.values()).groups;
        if (groups.size() < 2) return "nothing";
        const std::size_t a = below(groups.size()), b = below(groups.size());
        std::swap(groups[a], groups[b]);
        return fmt::format("roles {} and {} of a rank swapped", a, b);
      }
      default: {
        Block& block = pick(graph.blocks.values());
        if (block.frames.empty()) return "nothing";
        Frame& frame = pick(block.frames);
        if (below(2) == 0) {
          frame.initially_full = !frame.initially_full;
          return fmt::format("initially_full {} in {}", frame.initially_full, block.name);
        }
        frame.acts_per_content += below(2) == 0 ? 1 : -1;
        return fmt::format("acts_per_content {} in {}", frame.acts_per_content, block.name);
      }
    }
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  template <typename T>
  T& pick(std::vector<T>& values) {
    return values[below(values.size())];
  }
  FrameBinding& frame_of(RankProgram& program) {
    while (true) {
      Instance& instance = pick(program.instances.values());
      if (instance.frames.empty()) continue;
      const std::size_t f = below(instance.frames.size());
      frame_name_ = fmt::format("frame {} of {} {}", f, program.name, instance.name);
      return instance.frames[f];
    }
  }

  std::mt19937 random_;
  std::string frame_name_;
};

// Which check refuses the graph; empty: accepted.
std::string refused_by(const PhysicalGraph& graph) {
  if (!validate(graph).empty()) return "validate";
  try {
    dry_run(graph);
    dry_run(graph, RankScope::kAllRanks);
  } catch (const Error&) {
    return "dry run";
  }
  for (const ProgramId p : graph.programs.keys()) {
    if (!check_byte_order(graph, p).empty()) return "byte order";
  }
  return "";
}

PipelineSpec random_spec(std::mt19937& random) {
  PipelineSpec spec;
  spec.stages = 1 + static_cast<int>(random() % 3);
  spec.replicas = 1 + static_cast<int>(random() % 2);
  spec.micro_batches = 2 + static_cast<int>(random() % 4);
  spec.schedule = static_cast<PipelineSchedule>(random() % 3);
  spec.host_actors = random() % 2 == 0;
  spec.launch_groups = random() % 2 == 0;
  return spec;
}

}  // namespace

// Only runs have threads; what refuses the other graphs is one thread.
constexpr int kMutants = testing::kSkipsOneThread ? 100 : 400;

TEST_CASE(
    "of mutated valid graphs none that is accepted hangs or gives wrong numbers under stress") {
  constexpr std::int64_t kSteps = 3;
  std::mt19937 random(2024);
  std::map<std::string, int> verdicts;
  // Most mutants are refused at once by validate(); those that get past it are what is asked for.
  int valid = 0;
  for (std::uint32_t mutant = 0; valid < kMutants; ++mutant) {
    PhysicalGraph graph = pipeline_graph(random_spec(random));
    Mutator mutator(mutant);
    std::string what = mutator.mutate(graph);
    if (mutant % 4 == 0) what += "; " + mutator.mutate(graph);
    INFO("mutant " << mutant << ": " << what);
    const std::string verdict = refused_by(graph);
    ++verdicts[verdict];
    if (verdict != "validate") ++valid;
    if (!verdict.empty()) continue;
    CpuOptions options;
    options.queues = CpuQueueKind::kStress;
    options.seed = mutant;
    options.max_delay_us = 60;
    options.rendezvous_timeout_ms = 20'000;
    const ProtocolRun run = run_protocol(graph, cpu_mix_devices(options), kSteps);
    REQUIRE(run.result == mix_oracle(graph, kSteps));
  }
  for (const auto& [verdict, count] : verdicts) {
    MESSAGE((verdict.empty() ? "accepted, right numbers" : "refused by " + verdict)
            << ": " << count);
  }
  // The mutations reach every check, and the checks do not refuse everything.
  CHECK(verdicts[""] > kMutants / 10);
  CHECK(verdicts["validate"] > kMutants / 10);
  CHECK(verdicts["dry run"] > kMutants / 20);
  CHECK(verdicts["byte order"] > kMutants / 20);
}

}  // namespace sextant::protocol_mutation_test
