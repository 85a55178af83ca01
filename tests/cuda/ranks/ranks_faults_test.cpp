// What goes wrong on one of two GPUs: every rank ends in time, the reason names who is missing, and
// the cards are of use afterwards. And what ranks take of a card beside what was counted.
#include "actor/runtime.h"
#include "backends/cuda/machine/bench_fill.h"
#include "core/base/error.h"
#include "io/training_host.h"
#include "tests/conformance/training/training_runs.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/ranks/rank_cards.h"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sextant::ranks_faults_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTimeout_ms = 3000;
constexpr double kMost_s = 1e-3 * kTimeout_ms + 5;
constexpr const char* kPlanted = "SEXTANT_PLANTED_KERNEL_FAULT";

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TrainingCase small_case() {
  TrainingCase training;
  training.model = tiny_gpt();
  training.model.layers = 4;
  training.global_batch = 8;
  return training;
}

// A host whose rank 1 does something else in one step.
class FaultyHost final : public HostActors {
 public:
  FaultyHost(std::int64_t step, std::function<void()> fault)
      : step_(step), fault_(std::move(fault)) {}
  void act(const HostAct& act) override {
    if (act.rank == Rank(1) && act.step == step_ && !is_done_.exchange(true)) fault_();
    good_.act(act);
  }

 private:
  const std::int64_t step_;
  const std::function<void()> fault_;
  std::atomic<bool> is_done_{false};
  const TokenData tokens_{std::vector<std::int32_t>(400, 3)};
  TrainingHost good_{tokens_, 5};
};

struct Outcome {
  std::optional<ErrorCode> code;
  std::string text;       // of the error, or what an owner is told that must end the process
  double seconds = 0;     // from the fault until somebody heard of it
  double teardown_s = 0;  // of the world
};

// What a rank does where it fails: it gets what says that somebody has heard of it.
using Fault = std::function<void(const std::atomic<bool>&)>;

void stop_until_heard(const std::atomic<bool>& is_heard) {
  const auto begin = Clock::now();
  while (!is_heard && seconds_since(begin) < 30)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// Two ranks, one fault.
class FaultRun {
 public:
  FaultRun(const char* strategy, bool graphs, const RankCards& cards = kTwoCardsNccl)
      : graph_(compile_case(small_case(), strategy)), options_(cards.options(2)) {
    options_.each.least_patience_ms = kTimeout_ms;
    options_.timeout_ms = kTimeout_ms;
    options_.graphs_of_several = graphs;
    options_.give_up = [this](const std::string& text) {
      hear(text);
      if (ends_process_) _exit(6);
    };
  }

  // As `sextant run` does, where threads do not come back.
  void end_process_when_given_up() { ends_process_ = true; }

  // Of rank 1 in a step.
  Outcome run(std::int64_t step, const Fault& fault) {
    FaultyHost host(step, [&] { begin(fault); });
    return run_with(host);
  }

  // Of rank 1 where it comes to a stage.
  Outcome run(CommonWait stage, const Fault& fault) {
    options_.each.at_common_wait = [this, stage, fault](Rank rank, CommonWait now) {
      if (rank == Rank(1) && now == stage && !is_begun_.exchange(true)) begin(fault);
    };
    FaultyHost host(-1, [] {});
    return run_with(host);
  }

 private:
  void begin(const Fault& fault) {
    begin_ = Clock::now();
    fault(is_heard_);
  }

  Outcome run_with(HostActors& host) {
    Outcome outcome;
    std::unique_ptr<CudaWorld> world;
    try {
      world = std::make_unique<CudaWorld>(graph_, options_);
      run_all(graph_, world->devices(), host, 12);
    } catch (const Error& error) {
      hear(error.what());
      outcome.code = error.code();
    }
    const auto end = Clock::now();
    world.reset();
    outcome.teardown_s = seconds_since(end);
    const std::lock_guard lock(mutex_);
    outcome.text = text_;
    outcome.seconds = heard_s_;
    return outcome;
  }

  void hear(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (is_heard_) return;
    text_ = text;
    heard_s_ = seconds_since(begin_);
    is_heard_ = true;
  }

  const PhysicalGraph graph_;
  CudaWorldOptions options_;
  std::mutex mutex_;
  Clock::time_point begin_ = Clock::now();
  std::string text_;
  double heard_s_ = 0;
  std::atomic<bool> is_heard_{false}, is_begun_{false};
  bool ends_process_ = false;
};

void say(const std::string& what, std::int64_t step, bool graphs, const Outcome& outcome) {
  std::printf("FAULT %-14s step %lld %-6s code %d after %.1f s, teardown %.1f s: %.160s\n",
              what.c_str(), static_cast<long long>(step), graphs ? "graphs" : "single",
              outcome.code ? static_cast<int>(*outcome.code) : -1, outcome.seconds,
              outcome.teardown_s, outcome.text.c_str());
}

void check_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const std::string part : parts)
    CHECK_MESSAGE(text.find(part) != std::string::npos, text << " lacks " << part);
}

std::int64_t free_memory(int card) {
  std::size_t free = 0, total = 0;
  REQUIRE(cudaSetDevice(card) == cudaSuccess);
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  return static_cast<std::int64_t>(free);
}

}  // namespace

namespace {

struct Stop {
  const char* strategy;
  bool graphs;
  std::int64_t step;
};
constexpr const char* kData = "dp=2 micro_batch=2";
constexpr const char* kPipeline = "pp=2 micro_batch=2 schedule=1f1b";
// At the first step, among single launches, when a step is captured, and when steps are replayed.
constexpr Stop kStops[] = {{kData, false, 0}, {kData, false, 6},     {kData, true, 2},
                           {kData, true, 6},  {kPipeline, false, 2}, {kPipeline, true, 6}};

}  // namespace

TEST_CASE("a rank that stops on one of two GPUs is named to whoever waits for it, in time" *
          doctest::skip(!has_gpus(2))) {
  for (const Stop& stop : kStops) {
    const std::string strategy = stop.strategy;
    CAPTURE(strategy);
    CAPTURE(stop.graphs);
    CAPTURE(stop.step);
    const Outcome outcome = FaultRun(stop.strategy, stop.graphs).run(stop.step, stop_until_heard);
    say("stop " + strategy.substr(0, 4), stop.step, stop.graphs, outcome);
    CHECK(outcome.code == ErrorCode::kRankFailed);
    CHECK(outcome.seconds < kMost_s);
    CHECK(outcome.teardown_s < 5);
    check_contains(outcome.text,
                   {"rank 0", "nothing ended for 3 s", "communication", "ranks 1 did not"});
  }
}

TEST_CASE("a rank that fails on one of two GPUs ends the other at once, with its error" *
          doctest::skip(!has_gpus(2))) {
  for (const bool graphs : {false, true})
    for (const std::int64_t step : {0, 2, 6}) {
      CAPTURE(graphs);
      CAPTURE(step);
      const Outcome outcome =
          FaultRun("dp=2 micro_batch=2", graphs).run(step, [](const std::atomic<bool>&) {
            throw Error(ErrorCode::kBadInput, "the file of rank 1 is gone");
          });
      say("throw", step, graphs, outcome);
      CHECK(outcome.code == ErrorCode::kBadInput);
      CHECK(outcome.seconds < 5);
      CHECK(outcome.teardown_s < 5);
      check_contains(outcome.text, {"the file of rank 1 is gone"});
    }
}

namespace {

struct StageFault {
  const char* name;  // as doctest's and the table's
  CommonWait stage;
  const char* meeting;  // that the other rank waits in
  bool graphs = false;
};
constexpr StageFault kStages[] = {
    {"prepare", CommonWait::kPrepare, "with memory"},
    {"connect", CommonWait::kConnect, "connecting"},
    {"capture", CommonWait::kCapture, "whose steps can be graphs", true},
    {"close", CommonWait::kClose, "closing"}};

void say(const std::string& what, const RankCards& cards, const StageFault& at,
         const Outcome& outcome) {
  std::printf("FAULT %-5s %-8s %-18s code %d after %.1f s, teardown %.1f s: %.200s\n", what.c_str(),
              at.name, cards.text().c_str(), outcome.code ? static_cast<int>(*outcome.code) : -1,
              outcome.seconds, outcome.teardown_s, outcome.text.c_str());
}

void check_usable(const RankCards& cards) {
  const Outcome outcome = FaultRun(kData, true, cards).run(-1, [](const std::atomic<bool>&) {});
  CHECK_FALSE(outcome.code.has_value());
}

// Graphs of steps are NCCL's alone.
bool is_stage_of(const RankCards& cards, const StageFault& at) {
  return !at.graphs || cards.collectives == CudaCollectives::kNccl;
}

void check_stops(const RankCards& cards) {
  for (const StageFault& at : kStages) {
    if (!is_stage_of(cards, at)) continue;
    CAPTURE(at.name);
    const Outcome outcome = FaultRun(kData, at.graphs, cards).run(at.stage, stop_until_heard);
    say("stop", cards, at, outcome);
    // A run that is over has nobody to throw at: its owner is told.
    if (at.stage != CommonWait::kClose) CHECK(outcome.code == ErrorCode::kRankFailed);
    CHECK(outcome.seconds < kMost_s);
    check_contains(outcome.text, {"rank 0: waited in agreement", at.meeting, "ranks 0 arrived",
                                  "ranks 1 did not", "for 3 s"});
  }
  check_usable(cards);
}

void check_failures(const RankCards& cards) {
  const bool is_nccl = cards.collectives == CudaCollectives::kNccl;
  for (const StageFault& at : kStages) {
    if (!is_stage_of(cards, at)) continue;
    // Whoever frees communicators may wait for the one that does not: in a process of its own.
    if (is_nccl && at.stage == CommonWait::kClose) continue;
    CAPTURE(at.name);
    const auto begin = Clock::now();
    const Outcome outcome =
        FaultRun(kData, at.graphs, cards).run(at.stage, [](const std::atomic<bool>&) {
          throw Error(ErrorCode::kDevice, "the card of rank 1 is gone");
        });
    say("fail", cards, at, outcome);
    CHECK(outcome.teardown_s < 5);
    CHECK(seconds_since(begin) < 30);
    if (at.stage == CommonWait::kClose) {
      CHECK_FALSE(outcome.code.has_value());  // all steps were done
      continue;
    }
    CHECK(outcome.code == ErrorCode::kDevice);
    CHECK(outcome.seconds < 5);
    check_contains(outcome.text, {"the card of rank 1 is gone"});
  }
  check_usable(cards);
}

}  // namespace

TEST_CASE("a rank that stops while ranks of two GPUs begin, capture or end is named, in time" *
          doctest::skip(!has_gpus(2))) {
  check_stops(kTwoCardsNccl);
}

TEST_CASE("a rank that fails while ranks of two GPUs begin, capture or end ends the other at once" *
          doctest::skip(!has_gpus(2))) {
  check_failures(kTwoCardsNccl);
}

TEST_CASE("a rank that stops or fails while ranks of one GPU begin or end is named, in time" *
          doctest::skip(!has_gpus(1))) {
  check_stops(kOneCard);
  check_failures(kOneCard);
}

TEST_CASE("a slow rank on one of two GPUs is waited for" * doctest::skip(!has_gpus(2))) {
  const Outcome outcome =
      FaultRun("dp=2 micro_batch=2", false).run(3, [](const std::atomic<bool>&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(kTimeout_ms / 2));
      });
  say("slow", 3, false, outcome);
  CHECK_FALSE(outcome.code.has_value());
}

TEST_CASE("memory that one of two GPUs lacks ends the start of both ranks, and leaves none taken" *
          doctest::skip(!has_gpus(2))) {
  const PhysicalGraph graph = compile_case(small_case(), "dp=2 micro_batch=2");
  { const CudaWorld warm(graph, kTwoCardsNccl.options(2)); }
  const std::int64_t before = free_memory(0);
  void* hog = nullptr;
  const std::int64_t left = std::int64_t{100} << 20;
  const std::int64_t free = free_memory(1);
  REQUIRE(cudaMalloc(&hog, static_cast<std::size_t>(free - left)) == cudaSuccess);
  const auto begin = Clock::now();
  try {
    const CudaWorld world(graph, kTwoCardsNccl.options(2));
    FAIL("no error");
  } catch (const Error& error) {
    std::printf("FAULT memory of card 1, prepare: code %d after %.1f s: %.160s\n",
                static_cast<int>(error.code()), seconds_since(begin), error.what());
    CHECK(error.code() == ErrorCode::kInfeasible);
    check_contains(error.what(), {"rank 1", "too much", "communicators"});
  }
  CHECK(seconds_since(begin) < 5);
  CHECK(cudaFree(hog) == cudaSuccess);
  CHECK(free_memory(0) > before - (std::int64_t{4} << 20));
}

namespace {

// An address that no card has. The card is lost to the process from then on.
void read_nowhere() {
  cudaStream_t stream = nullptr;
  cudaSetDevice(1);
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  enqueue_read(reinterpret_cast<const void*>(std::uintptr_t{64}), 1 << 20, nullptr, stream);
}

}  // namespace

// In a process of its own, which it ends.
TEST_CASE("planted: a kernel faults on one of two GPUs" *
          doctest::skip(std::getenv(kPlanted) == nullptr)) {
  FaultRun run("dp=2 micro_batch=2", false);
  std::thread watchdog([] {
    std::this_thread::sleep_for(std::chrono::seconds(20));
    std::printf("FAULT kernel: no end\n");
    std::fflush(stdout);
    _exit(1);
  });
  watchdog.detach();
  Outcome outcome;
  outcome = run.run(3, [](const std::atomic<bool>&) { read_nowhere(); });
  say("kernel", 3, false, outcome);
  std::fflush(stdout);
  _exit(outcome.code && outcome.seconds < kMost_s ? 0 : 1);
}

TEST_CASE("a kernel fault on one of two GPUs ends both ranks in time" *
          doctest::skip(!has_gpus(2) || std::getenv(kPlanted) != nullptr)) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      std::string(kPlanted) + "=1 '" + program + "' --test-case='planted: a kernel*'";
  CHECK(std::system(command.c_str()) == 0);
}

constexpr const char* kFailsClosing = "SEXTANT_PLANTED_CLOSE";

TEST_CASE("planted: a rank of two GPUs fails while it closes" *
          doctest::skip(std::getenv(kFailsClosing) == nullptr)) {
  FaultRun run(kData, false);
  run.end_process_when_given_up();
  const Outcome outcome = run.run(CommonWait::kClose, [](const std::atomic<bool>&) {
    throw Error(ErrorCode::kDevice, "the card of rank 1 is gone");
  });
  CHECK_FALSE(outcome.code.has_value());  // all steps were done
  CHECK(outcome.teardown_s < kMost_s);
}

TEST_CASE("a rank that fails while ranks of two GPUs close ends their process in time" *
          doctest::skip(!has_gpus(2) || std::getenv(kFailsClosing) != nullptr)) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "timeout 60 env " + std::string(kFailsClosing) + "=1 '" + program +
                              "' --test-case='planted: a rank of two*'";
  const auto begin = Clock::now();
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  std::printf("FAULT fail  close    in a process: code %d after %.1f s with its start\n",
              WEXITSTATUS(status), seconds_since(begin));
  CHECK((WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 6));
}

constexpr const char* kKilledAt = "SEXTANT_PLANTED_KILL";

// In a process of its own, which it kills where rank 1 comes to the stage.
TEST_CASE("planted: a process of two GPUs is killed" *
          doctest::skip(std::getenv(kKilledAt) == nullptr)) {
  const std::string stage = std::getenv(kKilledAt);
  for (const StageFault& at : kStages)
    if (stage == at.name)
      FaultRun(kData, at.graphs).run(at.stage, [](const std::atomic<bool>&) {
        std::raise(SIGKILL);
      });
  if (stage == "replay")
    FaultRun(kData, true).run(6, [](const std::atomic<bool>&) { std::raise(SIGKILL); });
}

TEST_CASE("a process that is killed at any stage leaves no memory of two GPUs taken" *
          doctest::skip(!has_gpus(2) || std::getenv(kKilledAt) != nullptr)) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::int64_t before[] = {free_memory(0), free_memory(1)};
  for (const std::string stage : {"prepare", "connect", "capture", "replay", "close"}) {
    CAPTURE(stage);
    const std::string command = std::string(kKilledAt) + "=" + stage + " '" + program +
                                "' --test-case='planted: a process*' > /dev/null 2>&1";
    // Some shells become the command, others tell of its end.
    const int status = std::system(command.c_str());
    CHECK((WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128) == SIGKILL);
    // The driver takes back what was theirs a moment behind their end.
    const auto begin = Clock::now();
    const auto is_taken = [&](int card) {
      return free_memory(card) < before[card] - (std::int64_t{16} << 20);
    };
    while ((is_taken(0) || is_taken(1)) && seconds_since(begin) < 5)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::printf("FAULT kill  %-8s memory back after %.1f s\n", stage.c_str(), seconds_since(begin));
    CHECK_FALSE(is_taken(0));
    CHECK_FALSE(is_taken(1));
  }
  check_usable(kTwoCardsNccl);
}

// Communicators, staging and arenas, as counted before anything is allocated, against the driver.
TEST_CASE("ranks of two GPUs take the memory that was counted for them" *
          doctest::skip(!has_gpus(2))) {
  TrainingCase training = small_case();
  training.model.hidden = 1024;
  training.model.heads = training.model.kv_heads = 16;
  training.model.head_size = 64;
  training.model.ffn = 4096;
  training.model.vocab = 50304;
  training.dtype = DType::kBF16;
  for (const std::string strategy :
       {"dp=2 micro_batch=2", "dp=2 micro_batch=2 zero=3", "tp=2 micro_batch=4 sp=on",
        "pp=2 micro_batch=2 schedule=1f1b"}) {
    CAPTURE(strategy);
    const PhysicalGraph graph = compile_case(training, strategy);
    // Libraries are loaded once, and counted as such.
    { const CudaWorld warm(graph, kTwoCardsNccl.options(2)); }
    for (int card = 0; card < 2; ++card) REQUIRE(cudaSetDevice(card) == cudaSuccess);
    const std::vector<std::int64_t> before = {free_memory(0), free_memory(1)};
    const CudaWorld world(graph, kTwoCardsNccl.options(2));
    for (int card = 0; card < 2; ++card) {
      const std::int64_t taken = before[static_cast<std::size_t>(card)] - free_memory(card);
      const std::int64_t counted = world.counted_memory(card).value;
      std::printf("MEMORY %-36s card %d counted %.1f MiB, taken %.1f MiB\n", strategy.c_str(), card,
                  static_cast<double>(counted) / (1 << 20), static_cast<double>(taken) / (1 << 20));
      CHECK(static_cast<double>(taken) ==
            doctest::Approx(static_cast<double>(counted)).epsilon(0.02));
    }
  }
}

}  // namespace sextant::ranks_faults_test
