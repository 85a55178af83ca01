// Guards against a brute-force oracle: every pair of overlapping uses, over every path of waits.
#include "actor/bytes/byte_order.h"

#include "actor/calls/operands.h"
#include "actor/protocol/protocol.h"
#include "core/base/error.h"
#include "tests/support/graph_builder.h"
#include "tests/support/one_thread.h"
#include "tests/support/pipeline_graph.h"
#include "tests/support/slot_planner.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace sextant::byte_order_test {
using namespace testing;

namespace {

struct ByteUse {
  std::int64_t begin = 0, end = 0;
  bool writes = false;
};

// All pairs of launches over `steps` steps, by transitive closure; slow and obvious.
class Oracle {
 public:
  Oracle(const PhysicalGraph& graph, ProgramId program, std::int64_t steps)
      : graph_(graph), program_(program), tables_(graph, program), runs_(tables_.runs.size()) {
    collect_uses();
    close(steps);
  }

  // (earlier, later) launches, run + step * runs, that use common bytes, one writing, unordered.
  std::vector<std::pair<std::size_t, std::size_t>> races() const {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (std::size_t later = 0; later < before_.size(); ++later) {
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        if (!before_[later][earlier] && conflict(earlier % runs_, later % runs_)) {
          found.push_back({earlier, later});
        }
      }
    }
    return found;
  }

 private:
  void collect_uses() {
    const OperandResolver resolver(graph_, program_);
    for (std::size_t r = 0; r < runs_; ++r) {
      uses_.emplace_back();
      for (const ActorCall& call : resolver.calls(RunId(r))) {
        for (const BufferRef& ref : call.in) add(ref, false);
        for (const BufferRef& ref : call.out) add(ref, true);
      }
    }
  }
  void add(const BufferRef& ref, bool writes) {
    uses_.back().push_back(
        {ref.offset.value, ref.offset.value + size_of(ref.info->local).value, writes});
  }
  bool conflict(std::size_t a, std::size_t b) const {
    for (const ByteUse& x : uses_[a]) {
      for (const ByteUse& y : uses_[b]) {
        if ((x.writes || y.writes) && x.begin < y.end && y.begin < x.end) return true;
      }
    }
    return false;
  }

  void close(std::int64_t steps) {
    Protocol protocol(tables_);
    const std::size_t launches = runs_ * static_cast<std::size_t>(steps);
    before_.assign(launches, std::vector<bool>(launches, false));
    std::vector<std::vector<std::size_t>> queue(kNumQueueRoles);
    std::size_t number = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      protocol.run_host_actors_freely(step + 1);
      for (std::size_t run = 0; run < runs_;) {
        REQUIRE(!protocol.issue(static_cast<std::int32_t>(run), step));
        protocol.run_host_actors_freely(step + 1);
        const auto members = static_cast<std::size_t>(tables_.runs[run].group_size);
        // Members begin together: what one follows, all follow; who follows one, follows all.
        std::vector<bool> all(launches, false);
        for (std::size_t m = 0; m < members; ++m) {
          auto& own = queue[static_cast<std::size_t>(tables_.runs[run + m].queue)];
          if (!own.empty()) follow(all, own.back());
          for (const Fence fence : protocol.waits(static_cast<std::int32_t>(m))) {
            follow(all, queue[static_cast<std::size_t>(fence.queue)]
                             [static_cast<std::size_t>(fence.sequence)]);
          }
        }
        group_of_.resize(launches);
        for (std::size_t m = 0; m < members; ++m) {
          before_[number + m] = all;
          group_of_[number + m] = {number, number + members};
        }
        for (std::size_t m = 0; m < members; ++m) {
          queue[static_cast<std::size_t>(tables_.runs[run + m].queue)].push_back(number + m);
        }
        number += members;
        run += members;
      }
    }
  }
  void follow(std::vector<bool>& all, std::size_t earlier) const {
    for (std::size_t i = group_of_[earlier].first; i < group_of_[earlier].second; ++i) {
      all[i] = true;
      for (std::size_t j = 0; j < i; ++j) {
        if (before_[i][j]) all[j] = true;
      }
    }
  }

  const PhysicalGraph& graph_;
  ProgramId program_;
  ProgramTables tables_;
  std::size_t runs_;
  std::vector<std::vector<ByteUse>> uses_;  // by run
  std::vector<std::vector<bool>> before_;   // [later][earlier]
  std::vector<std::pair<std::size_t, std::size_t>> group_of_;
};

// producer on one queue, consumer on another, contents in a ring of two slots.
PhysicalGraph ring_graph(std::int32_t m) {
  PhysicalGraph graph = chain_graph({2, 2}, m);
  graph.blocks[BlockId(1)].actors.front().queue = QueueRole::kCopyOut;
  return graph;
}

std::vector<PipelineSpec> pipelines() {
  std::vector<PipelineSpec> specs;
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGPipe, PipelineSchedule::kOneFOneB, PipelineSchedule::kZeroBubble}) {
    for (const int m : {3, 5, 6}) {
      for (const bool groups : {false, true}) {
        PipelineSpec spec;
        spec.stages = 3;
        spec.replicas = 2;
        spec.micro_batches = m;
        spec.schedule = schedule;
        spec.launch_groups = groups;
        spec.host_actors = m == 5;
        specs.push_back(spec);
      }
    }
  }
  return specs;
}

}  // namespace

TEST_CASE(
    "a ring whose contents per step do not divide needs guards, one that divides needs none") {
  // Slots of contents: m = 4: 0 1 0 1 | 0 1 0 1: content n reuses what content n - 2 had, and the
  // credit it takes (two registers) is the one content n - 2 returned: ordered by that Ack.
  CHECK(missing_guards(ring_graph(4), ProgramId(0)).empty());
  // m = 3: 0 1 0 | 0 1 0: content 0 of a step lies where content 2 of the step before lies, one
  // back, but its credit is two back. Act 0 of the producer (run 0) must wait for the consumer of
  // content 2 (run 5) of the previous step.
  const std::vector<Guard> guards = missing_guards(ring_graph(3), ProgramId(0));
  CHECK(guards == std::vector<Guard>{{RunId(0), RunId(5), 1}});
  PhysicalGraph graph = ring_graph(3);
  // Steps 1 and 2 of the three that are checked have a previous one.
  CHECK(check_byte_order(graph, ProgramId(0)).size() == 2);
  graph.programs[ProgramId(0)].guards = guards;
  CHECK(check_byte_order(graph, ProgramId(0)).empty());
  CHECK(missing_guards(graph, ProgramId(0)).empty());
}

TEST_CASE("with the guards no pair of uses is unordered; without any one of them some pair is") {
  for (const PipelineSpec& spec : pipelines()) {
    const PhysicalGraph graph = pipeline_graph(spec);
    for (const ProgramId p : graph.programs.keys()) {
      const ProgramId program(p);
      CHECK(Oracle(graph, program, 3).races().empty());
      CHECK(check_byte_order(graph, program) == std::vector<std::string>{});
      CHECK(missing_guards(graph, program).empty());
    }
  }
}

// Waits of steps, by run: what a protocol says in a step, less the step.
std::vector<std::vector<Fence>> waits_of_step(Protocol& protocol, const ProgramTables& tables,
                                              std::int64_t step) {
  std::vector<std::vector<Fence>> waits;
  protocol.run_host_actors_freely(step + 1);
  for (std::size_t run = 0; run < tables.runs.size();) {
    REQUIRE(!protocol.issue(static_cast<std::int32_t>(run), step));
    protocol.run_host_actors_freely(step + 1);
    const std::int32_t members = tables.runs[run].group_size;
    for (std::int32_t m = 0; m < members; ++m) {
      waits.emplace_back();
      for (Fence fence : protocol.waits(m)) {
        fence.sequence -= step * tables.runs_per_step[fence.queue];
        waits.back().push_back(fence);
      }
    }
    run += static_cast<std::size_t>(members);
  }
  return waits;
}

TEST_CASE("a protocol that repeats waits in each later step for what it waited for before") {
  int repeating = 0;
  for (const PipelineSpec& spec : pipelines()) {
    const PhysicalGraph graph = pipeline_graph(spec);
    for (const ProgramId p : graph.programs.keys()) {
      const ProgramTables tables(graph, p);
      Protocol protocol(tables);
      const Protocol start = protocol;
      waits_of_step(protocol, tables, 0);
      const Protocol first = protocol;
      CHECK(!protocol.repeats(protocol));  // that is no step later
      const auto second = waits_of_step(protocol, tables, 1);
      if (!protocol.repeats(first)) continue;
      ++repeating;
      const Protocol after_second = protocol;
      const auto third = waits_of_step(protocol, tables, 2);
      CHECK(protocol.repeats(after_second));
      CHECK(waits_of_step(protocol, tables, 3) == third);
      // Only what a queue has waited for by now may be missing in the third.
      for (std::size_t run = 0; run < third.size(); ++run)
        for (const Fence fence : third[run])
          CHECK(std::find(second[run].begin(), second[run].end(), fence) != second[run].end());
    }
  }
  CHECK(repeating > 0);
}

TEST_CASE("two steps tell what three do, with all guards and without any one of them") {
  for (const PipelineSpec& spec : pipelines()) {
    PhysicalGraph graph = pipeline_graph(spec);
    for (const ProgramId p : graph.programs.keys()) {
      const ProgramId program(p);
      const std::vector<Guard> guards = graph.programs[p].guards;
      for (std::size_t g = 0; g <= guards.size(); ++g) {
        graph.programs[p].guards = guards;
        if (g < guards.size())
          graph.programs[p].guards.erase(graph.programs[p].guards.begin() +
                                         static_cast<std::ptrdiff_t>(g));
        const auto tables = std::make_shared<const ProgramTables>(graph, program);
        CHECK(check_byte_order(graph, program, tables) ==
              check_noted_order(graph, program, *tables, note_launches(graph, program, tables)));
      }
      graph.programs[p].guards = guards;
    }
  }
}

TEST_CASE("the check reports a race exactly when the oracle finds one" *
          doctest::skip(kSkipsOneThread)) {
  std::size_t needed = 0, dropped = 0;
  for (const PipelineSpec& spec : pipelines()) {
    PhysicalGraph graph = pipeline_graph(spec);
    for (const ProgramId p : graph.programs.keys()) {
      const std::vector<Guard> guards = graph.programs[p].guards;
      for (std::size_t g = 0; g < guards.size(); ++g) {
        graph.programs[p].guards = guards;
        graph.programs[p].guards.erase(graph.programs[p].guards.begin() +
                                       static_cast<std::ptrdiff_t>(g));
        const bool races = !Oracle(graph, p, 3).races().empty();
        CHECK(check_byte_order(graph, p).empty() == !races);
        CHECK(missing_guards(graph, p).empty() == !races);
        needed += races ? 1 : 0;
        ++dropped;
      }
      graph.programs[p].guards = guards;
    }
  }
  // Guards are added in order, so a later one may make an earlier one superfluous; most are needed.
  CHECK(dropped > 100);
  CHECK(needed * 10 >= dropped * 9);
}

TEST_CASE("a slot that is overwritten while it is live is found although everything is ordered") {
  // Three actors on one queue: a1 and a3 write, a2 reads a1's content after a3 wrote over it.
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{4}, "B", here);
  const ProgramId program = builder.program("p", here);
  BlockBuilder block(builder, "b", Phase::kForward);
  const std::int32_t first = block.reg("first", layout, block.frame());
  const std::int32_t other = block.reg("other", layout, block.frame());
  block.actor("write", QueueRole::kCompute, {}, {first});
  block.actor("intrude", QueueRole::kCompute, {}, {other});
  block.actor("read", QueueRole::kCompute, {BlockBuilder::of_register(first)}, {});
  const InstanceId instance = builder.instance(program, block.finish(), "i", 1, {1, 1});
  for (std::int32_t actor = 0; actor < 3; ++actor)
    builder.run(program, {instance, actor, 1, 0, {}});
  builder.bind(program);
  PhysicalGraph graph = builder.graph();
  CHECK(check_byte_order(graph, program).empty());
  graph.programs[ProgramId(0)].instances[InstanceId(0)].frames[1].slot_offsets[0] =
      graph.programs[ProgramId(0)].instances[InstanceId(0)].frames[0].slot_offsets[0];
  CHECK(missing_guards(graph, program).empty());
  const std::vector<std::string> messages = check_byte_order(graph, program);
  REQUIRE(messages.size() == 3);  // once per step that is checked
  CHECK(messages[0].find("reads 'first' of 'i' content 0, but") != std::string::npos);
  CHECK(messages[0].find("has written 'other' of 'i' content 0 there") != std::string::npos);
}

TEST_CASE("bytes of host actors are their own") {
  PipelineSpec spec;
  spec.stages = 2;
  spec.host_actors = true;
  PhysicalGraph graph = pipeline_graph(spec);
  RankProgram& program = graph.programs[ProgramId(0)];
  REQUIRE(program.instances[InstanceId(0)].name == "loader");
  // The loader's first slot moved onto the slot of a forward activation.
  program.instances[InstanceId(0)].frames[0].slot_offsets[0] =
      program.instances[InstanceId(1)].frames[0].slot_offsets[0];
  CHECK_THROWS_WITH_AS(missing_guards(graph, ProgramId(0)),
                       doctest::Contains("which a host actor touches"), Error);
  const std::vector<std::string> messages = check_byte_order(graph, ProgramId(0));
  REQUIRE(!messages.empty());
  CHECK(messages[0].find("which a host actor touches") != std::string::npos);
}

TEST_CASE("contents of a host actor that are in flight together may not share a slot") {
  PipelineSpec spec;
  spec.stages = 2;
  spec.host_actors = true;
  PhysicalGraph graph = pipeline_graph(spec);
  FrameBinding& binding = graph.programs[ProgramId(0)].instances[InstanceId(0)].frames[0];
  binding.num_registers = 2;
  binding.slot_of_content[1] = binding.slot_of_content[0];
  CHECK_THROWS_WITH_AS(missing_guards(graph, ProgramId(0)),
                       doctest::Contains("keeps contents 0 and 1 in slot"), Error);
}

}  // namespace sextant::byte_order_test
