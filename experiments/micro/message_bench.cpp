// What a message between actors costs, by route: handled on the thread that posts it, through a
// FIFO to a thread that polls or to one that sleeps, to another process of this host. Beside a
// plain call, and beside oneTBB where the build has it. Between processes only where two were
// started:
//   mpirun --bind-to none -n 2 message_bench --benchmark_filter=other_process
// Threads are pinned where the machine has two processors.
#include "actor/bus/actor_bus.h"
#include "actor/hosts/host_group.h"
#include "backends/hosts/process_group.h"
#include "core/base/error.h"

#include <benchmark/benchmark.h>
#include <pthread.h>

#include <sched.h>

#ifdef SEXTANT_HAS_TBB
#include <oneapi/tbb/concurrent_queue.h>
#include <oneapi/tbb/flow_graph.h>
#endif

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

namespace sextant::message_bench {
namespace {

constexpr ActorThread kLaunch{0, 0, false}, kHost{0, 0, true};
constexpr std::size_t kRoom = 4096;
constexpr int kBurst = 64;

ActorMessage message_to(QueueRole queue, std::int32_t number) {
  return {ActorId(0, 0, QueueRole::kCompute, 0),
          ActorId(0, 0, queue, 1),
          {Message::Kind::kReq, number, {QueueRole::kCompute, number}}};
}

// While it lives the calling thread is on one processor, where there are two.
class Pinned {
 public:
  explicit Pinned(unsigned processor) {
    pthread_getaffinity_np(pthread_self(), sizeof(before_), &before_);
    if (CPU_COUNT(&before_) < 2) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  }
  ~Pinned() { pthread_setaffinity_np(pthread_self(), sizeof(before_), &before_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_{};
};

// Seconds of one message where an iteration is `per_iteration` of them.
void report_messages(benchmark::State& state, double per_iteration) {
  const double messages = static_cast<double>(state.iterations()) * per_iteration;
  state.SetItemsProcessed(static_cast<std::int64_t>(messages));
  state.counters["message"] =
      benchmark::Counter(messages, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// A thread that does `turn` until the benchmark is over.
class Beside {
 public:
  explicit Beside(std::function<void()> turn)
      : thread_([this, turn = std::move(turn)] {
          const Pinned pinned(1);
          while (!is_over_.load(std::memory_order_relaxed)) turn();
        }),
        here_(std::make_unique<Pinned>(0)) {}
  ~Beside() {
    is_over_ = true;
    thread_.join();
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

 private:
  std::atomic<bool> is_over_{false};
  std::thread thread_;
  std::unique_ptr<Pinned> here_;  // once the thread has begun, which would inherit it
};

void plain_call(benchmark::State& state) {
  std::int64_t sum = 0;
  const std::function<void(const ActorMessage&)> handle = [&](const ActorMessage& message) {
    sum += message.message.channel;
  };
  const ActorMessage message = message_to(QueueRole::kCompute, 1);
  for (auto _ : state)
    for (int i = 0; i < kBurst; ++i) handle(message);
  benchmark::DoNotOptimize(sum);
  report_messages(state, kBurst);
}
BENCHMARK(plain_call)->Name("message/plain_call");

void same_thread(benchmark::State& state) {
  const std::array<ActorThread, 2> threads{kLaunch, kHost};
  ActorBus bus(threads, kRoom);
  ActorBus::End& end = bus.end(kLaunch);
  const ActorMessage message = message_to(QueueRole::kCompute, 1);
  std::int64_t sum = 0;
  for (auto _ : state) {
    for (int i = 0; i < kBurst; ++i) end.post(message);
    end.take([&](const ActorMessage& came) { sum += came.message.channel; });
  }
  benchmark::DoNotOptimize(sum);
  report_messages(state, kBurst);
}
BENCHMARK(same_thread)->Name("message/same_thread");

void other_thread(benchmark::State& state) {
  const std::array<ActorThread, 2> threads{kLaunch, kHost};
  ActorBus bus(threads, kRoom);
  ActorBus::End &here = bus.end(kLaunch), &there = bus.end(kHost);
  const ActorMessage question = message_to(QueueRole::kHost, 1);
  const ActorMessage answer = message_to(QueueRole::kCompute, 1);
  const Beside echo([&] { there.take([&](const ActorMessage&) { there.post(answer); }); });
  for (auto _ : state) {
    here.post(question);
    while (here.take([](const ActorMessage&) {}) == 0) {
    }
  }
  report_messages(state, 2);
}
BENCHMARK(other_thread)->Name("message/other_thread")->UseRealTime();

void other_thread_stream(benchmark::State& state) {
  const std::array<ActorThread, 2> threads{kLaunch, kHost};
  ActorBus bus(threads, kRoom);
  ActorBus::End &here = bus.end(kLaunch), &there = bus.end(kHost);
  const ActorMessage message = message_to(QueueRole::kCompute, 1);
  const Beside sender([&] { there.try_post(message); });
  constexpr std::size_t kMessages = 10'000;
  for (auto _ : state)
    for (std::size_t taken = 0; taken < kMessages;)
      taken += here.take([](const ActorMessage& came) { benchmark::DoNotOptimize(&came); });
  report_messages(state, kMessages);
}
BENCHMARK(other_thread_stream)->Name("message/other_thread_stream")->UseRealTime();

// Both sides sleep until they are woken.
void other_thread_woken(benchmark::State& state) {
  ThreadHostGroups groups(2);
  constexpr HostTag kTag{HostSubject::kTest, 0};
  const HostBytes word(8);
  const Beside echo([&] {
    try {
      HostMessage came = groups.of(Rank(1)).receive_any(kTag);
      groups.of(Rank(1)).send(Rank(0), kTag, std::move(came.bytes));
    } catch (const Error&) {  // the benchmark is over
    }
  });
  for (auto _ : state) {
    groups.of(Rank(0)).send(Rank(1), kTag, word);
    groups.of(Rank(0)).receive(Rank(1), kTag);
  }
  report_messages(state, 2);
  groups.abort("over");
}
BENCHMARK(other_thread_woken)->Name("message/other_thread_woken")->UseRealTime();

#ifdef SEXTANT_HAS_TBB
namespace flow = oneapi::tbb::flow;

// A node that runs on the thread that puts the message.
void tbb_same_thread(benchmark::State& state) {
  flow::graph graph;
  std::int64_t sum = 0;
  flow::function_node<ActorMessage, flow::continue_msg, flow::lightweight> node(
      graph, flow::serial, [&](const ActorMessage& came) noexcept {
        sum += came.message.channel;
        return flow::continue_msg();
      });
  const ActorMessage message = message_to(QueueRole::kCompute, 1);
  for (auto _ : state)
    for (int i = 0; i < kBurst; ++i) node.try_put(message);
  graph.wait_for_all();
  benchmark::DoNotOptimize(sum);
  report_messages(state, kBurst);
}
BENCHMARK(tbb_same_thread)->Name("message/tbb_same_thread");

void tbb_other_thread(benchmark::State& state) {
  oneapi::tbb::concurrent_queue<ActorMessage> there, back;
  const ActorMessage message = message_to(QueueRole::kHost, 1);
  const Beside echo([&] {
    if (ActorMessage came; there.try_pop(came)) back.push(came);
  });
  for (auto _ : state) {
    there.push(message);
    for (ActorMessage came; !back.try_pop(came);) {
    }
  }
  report_messages(state, 2);
}
BENCHMARK(tbb_other_thread)->Name("message/tbb_other_thread")->UseRealTime();

void tbb_other_thread_stream(benchmark::State& state) {
  oneapi::tbb::concurrent_bounded_queue<ActorMessage> queue;
  queue.set_capacity(kRoom);
  const ActorMessage message = message_to(QueueRole::kHost, 1);
  const Beside sender([&] { queue.try_push(message); });
  constexpr std::size_t kMessages = 10'000;
  for (auto _ : state)
    for (std::size_t taken = 0; taken < kMessages;) {
      ActorMessage came;
      taken += queue.try_pop(came) ? 1 : 0;
    }
  report_messages(state, kMessages);
}
BENCHMARK(tbb_other_thread_stream)->Name("message/tbb_other_thread_stream")->UseRealTime();
#endif

// The group of two processes; nullptr: this one was started alone.
HostGroup*& processes() {
  static HostGroup* group = nullptr;
  return group;
}
constexpr HostTag kEchoTag{HostSubject::kTest, 1};

// What the other process does: an empty message ends it, one byte is not answered.
void echo_until_empty(HostGroup& group) {
  while (true) {
    HostMessage came = group.receive_any(kEchoTag);
    if (came.bytes.empty()) return;
    if (came.bytes.size() > 1) group.send(came.from, kEchoTag, std::move(came.bytes));
  }
}

bool has_processes(benchmark::State& state) {
  if (processes() != nullptr) return true;
  state.SkipWithError("one process: start two by mpirun -n 2");
  return false;
}

void other_process(benchmark::State& state) {
  if (!has_processes(state)) return;
  const HostBytes word(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    processes()->send(Rank(1), kEchoTag, word);
    processes()->receive(Rank(1), kEchoTag);
  }
  report_messages(state, 2);
}
BENCHMARK(other_process)->Name("message/other_process")->Arg(64)->Arg(65'536)->UseRealTime();

// A wait of a millisecond before each question: both sides sleep when it comes.
void other_process_woken(benchmark::State& state) {
  if (!has_processes(state)) return;
  const HostBytes word(64);
  for (auto _ : state) {
    state.PauseTiming();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state.ResumeTiming();
    processes()->send(Rank(1), kEchoTag, word);
    processes()->receive(Rank(1), kEchoTag);
  }
  report_messages(state, 2);
}
BENCHMARK(other_process_woken)->Name("message/other_process_woken")->UseRealTime();

void other_process_stream(benchmark::State& state) {
  if (!has_processes(state)) return;
  constexpr int kMessages = 1'000;
  for (auto _ : state) {
    for (int i = 0; i + 1 < kMessages; ++i) processes()->send(Rank(1), kEchoTag, HostBytes(1));
    processes()->send(Rank(1), kEchoTag, HostBytes(2));
    processes()->receive(Rank(1), kEchoTag);
  }
  report_messages(state, kMessages);
}
BENCHMARK(other_process_stream)->Name("message/other_process_stream")->UseRealTime();

int run(int argc, char** argv) {
  std::shared_ptr<ProcessGroup> group;
  const auto launched = launched_by([](const char* name) { return std::getenv(name); });
  if (launched) {
    group = join_processes(*launched, {});
    processes() = &group->group();
    if (launched->process == 1) echo_until_empty(group->group());
  }
  if (!launched || launched->process == 0) {
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    if (launched) processes()->send(Rank(1), kEchoTag, {});
  }
  const bool has_left = !group || group->leave(std::chrono::seconds(10));
  std::fflush(stdout);
  if (!has_left) std::_Exit(1);
  return 0;
}

}  // namespace
}  // namespace sextant::message_bench

int main(int argc, char** argv) {
  try {
    return sextant::message_bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
