// Queues, fences, failures and poison of one rank, launch by launch, on all three queue kinds.
#include "backends/cpu/cpu_device.h"
#include "core/base/check.h"
#include "tests/cpu/device_harness.h"
#include "tests/support/graph_builder.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <thread>

namespace sextant::device_test {
namespace {

using testing::BlockBuilder;
using testing::GraphBuilder;

constexpr CpuQueueKind kKinds[] = {CpuQueueKind::kInline, CpuQueueKind::kAsynchronous,
                                   CpuQueueKind::kStress};

CpuOptions options_of(CpuQueueKind kind) {
  CpuOptions options;
  options.queues = kind;
  options.rendezvous_timeout_ms = 20'000;
  return options;
}

// Kernels of these tests. A kernel is a plain function, so the gate is a variable of this file.
std::atomic<bool> gate_is_open{true};

void wait_for_gate(const KernelContext&, Workspace&) {
  while (!gate_is_open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void always_fails(const KernelContext&, Workspace&) {
  fail(ErrorCode::kBadInput, "the value is odd");
}

KernelTable test_kernels() {
  KernelTable table = reference_kernels();
  table.add("gate", wait_for_gate);
  table.add("fails", always_fails);
  return table;
}

// One rank; "one" = 1 on the compute queue, read twice: "double" on copy_out, "triple" on copy_in.
struct Diamond {
  GraphBuilder builder;
  int one = 0, two = 1, three = 2;  // registers = runs

  explicit Diamond(const std::string& kind_of_double = "scale") {
    const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
    const LayoutId layout = builder.layout(Shape{4}, "B", here);
    const ProgramId program = builder.program("diamond", here);
    BlockBuilder block(builder, "diamond", Phase::kForward);
    const std::int32_t source = block.reg("one", layout, block.frame());
    const std::int32_t left = block.reg("double", layout, block.frame());
    const std::int32_t right = block.reg("triple", layout, block.frame());
    Actor& constant = block.actor("one", QueueRole::kCompute, {}, {source});
    constant.kind = "constant";
    constant.attributes.set("value", 1.0);
    Actor& twice =
        block.actor("double", QueueRole::kCopyOut, {BlockBuilder::of_register(source)}, {left});
    twice.kind = kind_of_double;
    twice.attributes.set("factor", 2.0);
    Actor& thrice =
        block.actor("triple", QueueRole::kCopyIn, {BlockBuilder::of_register(source)}, {right});
    thrice.kind = "scale";
    thrice.attributes.set("factor", 3.0);
    const InstanceId instance = builder.instance(program, block.finish(), "diamond", 1, {1, 1, 1});
    builder.act(program, instance, 0);
    builder.bind(program);
  }
};

TEST_CASE("work on three queues gives the same numbers on every queue kind") {
  for (const CpuQueueKind kind : kKinds) {
    Diamond diamond;
    DeviceHarness harness(diamond.builder.graph(), options_of(kind), test_kernels());
    for (std::int64_t step = 0; step < 20; ++step) {
      const Fence one = harness.launch(0, 0, {}, step);
      const Fence two = harness.launch(0, 1, {one}, step);
      const Fence three = harness.launch(0, 2, {one}, step);
      CHECK(one == Fence{QueueRole::kCompute, step});
      CHECK(two == Fence{QueueRole::kCopyOut, step});
      harness.device(0).wait(two);
      harness.device(0).wait(three);
      CHECK(harness.device(0).state(one) == FenceState::kDone);
      // Under stress the results have had their last use: see the poison tests.
      if (kind == CpuQueueKind::kStress) continue;
      CHECK(harness.read(0, 0, diamond.two) == std::vector<float>(4, 2.0F));
      CHECK(harness.read(0, 0, diamond.three) == std::vector<float>(4, 3.0F));
    }
  }
}

TEST_CASE("a fence is pending until its launch is done, and other queues go on meanwhile") {
  Diamond diamond("gate");
  DeviceHarness harness(diamond.builder.graph(), options_of(CpuQueueKind::kAsynchronous),
                        test_kernels());
  gate_is_open = false;
  const Fence one = harness.launch(0, 0);
  const Fence two = harness.launch(0, 1, {one});
  const Fence three = harness.launch(0, 2, {one});
  const Fence behind = harness.launch(0, 1, {}, 1);
  harness.device(0).wait(three);
  CHECK(harness.device(0).state(two) == FenceState::kPending);
  CHECK(harness.device(0).state(behind) == FenceState::kPending);
  gate_is_open = true;
  harness.device(0).wait(behind);
  CHECK(harness.device(0).state(two) == FenceState::kDone);
}

TEST_CASE("a kernel error fails its fence, what waits for it, and all that comes later") {
  for (const CpuQueueKind kind : kKinds) {
    Diamond diamond("fails");
    DeviceHarness harness(diamond.builder.graph(), options_of(kind), test_kernels());
    const Fence one = harness.launch(0, 0, {}, 3);
    harness.device(0).wait(one);
    const Fence two = harness.launch(0, 1, {one}, 3);
    std::string message;
    try {
      harness.device(0).wait(two);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kRankFailed);
      message = error.what();
    }
    CHECK(message == "rank 0: operator 'double' (fails), act 0 of step 3: the value is odd");
    CHECK(harness.device(0).state(one) == FenceState::kDone);
    CHECK(harness.device(0).state(two) == FenceState::kFailed);
    const Fence three = harness.launch(0, 2, {one}, 3);
    CHECK_THROWS_AS(harness.device(0).wait(three), Error);
    CHECK(harness.device(0).state(three) == FenceState::kFailed);
  }
}

TEST_CASE("abort from outside ends a wait with the given reason") {
  Diamond diamond("gate");
  DeviceHarness harness(diamond.builder.graph(), options_of(CpuQueueKind::kAsynchronous),
                        test_kernels());
  gate_is_open = false;
  const Fence one = harness.launch(0, 0);
  const Fence two = harness.launch(0, 1, {one});
  std::thread aborter([&] { harness.device(0).abort("rank 7 was lost"); });
  CHECK_THROWS_WITH(harness.device(0).wait(two), "rank 7 was lost");
  aborter.join();
  gate_is_open = true;
}

TEST_CASE("a world that is aborted begins nothing more, though no rank waits for another") {
  Diamond diamond;
  for (const CpuQueueKind kind : kKinds) {
    CpuWorld world(diamond.builder.graph(), options_of(kind));
    Device& device = *world.devices().front();
    const auto launch = [&device](int run, std::vector<Fence> waits) {
      Fence fence;
      const Launch one{RunId(run), 0, waits};
      device.launch({&one, 1}, {&fence, 1});
      return fence;
    };
    const Fence first = launch(0, {});
    device.wait(first);
    CHECK(world.finished_launches() == 1);
    world.abort("interrupted");
    CHECK_THROWS_WITH(device.wait(launch(1, {first})), "interrupted");
    CHECK(world.finished_launches() == 1);
  }
}

// Inline queues throw at the caller, whose launch is no work of the device any more.
TEST_CASE("a launch that waits for one that was not issued leaves nothing on its queue") {
  Diamond diamond;
  DeviceHarness harness(diamond.builder.graph(), options_of(CpuQueueKind::kInline), test_kernels());
  CHECK_THROWS_AS(harness.launch(0, 1, {Fence{QueueRole::kCompute, 0}}), Error);
  harness.device(0).abort("enough");
  CHECK(harness.device(0).stuck().empty());
}

// "one" reads nothing; "double" and "triple", on a queue each, may copy their four elements to four
// doubles, 32 bytes, which take one line of 64.
TEST_CASE("memory that has room for the arena and not for the kernels' workspace is refused") {
  Diamond diamond;
  const Bytes arena = diamond.builder.graph().programs[ProgramId(0)].arena.size;
  CpuOptions options = options_of(CpuQueueKind::kInline);
  options.kernels = CpuKernels::kReference;
  options.memory = arena + Bytes(127);
  const std::string needed = to_text(arena + Bytes(128));
  CHECK_THROWS_WITH(CpuWorld(diamond.builder.graph(), options),
                    doctest::Contains(("1 ranks need " + needed).c_str()));
  options.memory = arena + Bytes(128);
  CHECK_NOTHROW(CpuWorld(diamond.builder.graph(), options));
}

TEST_CASE("an operator without kernel is refused by name") {
  Diamond diamond("fft");
  CHECK_THROWS_WITH(
      DeviceHarness(diamond.builder.graph(), options_of(CpuQueueKind::kInline), test_kernels()),
      "the CPU has no kernel for operator kind 'fft' ('double')");
}

bool is_poison(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
}

TEST_CASE("under stress bytes are poisoned by the last of their readers, not before") {
  Diamond diamond;
  DeviceHarness harness(diamond.builder.graph(), options_of(CpuQueueKind::kStress), test_kernels());
  CHECK(is_poison(harness.read(0, 0, diamond.one)));
  const Fence one = harness.launch(0, 0);
  harness.device(0).wait(one);
  CHECK(harness.read(0, 0, diamond.one) == std::vector<float>(4, 1.0F));
  harness.device(0).wait(harness.launch(0, 2, {one}));
  CHECK(harness.read(0, 0, diamond.one) == std::vector<float>(4, 1.0F));
  harness.device(0).wait(harness.launch(0, 1, {one}));
  CHECK(is_poison(harness.read(0, 0, diamond.one)));
  // Nobody reads the results: their writer was the last to use them.
  CHECK(is_poison(harness.read(0, 0, diamond.two)));
}

// source -> negated in place -> sum with itself into a state, in one run; a host actor reads
// `shown`.
TEST_CASE("poison spares state, bytes that go on in place and what the host reads") {
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{2}, "B", here);
  const ProgramId program = builder.program("p", here);
  BlockBuilder block(builder, "b", Phase::kForward);
  const std::int32_t source = block.reg("source", layout, block.frame());
  const std::int32_t negated = block.reg_over("negated", source);
  const std::int32_t shown = block.reg("shown", layout, block.frame());
  const std::int32_t state = block.reg(
      "state", layout,
      block.frame(
          {.memory = MemoryClass::kParameters, .acts_per_content = 1, .initially_full = true}));
  Actor& constant = block.actor("constant", QueueRole::kCompute, {}, {source});
  constant.kind = "constant";
  constant.attributes.set("value", 4.0);
  Actor& scale =
      block.actor("negate", QueueRole::kCompute, {BlockBuilder::of_register(source)}, {negated});
  scale.kind = "scale";
  scale.attributes.set("factor", -1.0);
  scale.in_place = Actor::InPlace{.in = 0, .out = 0};
  Actor& show =
      block.actor("show", QueueRole::kCompute, {BlockBuilder::of_register(negated)}, {shown});
  show.kind = "scale";
  show.attributes.set("factor", 2.0);
  block.actor("keep", QueueRole::kCopyIn, {BlockBuilder::of_register(negated)}, {state}).kind =
      "cast";
  block.actor("report", QueueRole::kHost, {BlockBuilder::of_register(shown)}, {}).kind = "metrics";
  const InstanceId instance = builder.instance(program, block.finish(), "i", 1, {1, 1, 1});
  builder.act(program, instance, 0);
  builder.bind(program);
  DeviceHarness harness(builder.graph(), options_of(CpuQueueKind::kStress), test_kernels());
  CHECK(harness.read(0, 0, state) == std::vector<float>{0, 0});
  const Fence first = harness.launch(0, 0);
  harness.device(0).wait(first);
  // "negated" is still to be read by "keep".
  CHECK(harness.read(0, 0, negated) == std::vector<float>{-4, -4});
  harness.device(0).wait(harness.launch(0, 1, {first}));
  CHECK(is_poison(harness.read(0, 0, negated)));
  CHECK(harness.read(0, 0, shown) == std::vector<float>{-8, -8});
  CHECK(harness.read(0, 0, state) == std::vector<float>{-4, -4});
}

// "early" and "late" share a frame; "early" is over after its copy, and "next" lies in its bytes
// before "late" has been read.
TEST_CASE("poison follows registers: a neighbour in the frame may live longer") {
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{2}, "B", here);
  const ProgramId program = builder.program("p", here);
  BlockBuilder block(builder, "b", Phase::kForward);
  const std::int32_t shared = block.frame();
  const std::int32_t early = block.reg("early", layout, shared);
  const std::int32_t late = block.reg("late", layout, shared);
  const std::int32_t next = block.reg("next", layout, block.frame());
  const auto state = [&](const char* name) {
    return block.reg(
        name, layout,
        block.frame(
            {.memory = MemoryClass::kParameters, .acts_per_content = 1, .initially_full = true}));
  };
  const auto constant = [&](const char* name, std::int32_t reg, double value) {
    Actor& actor = block.actor(name, QueueRole::kCompute, {}, {reg});
    actor.kind = "constant";
    actor.attributes.set("value", value);
  };
  const auto copy = [&](const char* name, std::int32_t from) {
    const std::int32_t to = state(name);
    block.actor(name, QueueRole::kCompute, {BlockBuilder::of_register(from)}, {to}).kind = "cast";
    return to;
  };
  constant("early", early, 1.0);
  constant("late", late, 2.0);
  const std::int32_t early_copy = copy("early copy", early);
  constant("next", next, 3.0);
  const std::int32_t late_copy = copy("late copy", late);
  const std::int32_t next_copy = copy("next copy", next);
  const InstanceId instance = builder.instance(program, block.finish(), "i", 1, {1, 1, 1, 1, 1});
  builder.act(program, instance, 0);
  builder.bind(program);
  std::vector<FrameBinding>& frames =
      builder.graph().programs[ProgramId(0)].instances[InstanceId(0)].frames;
  frames[1].slot_offsets = frames[0].slot_offsets;
  DeviceHarness harness(builder.graph(), options_of(CpuQueueKind::kStress), test_kernels());
  harness.device(0).wait(harness.launch(0, 0));
  CHECK(harness.read(0, 0, early_copy) == std::vector<float>{1, 1});
  CHECK(harness.read(0, 0, late_copy) == std::vector<float>{2, 2});
  CHECK(harness.read(0, 0, next_copy) == std::vector<float>{3, 3});
}

// A reader on one queue and, without a guard, a later writer of the same bytes on another.
TEST_CASE("delaying exactly the earlier launch shows a missing guard, and a guard cures it") {
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{2}, "B", here);
  const ProgramId program = builder.program("p", here);
  BlockBuilder block(builder, "b", Phase::kForward);
  const std::int32_t first = block.reg("first", layout, block.frame());
  const std::int32_t copy = block.reg(
      "copy", layout,
      block.frame(
          {.memory = MemoryClass::kParameters, .acts_per_content = 1, .initially_full = true}));
  const std::int32_t second = block.reg("second", layout, block.frame());
  const auto constant = [&](const char* name, std::int32_t reg, double value) {
    Actor& actor = block.actor(name, QueueRole::kCompute, {}, {reg});
    actor.kind = "constant";
    actor.attributes.set("value", value);
  };
  constant("first", first, 1.0);
  block.actor("copy", QueueRole::kCopyOut, {BlockBuilder::of_register(first)}, {copy}).kind =
      "cast";
  constant("second", second, 2.0);
  const InstanceId instance = builder.instance(program, block.finish(), "i", 1, {1, 1, 1});
  builder.act(program, instance, 0);
  builder.bind(program);
  // "second" lies where "first" was.
  std::vector<FrameBinding>& frames =
      builder.graph().programs[ProgramId(0)].instances[InstanceId(0)].frames;
  frames[2].slot_offsets = frames[0].slot_offsets;
  const auto copied = [&](bool delayed, bool guarded) {
    CpuOptions options = options_of(CpuQueueKind::kStress);
    options.max_delay_us = 50'000;
    options.delayed_run = RunId(delayed ? 1 : 99);
    DeviceHarness harness(builder.graph(), options, test_kernels());
    const Fence write = harness.launch(0, 0);
    const Fence read = harness.launch(0, 1, {write});
    harness.device(0).wait(write);
    if (!delayed) harness.device(0).wait(read);
    const Fence overwrite =
        harness.launch(0, 2, guarded ? std::vector<Fence>{read} : std::vector<Fence>{});
    harness.device(0).wait(overwrite);
    harness.device(0).wait(read);
    return harness.read(0, 0, copy)[0];
  };
  CHECK(copied(false, false) == 1.0F);
#ifndef __SANITIZE_THREAD__
  // A race on purpose, which the thread sanitizer would rightly report.
  CHECK(copied(true, false) != 1.0F);
#endif
  CHECK(copied(true, true) == 1.0F);
}

TEST_CASE("stamps say when each run occupied its queue, in order") {
  Diamond diamond;
  CpuOptions options = options_of(CpuQueueKind::kAsynchronous);
  options.profile = true;
  DeviceHarness harness(diamond.builder.graph(), options, test_kernels());
  for (std::int64_t step = 0; step < 3; ++step) {
    const Fence one = harness.launch(0, 0, {}, step);
    harness.device(0).wait(harness.launch(0, 1, {one}, step));
  }
  const auto stamps = harness.device(0).stamps();
  REQUIRE(stamps.size() == 6);
  for (std::size_t i = 0; i < stamps.size(); ++i) {
    CHECK(stamps[i].run == RunId(i % 2));
    CHECK(stamps[i].step == static_cast<std::int64_t>(i / 2));
    CHECK(stamps[i].begin <= stamps[i].end);
    if (i > 0) CHECK(stamps[i - 1].end <= stamps[i].begin);
  }
}

TEST_CASE("a thousand starts and stops leave no thread and no launch behind") {
  Diamond diamond;
  for (int round = 0; round < 1000; ++round) {
    DeviceHarness harness(diamond.builder.graph(), options_of(CpuQueueKind::kAsynchronous),
                          test_kernels());
    const Fence one = harness.launch(0, 0);
    harness.launch(0, 1, {one});
  }
}

// A parameter [5, 3] split by `words` over `ranks` devices, all boxes put together.
std::vector<float> initial_parameter(const std::string& words, int ranks, const Attributes& more,
                                     std::uint64_t seed = 11) {
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", ranks}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{5, 3}, words, here);
  const ProgramId program = builder.program("p", here);
  BlockBuilder block(builder, "b", Phase::kForward);
  const std::int32_t reg = block.reg(
      "w", layout,
      block.frame(
          {.memory = MemoryClass::kParameters, .acts_per_content = 1, .initially_full = true}));
  Actor& actor = block.actor("w", QueueRole::kCompute, {}, {reg});
  actor.kind = "parameter";
  actor.attributes = more;
  const InstanceId instance = builder.instance(program, block.finish(), "i", 1, {1});
  builder.act(program, instance, 0);
  for (int rank = 0; rank < ranks; ++rank) builder.bind(program);
  CpuOptions options = options_of(CpuQueueKind::kInline);
  options.seed = seed;
  DeviceHarness harness(builder.graph(), options, test_kernels());
  std::vector<float> global(15);
  for (int rank = 0; rank < ranks; ++rank) {
    const Shard box = shard_of(builder.graph(), layout, Rank(rank));
    const std::vector<float> local = harness.read(rank, 0, reg);
    std::size_t at = 0;
    for (std::int64_t i = box.dims[0].offset; i < box.dims[0].end(); ++i)
      for (std::int64_t j = box.dims[1].offset; j < box.dims[1].end(); ++j)
        global[static_cast<std::size_t>(i * 3 + j)] = local[at++];
  }
  return global;
}

TEST_CASE("weights start from the same bits however they are split") {
  const Attributes normal{{"init", "normal"}, {"init_std", 0.5}, {"parameter", "layer0.w"}};
  const std::vector<float> whole = initial_parameter("B", 1, normal);
  CHECK(initial_parameter("S(0)", 2, normal) == whole);
  CHECK(initial_parameter("S(1)", 2, normal) == whole);
  CHECK(initial_parameter("S(0)", 7, normal) == whole);
  Attributes other = normal;
  other.set("parameter", "layer1.w");
  CHECK(initial_parameter("B", 1, other) != whole);
  CHECK(initial_parameter("B", 1, normal, 12) != whole);
  CHECK(initial_parameter("S(0)", 2, {{"init", "ones"}}) == std::vector<float>(15, 1.0F));
  CHECK(initial_parameter("S(0)", 2, {{"init", "zeros"}}) == std::vector<float>(15, 0.0F));
}

}  // namespace
}  // namespace sextant::device_test
