// No heap allocation per act after the start: the whole program's operator new is counted. The
// sanitizers bring an operator new of their own, so there is nothing to count under them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include "actor/bus/actor_bus.h"
#include "actor/runtime.h"
#include "tests/support/pipeline_graph.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>

namespace {

std::atomic<std::int64_t> allocations{0}, releases{0};

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
// Not inlined: beside other sources the compiler would see `free` of what `new` returned.
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (memory != nullptr) ++releases;
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  ::operator delete(memory);
}

namespace sextant::allocation_test {
using namespace testing;

namespace {

// Accepts everything, does nothing.
class NullDevice final : public Device {
 public:
  explicit NullDevice(const ProgramTables& tables, bool has_memory = false) : tables_(tables) {
    spec_.has_memory = has_memory;
  }
  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph&, Rank) override {}
  void launch(std::span<const Launch> group, std::span<Fence> done) override {
    for (std::size_t i = 0; i < group.size(); ++i) {
      done[i] = {tables_.runs[group[i].run.index()].queue,
                 tables_.sequence_of(group[i].run.value, group[i].step)};
    }
  }
  FenceState state(Fence) override { return FenceState::kDone; }
  void wait(Fence) override {}
  std::span<std::byte> host_view(InstanceId, std::int32_t, std::int32_t) override { return {}; }
  std::span<const Stamp> stamps() override { return {}; }

 private:
  const ProgramTables& tables_;
  DeviceSpec spec_;
};

}  // namespace

TEST_CASE("after the first step no act allocates, host actors and launch groups included") {
  PipelineSpec spec;
  spec.stages = 3;
  spec.micro_batches = 5;
  spec.host_actors = true;
  spec.launch_groups = true;
  const PhysicalGraph graph = pipeline_graph(spec);
  for (const Rank rank : graph.ranks.keys()) {
    const ProgramTables tables(graph, graph.ranks[rank].program);
    NullDevice device(tables);
    IdleHostActors host;
    RankRuntime runtime(graph, rank, device, host, {.window = 2, .run_ahead_steps = 1});
    runtime.run(1);
    const std::int64_t before = allocations;
    runtime.run(10);
    CHECK(allocations == before);
  }
  CHECK(allocations > 0);
}

namespace {

PhysicalGraph graph_with_host() {
  PipelineSpec spec;
  spec.stages = 1;
  spec.micro_batches = 4;
  spec.host_actors = true;
  return pipeline_graph(spec);
}

std::int64_t threads_of_process() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "Threads:") break;
  std::int64_t threads = 0;
  status >> threads;
  return threads;
}

}  // namespace

TEST_CASE(
    "with a host thread the messages of a launch thread take two routes, without allocations") {
  const PhysicalGraph graph = graph_with_host();
  const ProgramTables tables(graph, ProgramId(0));
  NullDevice device(tables, true);
  IdleHostActors host;
  RankRuntime runtime(graph, Rank(0), device, host);
  runtime.run(2);
  runtime.drain();
  const RouteCounts after_two = runtime.routes();
  const std::int64_t before = allocations;
  runtime.run(10);
  runtime.drain();
  CHECK(allocations == before);
  // In each step four Acks to the loader and four Reqs to the reader of losses.
  CHECK(after_two.of(Route::kOtherThread) == 2 * 8);
  CHECK(runtime.routes().of(Route::kOtherThread) == 12 * 8);
  CHECK(runtime.routes().of(Route::kOtherProcess) == 0);
  CHECK(after_two.of(Route::kSameThread) > 0);
  CHECK(runtime.routes().of(Route::kSameThread) == 6 * after_two.of(Route::kSameThread));
}

TEST_CASE("posting and taking messages allocates nothing") {
  const std::array<ActorThread, 2> threads{ActorThread{0, 0, false}, ActorThread{0, 0, true}};
  ActorBus bus(threads, 8);
  ActorBus::End &launch = bus.end(threads[0]), &there = bus.end(threads[1]);
  const ActorId own(0, 0, QueueRole::kCompute, 1), other(0, 0, QueueRole::kHost, 2);
  const std::int64_t before = allocations;
  std::size_t taken = 0;
  for (int turn = 0; turn < 100; ++turn) {
    for (int i = 0; i < 8; ++i) {
      launch.post({own, own, {}});
      launch.post({own, other, {}});
    }
    taken += launch.take([](const ActorMessage&) {});
    taken += there.take([](const ActorMessage&) {});
  }
  CHECK(allocations == before);
  CHECK(taken == 1600);
}

TEST_CASE("a thousand starts and stops leak neither memory nor threads") {
  const PhysicalGraph graph = graph_with_host();
  const ProgramTables tables(graph, ProgramId(0));
  const auto start_and_stop = [&](int steps) {
    NullDevice device(tables, true);
    IdleHostActors host;
    RankRuntime runtime(graph, Rank(0), device, host);
    runtime.run(steps);
    if (steps > 1) runtime.drain();  // else it ends in the middle of what was announced
  };
  for (int i = 0; i < 5; ++i) start_and_stop(2);
  const std::int64_t threads = threads_of_process();
  const std::int64_t held = allocations - releases;
  for (int i = 0; i < 1'000; ++i) start_and_stop(i % 3);
  CHECK(allocations - releases == held);
  CHECK(threads_of_process() == threads);
}

}  // namespace sextant::allocation_test

#endif
