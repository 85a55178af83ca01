// The same acts and messages in the C++ Actor Framework, where the build finds it: a message from
// one actor to another that one worker thread runs, and a question and its answer between this
// thread and an actor with a thread of its own.
#include <benchmark/benchmark.h>
#include <caf/all.hpp>

namespace sextant::caf_bench {
namespace {

constexpr int kHops = 10'000;

struct HopState {
  caf::actor next, last;
};

// Hands a number on, one less, until it is 0.
caf::behavior hop(caf::stateful_actor<HopState>* self) {
  return {
      [self](const caf::actor& next, const caf::actor& last) {
        self->state.next = next;
        self->state.last = last;
      },
      [self](int left) { self->send(left == 0 ? self->state.last : self->state.next, left - 1); }};
}

caf::behavior echo() {
  return {[](int number) { return number; }};
}

void report(benchmark::State& state, double per_iteration) {
  state.counters["message"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * per_iteration,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void same_thread(benchmark::State& state) {
  caf::actor_system_config config;
  config.set("scheduler.max-threads", 1);
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  const caf::actor first = system.spawn(hop), second = system.spawn(hop);
  const auto here = caf::actor_cast<caf::actor>(self);
  self->send(first, second, here);
  self->send(second, first, here);
  for (auto _ : state) {
    self->send(first, kHops);
    self->receive([](int) {});
  }
  // They hold each other, and a system waits for its last actor.
  for (const caf::actor& hopper : {first, second})
    self->send_exit(hopper, caf::exit_reason::user_shutdown);
  report(state, kHops);
}
BENCHMARK(same_thread)->Name("message/caf_same_thread")->UseRealTime();

void other_thread_woken(benchmark::State& state) {
  caf::actor_system_config config;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  const caf::actor there = system.spawn<caf::detached>(echo);
  for (auto _ : state) {
    self->send(there, 1);
    self->receive([](int) {});
  }
  report(state, 2);
}
BENCHMARK(other_thread_woken)->Name("message/caf_other_thread_woken")->UseRealTime();

}  // namespace
}  // namespace sextant::caf_bench
