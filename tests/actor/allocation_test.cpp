// No heap allocation per act after the start: the whole program's operator new is counted. The
// sanitizers bring an operator new of their own, so there is nothing to count under them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include "actor/runtime.h"
#include "tests/support/pipeline_graph.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> allocations{0};

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
// Not inlined: beside other sources the compiler would see `free` of what `new` returned.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace sextant::allocation_test {
using namespace testing;

namespace {

// Accepts everything, does nothing.
class NullDevice final : public Device {
 public:
  explicit NullDevice(const ProgramTables& tables) : tables_(tables) {}
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
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    const ProgramTables tables(graph, graph.ranks[rank].program);
    NullDevice device(tables);
    IdleHostActors host;
    RankRuntime runtime(graph, Rank(rank), device, host, {.window = 2, .run_ahead_steps = 1});
    runtime.run(1);
    const std::int64_t before = allocations;
    runtime.run(10);
    CHECK(allocations == before);
  }
  CHECK(allocations > 0);
}

}  // namespace sextant::allocation_test

#endif
