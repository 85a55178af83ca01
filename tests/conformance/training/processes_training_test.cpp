// A plan over several processes, here threads that have nothing in common but a host group, is the
// plan in one: the same losses to the last bit, the same order of launches, the same traffic.
#include "actor/hosts/rank_threads.h"
#include "actor/runtime.h"
#include "core/base/check.h"
#include "io/training_host.h"
#include "tests/conformance/training/training_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace sextant::processes_training_test {
namespace {

struct Outcome {
  std::vector<double> losses;
  std::vector<IssueHash> hashes;
  std::map<std::pair<Rank, Rank>, std::int64_t> moved;
  // By rank, bytes of all registers that live from step to step.
  std::map<std::int32_t, std::vector<std::vector<std::byte>>> states;
};

CpuOptions options() {
  CpuOptions options;
  options.rendezvous_timeout_ms = 20'000;
  return options;
}

TrainingCase small_case() {
  TrainingCase training;
  training.model = tiny_gpt();
  training.dtype = DType::kF32;
  training.sequence = 4;  // which cp=2 divides
  training.dropout = 0.1;
  return training;
}

void add_outcome(const PhysicalGraph& graph, CpuWorld& world, std::int64_t steps, std::mutex& mutex,
                 Outcome& outcome) {
  TrainingHost host(7);
  const std::vector<Device*> devices = world.devices();
  const std::vector<IssueHash> hashes = run_all(graph, devices, host, steps);
  const std::lock_guard lock(mutex);
  outcome.hashes.resize(devices.size());
  for (const StepMetrics& metrics : host.steps()) outcome.losses.push_back(metrics.loss());
  for (const PairBytes& pair : world.moved_bytes())
    outcome.moved[{pair.source, pair.destination}] += pair.bytes.value;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    if (devices[rank] == nullptr) continue;
    outcome.hashes[rank] = hashes[rank];
    const RankProgram& program = graph.program_of(Rank(rank));
    for (const InstanceId i : program.instances.keys()) {
      const Block& block = graph.block_of(program.instances[i]);
      for (std::size_t r = 0; r < block.registers.size(); ++r)
        if (block.frames[static_cast<std::size_t>(block.registers[r].frame)].initially_full)
          outcome.states[static_cast<std::int32_t>(rank)].push_back(
              world.read_register(Rank(rank), i, static_cast<std::int32_t>(r)));
    }
  }
}

Outcome run_in_one(const PhysicalGraph& graph, std::int64_t steps) {
  Outcome outcome;
  std::mutex mutex;
  CpuWorld world(graph, options());
  add_outcome(graph, world, steps, mutex, outcome);
  return outcome;
}

Outcome run_in(std::size_t processes, const PhysicalGraph& graph, std::int64_t steps) {
  Outcome outcome;
  std::mutex mutex;
  ThreadHostGroups groups(processes);
  on_rank_threads(
      processes,
      [&](std::size_t p) {
        HostGroup& group = groups.of(Rank(p));
        CpuWorld world(graph, options(),
                       RankProcesses{group, RankBlocks(graph.ranks.size(), processes)});
        add_outcome(graph, world, steps, mutex, outcome);
        group.agree(std::nullopt);
      },
      [&](const std::string& reason) { groups.abort(reason); });
  return outcome;
}

}  // namespace

TEST_CASE("a plan over processes has the losses, orders, states and traffic of one process") {
  const TrainingCase training = small_case();
  for (const char* strategy :
       {"dp=2 tp=2 micro_batch=2", "dp=4 zero=3", "pp=2 dp=2 zero=1 micro_batch=2",
        "tp=2 pp=2 sp=on schedule=1f1b", "pp=4 schedule=gpipe", "cp=2 dp=2 zero=2"}) {
    CAPTURE(strategy);
    const PhysicalGraph graph = compile_case(training, strategy);
    const Outcome one = run_in_one(graph, 3);
    REQUIRE(one.losses.size() == 3);
    for (const std::size_t processes : {1, 2, 3, 4}) {
      CAPTURE(processes);
      const Outcome several = run_in(processes, graph, 3);
      CHECK(several.losses == one.losses);
      CHECK(several.hashes == one.hashes);
      CHECK(several.moved == one.moved);
      CHECK(several.states == one.states);
    }
  }
}

// A rank that never comes: the others say who, and where he is.
TEST_CASE("a process that stays away is named by those that wait for it") {
  const PhysicalGraph graph = compile_case(small_case(), "dp=2");
  ThreadHostGroups groups(2);
  CpuOptions impatient = options();
  impatient.rendezvous_timeout_ms = 200;
  std::string message;
  std::atomic<bool> is_over = false;
  on_rank_threads(2, [&](std::size_t p) {
    CpuWorld world(graph, impatient, RankProcesses{groups.of(Rank(p)), RankBlocks(2, 2)});
    if (p == 1) {  // waits until the group is aborted, without ever running
      CHECK_THROWS_AS(groups.of(Rank(1)).receive(Rank(0), {HostSubject::kTest, 0}), Error);
      is_over = true;
      return;
    }
    TrainingHost host(7);
    try {
      run_all(graph, world.devices(), host, 3);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kRankFailed);
      message = error.what();
    }
  });
  CHECK(is_over);
  CAPTURE(message);
  CHECK(message.find("rank 0: operator '") == 0);
  CHECK(message.find("timed out after 200 ms in communication 0 of group") != std::string::npos);
  CHECK(message.find("ranks 0 arrived, ranks 1 did not; missing are of thread 1 of 2") !=
        std::string::npos);
}

// What fails in one process ends the others, which say why and where they waited.
TEST_CASE("a rank that fails in one process ends the ranks of the others with its reason") {
  const PhysicalGraph graph = compile_case(small_case(), "pp=2 dp=2 micro_batch=2");
  ThreadHostGroups groups(4);
  std::vector<std::string> messages(4);
  on_rank_threads(4, [&](std::size_t p) {
    CpuWorld world(graph, options(), RankProcesses{groups.of(Rank(p)), RankBlocks(4, 4)});
    struct Host final : HostActors {
      explicit Host(bool f) : fails(f) {}
      void act(const HostAct& act) override {
        if (fails && act.step == 1) throw Error(ErrorCode::kBadInput, "sample 3 is torn");
        training.act(act);
      }
      const bool fails;
      TrainingHost training{7};
    } host(p == 1);
    try {
      run_all(graph, world.devices(), host, 5);
    } catch (const Error& error) {
      messages[p] = error.what();
    }
  });
  for (const std::string& message : messages) {
    CAPTURE(message);
    CHECK(message.find("sample 3 is torn") != std::string::npos);
  }
}

TEST_CASE("processes have their worlds together, or none has") {
  const PhysicalGraph graph = compile_case(small_case(), "dp=2");
  ThreadHostGroups groups(2);
  std::atomic<int> refused = 0;
  on_rank_threads(2, [&](std::size_t p) {
    CpuOptions tight = options();
    if (p == 1) tight.memory = Bytes(1);
    try {
      const CpuWorld world(graph, tight, RankProcesses{groups.of(Rank(p)), RankBlocks(2, 2)});
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInfeasible) ++refused;
    }
  });
  CHECK(refused == 2);
}

}  // namespace sextant::processes_training_test
