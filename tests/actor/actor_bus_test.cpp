// Ids of actors, the three routes that follow from them, and the order of what goes over each.
#include "actor/bus/actor_bus.h"

#include "actor/hosts/simulated_groups.h"
#include "core/base/error.h"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

namespace sextant::actor_bus_test {
namespace {

ActorMessage message(const ActorId& from, const ActorId& to, std::int32_t number) {
  return {from, to, {Message::Kind::kReq, number, {QueueRole::kCompute, number}}};
}

}  // namespace

TEST_CASE("an id holds the largest numbers that there is room for, and no larger ones") {
  const ActorId last(65'535, 127, QueueRole::kHost, 4'294'967'295);
  CHECK(last.bits() == 0x7FFF'FF08'FFFF'FFFF);  // 16 + 7 ones, queue 8, 32 ones
  CHECK(last.node() == 65'535);
  CHECK(last.device() == 127);
  CHECK(last.queue() == QueueRole::kHost);
  CHECK(last.actor() == 4'294'967'295);
  CHECK(ActorId::from_bits(last.bits()) == last);
  CHECK(ActorId(3, 0, QueueRole::kCompute, 9).bits() == (std::uint64_t{3} << 47U | 9U));
  CHECK_THROWS_WITH_AS(ActorId(65'536, 0, QueueRole::kCompute, 0),
                       "node 65536 of an actor: wanted 0 .. 65535", Error);
  CHECK_THROWS_AS(ActorId(0, 128, QueueRole::kCompute, 0), Error);
  CHECK_THROWS_AS(ActorId(0, 0, QueueRole::kCompute, 4'294'967'296), Error);
  CHECK_THROWS_AS(ActorId(-1, 0, QueueRole::kCompute, 0), Error);
  CHECK_THROWS_AS(ActorId::from_bits(std::uint64_t{1} << 63U), Error);
  CHECK_THROWS_WITH_AS(ActorId::from_bits(std::uint64_t{200} << 32U),
                       "actor 0xc800000000: there is no queue 200", Error);
}

TEST_CASE("the route follows from the two ids, and each is counted") {
  SimulatedHostGroups groups(2, {.seed = 1});
  const ActorThread launch{0, 0, false}, host{0, 0, true}, second{0, 1, false};
  const std::array<ActorThread, 3> threads{launch, host, second};
  ActorBus bus(threads, 8, &groups.of(Rank(0)));
  const std::array<ActorThread, 1> away{ActorThread{1, 0, false}};
  ActorBus other(away, 8, &groups.of(Rank(1)));

  const ActorId own(0, 0, QueueRole::kCompute, 1);
  ActorBus::End& end = bus.end(launch);
  // Two queues of one device are one thread; its host actors and another device are others.
  end.post(message(own, ActorId(0, 0, QueueRole::kCompute, 2), 0));
  end.post(message(own, ActorId(0, 0, QueueRole::kCopyIn, 3), 1));
  end.post(message(own, ActorId(0, 0, QueueRole::kHost, 4), 2));
  end.post(message(own, ActorId(0, 1, QueueRole::kCompute, 5), 3));
  end.post(message(own, ActorId(0, 1, QueueRole::kCollective, 6), 4));
  end.post(message(own, ActorId(1, 0, QueueRole::kCompute, 7), 5));
  CHECK(end.counts().of(Route::kSameThread) == 2);
  CHECK(end.counts().of(Route::kOtherThread) == 3);
  CHECK(end.counts().of(Route::kOtherProcess) == 1);

  const auto numbers = [](ActorBus::End& at) {
    std::vector<std::int32_t> came;
    while (at.take([&](const ActorMessage& one) { came.push_back(one.message.channel); }) > 0) {
    }
    return came;
  };
  CHECK(bus.end(host).has_messages());
  CHECK(numbers(end) == std::vector<std::int32_t>{0, 1});
  CHECK(numbers(bus.end(host)) == std::vector<std::int32_t>{2});
  CHECK(numbers(bus.end(second)) == std::vector<std::int32_t>{3, 4});
  while (groups.move_one()) {
  }
  CHECK(numbers(other.end(away[0])) == std::vector<std::int32_t>{5});
  CHECK_FALSE(bus.end(host).has_messages());
}

TEST_CASE("what a thread posts to itself while it handles is handled in the same turn") {
  const std::array<ActorThread, 1> threads{ActorThread{}};
  ActorBus bus(threads, 1);
  ActorBus::End& end = bus.end({});
  const ActorId own(0, 0, QueueRole::kCompute, 1);
  end.post(message(own, own, 0));
  std::int32_t last = -1;
  const std::size_t taken = end.take([&](const ActorMessage& one) {
    last = one.message.channel;
    if (last < 99) end.post(message(own, own, last + 1));
  });
  CHECK(taken == 100);
  CHECK(last == 99);
}

TEST_CASE("messages to nobody, and more than there is room for, are refused") {
  const std::array<ActorThread, 2> threads{ActorThread{0, 0, false}, ActorThread{0, 0, true}};
  ActorBus bus(threads, 2);
  ActorBus::End& end = bus.end(threads[0]);
  const ActorId own(0, 0, QueueRole::kCompute, 1), host(0, 0, QueueRole::kHost, 1);
  CHECK_THROWS_WITH_AS(end.post(message(own, ActorId(0, 3, QueueRole::kHost, 0), 0)),
                       "there is no the host thread of device 3 of node 0", Error);
  CHECK_THROWS_AS(end.post(message(own, ActorId(1, 0, QueueRole::kCompute, 0), 0)), Error);
  CHECK_THROWS_AS(bus.end({0, 5, false}), Error);
  end.post(message(own, host, 0));
  end.post(message(own, host, 1));
  CHECK_FALSE(end.try_post(message(own, host, 2)));
  CHECK_THROWS_AS(end.post(message(own, host, 2)), Error);
  bus.end(threads[1]).take([](const ActorMessage&) {});
  CHECK(end.try_post(message(own, host, 2)));
}

TEST_CASE("a thread gets another's messages in order and once, also when the ring goes round") {
  constexpr std::int32_t kMessages = 100'000;
  const std::array<ActorThread, 2> threads{ActorThread{0, 0, false}, ActorThread{0, 0, true}};
  ActorBus bus(threads, 16);
  std::thread sender([&] {
    const ActorId own(0, 0, QueueRole::kHost, 1), to(0, 0, QueueRole::kCompute, 1);
    for (std::int32_t i = 0; i < kMessages;)
      if (bus.end(threads[1]).try_post(message(own, to, i)))
        ++i;
      else
        std::this_thread::yield();
  });
  std::int32_t next = 0;
  bool in_order = true;
  while (next < kMessages) {
    const std::size_t taken = bus.end(threads[0]).take([&](const ActorMessage& came) {
      in_order = in_order && came.message.channel == next;
      ++next;
    });
    if (taken == 0) std::this_thread::yield();
  }
  sender.join();
  CHECK(in_order);
}

TEST_CASE("another process gets a sender's messages in order and once, whatever the network does") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimulatedHostGroups groups(3, {.seed = seed, .max_delay = 40, .repeat_percent = 30});
    std::vector<std::unique_ptr<ActorBus>> buses;
    std::vector<ActorThread> threads;
    for (std::uint16_t node = 0; node < 3; ++node) {
      threads.push_back({node, 0, false});
      buses.push_back(
          std::make_unique<ActorBus>(std::span(&threads.back(), 1), 1, &groups.of(Rank(node))));
    }
    constexpr std::int32_t kMessages = 60;
    std::array<std::int32_t, 3> next{};
    ActorBus::End& receiver = buses[2]->end({2, 0, false});
    const auto take = [&] {
      return receiver.take([&](const ActorMessage& came) {
        CHECK(came.message.channel == next[came.from.node()]++);
      });
    };
    for (std::int32_t i = 0; i < kMessages; ++i) {
      for (const std::uint16_t node : {std::uint16_t{0}, std::uint16_t{1}})
        buses[node]
            ->end({node, 0, false})
            .post(message(ActorId(node, 0, QueueRole::kCompute, 0),
                          ActorId(2, 0, QueueRole::kCompute, 0), i));
      if (i % 7 == 0) take();
    }
    while (groups.move_one()) {
    }
    while (take() > 0) {
    }
    CHECK(next == std::array<std::int32_t, 3>{kMessages, kMessages, 0});
    CHECK(groups.early() > 0);
    CHECK(groups.repeated() > 0);
  }
}

}  // namespace sextant::actor_bus_test
