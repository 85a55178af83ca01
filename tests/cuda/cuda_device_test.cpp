// The actor protocol on streams and events: one graph of two queues, rings that do not divide the
// micro-batches, accumulation and host actors, on the GPU and on the CPU's queues.
#include "actor/bytes/byte_order.h"
#include "actor/calls/host_copies.h"
#include "actor/protocol/dry_run.h"
#include "actor/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "core/base/error.h"
#include "core/graphs/physical_graph.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace sextant::cuda_device_test {
namespace {

constexpr std::int64_t kElements = 1000;

struct GraphSpec {
  std::int32_t micro_batches = 5;
  std::int32_t registers = 2;
  bool both_read_loader = false;  // the second scale reads what was loaded, not the first's result
};

// One register of [1000] f32 with one writer, in a frame of its own.
Register vector_register(const std::string& name) {
  Register reg;
  reg.name = name;
  reg.layout = LayoutId(0);
  reg.local = {Shape{kElements}, DType::kF32};
  return reg;
}

Actor actor(const std::string& kind, QueueRole queue, int num_inputs) {
  Actor made;
  made.kind = kind;
  made.name = kind;
  made.queue = queue;
  for (int i = 0; i < num_inputs; ++i) made.in.push_back({Operand::Source::kPort, i});
  if (kind == "scale") made.attributes.set("factor", 3.0);
  if (kind == "metrics") made.attributes.set("names", std::string("sum"));
  return made;
}

// A block of one actor whose inputs are ports.
Block block_of(const Actor& made, const std::string& name, std::int32_t acts_per_content) {
  Block block;
  block.name = name;
  block.phase = made.queue == QueueRole::kHost ? Phase::kData : Phase::kForward;
  block.actors = {made};
  block.actors[0].phase = block.phase;
  for (std::size_t i = 0; i < made.in.size(); ++i)
    block.ports.push_back({"in" + std::to_string(i), {Shape{kElements}, DType::kF32}, {0}});
  if (made.kind == "metrics") return block;
  block.actors[0].out = {0};
  block.registers = {vector_register(name)};
  Frame frame;
  frame.size = Bytes(4096);
  frame.acts_per_content = acts_per_content;
  block.frames = {frame};
  return block;
}

// loader -> scale on the compute queue -> scale on another queue -> both are added, summed over the
// step -> metrics: 3 x + 9 x = 12 x per micro-batch; 6 x where both read the loader.
PhysicalGraph accumulating_graph(const GraphSpec& spec) {
  PhysicalGraph graph;
  graph.placements = {{{{"dp", 1}}, {Rank(0)}}};
  graph.layouts = {{{Shape{kElements}, DType::kF32}, {Sbp::broadcast()}, PlacementId(0)}};
  graph.blocks = {
      block_of(actor("input", QueueRole::kHost, 0), "loader", 1),
      block_of(actor("scale", QueueRole::kCompute, 1), "first", 1),
      block_of(actor("scale", QueueRole::kCopyOut, 1), "second", 1),
      block_of(actor("add", QueueRole::kCompute, 2), "sum", spec.micro_batches),
      block_of(actor("metrics", QueueRole::kHost, 1), "metrics", 1),
  };
  RankProgram program;
  program.name = "stage0";
  program.placement = PlacementId(0);
  Bytes offset;
  for (const BlockId b : graph.blocks.keys()) {
    Instance instance;
    instance.block = b;
    instance.name = graph.blocks[b].name;
    instance.acts_per_step = instance.name == "metrics" ? 1 : spec.micro_batches;
    if (!graph.blocks[b].frames.empty()) {
      const bool is_sum = instance.name == "sum";
      FrameBinding binding;
      binding.num_registers = is_sum ? 1 : spec.registers;
      // What the loader fills has a slot per content: no guard can name a host actor.
      const std::int32_t num_slots =
          instance.name == "loader" ? spec.micro_batches : binding.num_registers;
      for (std::int32_t c = 0; c < (is_sum ? 1 : spec.micro_batches); ++c)
        binding.slot_of_content.push_back(c % num_slots);
      for (std::int32_t slot = 0; slot < num_slots; ++slot) {
        binding.slot_offsets.push_back(offset);
        offset += Bytes(4096);
      }
      instance.frames = {binding};
    }
    program.instances.push_back(instance);
  }
  const auto link = [&](int from, int to, int port) {
    program.links.push_back({InstanceId(from), 0, InstanceId(to), port, 1});
  };
  link(0, 1, 0);
  link(spec.both_read_loader ? 0 : 1, 2, 0);
  link(1, 3, 0);
  link(2, 3, 1);
  link(3, 4, 0);
  // The first producer runs one micro-batch ahead where the registers allow it.
  const std::int32_t ahead = spec.registers > 1 ? 1 : 0;
  for (std::int32_t act = 0; act < spec.micro_batches + ahead; ++act) {
    if (act < spec.micro_batches) program.order.push_back({InstanceId(1), 0, 1, act, {}});
    if (act < ahead) continue;
    program.order.push_back({InstanceId(2), 0, 1, act - ahead, {}});
    program.order.push_back({InstanceId(3), 0, 1, act - ahead, {}});
  }
  program.arena.size = offset;
  program.arena.lower_bound = offset;
  program.arena.peak_by_class.assign(kNumMemoryClasses, Bytes(0));
  graph.programs = {program};
  graph.ranks = {{ProgramId(0), 0, {}}};
  graph.programs[ProgramId(0)].guards = missing_guards(graph, ProgramId(0));
  return graph;
}

float loaded(std::int64_t step, std::int64_t act, std::int64_t i) {
  return static_cast<float>((step * 31 + act * 7 + i) % 11);
}

class Host final : public HostActors {
 public:
  void act(const HostAct& act) override {
    if (act.actor->kind == "input") {
      std::vector<float> values;
      for (std::int64_t i = 0; i < kElements; ++i) values.push_back(loaded(act.step, act.act, i));
      std::memcpy(act.outputs[0].data(), values.data(), act.outputs[0].size());
      return;
    }
    std::vector<float> values(static_cast<std::size_t>(kElements));
    std::memcpy(values.data(), act.inputs[0].data(), act.inputs[0].size());
    const std::lock_guard lock(mutex_);
    sums_[act.step] = values;
  }
  std::map<std::int64_t, std::vector<float>> sums() const { return sums_; }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, std::vector<float>> sums_;
};

std::map<std::int64_t, std::vector<float>> expected_sums(const GraphSpec& spec,
                                                         std::int64_t steps) {
  std::map<std::int64_t, std::vector<float>> sums;
  const float factor = spec.both_read_loader ? 6 : 12;
  for (std::int64_t step = 0; step < steps; ++step)
    for (std::int64_t i = 0; i < kElements; ++i) {
      float sum = 0;
      for (std::int32_t act = 0; act < spec.micro_batches; ++act)
        sum += factor * loaded(step, act, i);
      sums[step].push_back(sum);
    }
  return sums;
}

const std::vector<GraphSpec> kSpecs = {{1, 1}, {5, 2}, {7, 3}, {4, 1}, {40, 2}, {7, 3, true}};

}  // namespace

TEST_CASE("the graph of this test is valid, runs dry and orders its bytes") {
  for (const GraphSpec& spec : kSpecs) {
    const PhysicalGraph graph = accumulating_graph(spec);
    CHECK(validate(graph) == std::vector<std::string>{});
    CHECK_NOTHROW(dry_run(graph));
    CHECK(check_byte_order(graph, ProgramId(0)) == std::vector<std::string>{});
  }
}

TEST_CASE("what two queues read is copied once, and the other waits for the copy") {
  const PhysicalGraph graph = accumulating_graph({.both_read_loader = true});
  const HostCopies copies = host_copies(graph, Rank(0));
  CHECK(copies.buffers.size() == 6);  // five micro-batches and the sum
  std::size_t copied_in = 0, copied_out = 0, waits = 0;
  for (std::size_t r = 0; r < copies.runs.size(); ++r) {
    const Run& run = graph.programs[ProgramId(0)].order[RunId(r)];
    const HostCopiesOfRun& of_run = copies.runs[r];
    copied_in += of_run.in.size();
    copied_out += of_run.out.size();
    for (const RunId earlier : of_run.after) {
      ++waits;
      const Run& copier = graph.programs[ProgramId(0)].order[earlier];
      CHECK(run.instance == InstanceId(2));
      CHECK(copier.instance == InstanceId(1));
      CHECK(copier.act == run.act);
    }
  }
  CHECK(copied_in == 5);
  CHECK(copied_out == 1);
  CHECK(waits == 5);
}

TEST_CASE("CPU queues accumulate what the loader gave, whatever their timing") {
  for (const GraphSpec& spec : kSpecs) {
    const PhysicalGraph graph = accumulating_graph(spec);
    for (const CpuQueueKind queues :
         {CpuQueueKind::kInline, CpuQueueKind::kAsynchronous, CpuQueueKind::kStress}) {
      CpuOptions options;
      options.queues = queues;
      CpuWorld world(graph, options);
      Host host;
      run_all(graph, world.devices(), host, 4);
      CHECK(host.sums() == expected_sums(spec, 4));
    }
  }
}

TEST_CASE("a GPU gives the numbers of the CPU and issues in the same order" *
          doctest::skip(!has_gpu())) {
  for (const GraphSpec& spec : kSpecs) {
    CAPTURE(spec.micro_batches);
    const PhysicalGraph graph = accumulating_graph(spec);
    CpuWorld world(graph, CpuOptions{});
    Host cpu_host;
    const std::vector<IssueHash> cpu = run_all(graph, world.devices(), cpu_host, 50);
    for (const bool graphs : {false, true}) {
      for (const bool profile : {false, true}) {
        CudaOptions options;
        options.graphs = graphs;
        options.host_visible = graphs;
        options.profile = profile;
        const std::unique_ptr<Device> device = make_cuda_device(options);
        device->prepare(graph, Rank(0));
        Device* const devices[] = {device.get()};
        Host host;
        const std::vector<IssueHash> issued = run_all(graph, devices, host, 50);
        CHECK(host.sums() == expected_sums(spec, 50));
        CHECK(issued == cpu);
        if (profile)
          CHECK(device->stamps().size() == graph.programs[ProgramId(0)].order.size() * 50);
        else
          CHECK(device->stamps().empty());
      }
    }
  }
}

TEST_CASE("fences become done, in order on each queue" * doctest::skip(!has_gpu())) {
  const PhysicalGraph graph = accumulating_graph({5, 2});
  const std::unique_ptr<Device> device = make_cuda_device(CudaOptions{});
  device->prepare(graph, Rank(0));
  Fence fence;
  const Launch launch{RunId(0), 0, {}};
  for (std::int64_t sequence = 0; sequence < 3000; ++sequence) {
    device->launch({&launch, 1}, {&fence, 1});
    CHECK(fence == Fence{QueueRole::kCompute, sequence});
  }
  device->wait(fence);
  CHECK(device->state(fence) == FenceState::kDone);
  CHECK(device->state({QueueRole::kCompute, 0}) == FenceState::kDone);
}

TEST_CASE("an operator without kernel is refused by name when a program is prepared" *
          doctest::skip(!has_gpu())) {
  PhysicalGraph graph = accumulating_graph({5, 2});
  graph.blocks[BlockId(1)].actors[0].kind = "softmax_of_everything";
  graph.blocks[BlockId(1)].actors[0].name = "layer1.odd";
  CHECK_THROWS_WITH_AS(
      make_cuda_device(CudaOptions{})->prepare(graph, Rank(0)),
      "CUDA has no kernel for operator kind 'softmax_of_everything' ('layer1.odd') on 1000 f32 -> "
      "1000 f32",
      Error);
}

}  // namespace sextant::cuda_device_test
