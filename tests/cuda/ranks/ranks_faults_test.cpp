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
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
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

// Two ranks by NCCL, one fault.
class FaultRun {
 public:
  FaultRun(const char* strategy, bool graphs)
      : graph_(compile_case(small_case(), strategy)), options_(kTwoCardsNccl.options(2)) {
    options_.timeout_ms = kTimeout_ms;
    options_.graphs_of_several = graphs;
    options_.give_up = [this](const std::string& text) { hear(text); };
  }

  // `fault` gets what says that somebody has heard of it.
  Outcome run(std::int64_t step, const std::function<void(const std::atomic<bool>&)>& fault) {
    Outcome outcome;
    auto world = std::make_unique<CudaWorld>(graph_, options_);
    FaultyHost host(step, [&] {
      begin_ = Clock::now();
      fault(is_heard_);
    });
    try {
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

 private:
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
  std::atomic<bool> is_heard_{false};
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
    const Outcome outcome =
        FaultRun(stop.strategy, stop.graphs).run(stop.step, [](const std::atomic<bool>& is_heard) {
          const auto begin = Clock::now();
          while (!is_heard && seconds_since(begin) < 30)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        });
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
