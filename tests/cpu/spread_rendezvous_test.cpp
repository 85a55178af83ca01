// Meetings whose members are in two processes, here two rendezvous with nothing in common but a
// host group: any order of waiting, mismatches, faults.
#include "actor/hosts/rank_threads.h"
#include "backends/cpu/rendezvous.h"
#include "core/base/check.h"
#include "tests/support/forwarding_group.h"
#include "tests/support/graph_builder.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sextant::spread_rendezvous_test {
namespace {

using testing::GraphBuilder;

// Two ranks in two groups; an all_reduce of three numbers.
struct TwoGroups {
  GraphBuilder builder;
  std::array<GroupId, 2> groups;
  Communication sum, maximum;

  TwoGroups() {
    const PlacementId here = builder.placement({{"x", 2}}, Rank(0));
    const LayoutId to = builder.layout(Shape{3}, "B", here);
    groups = {builder.group("first", {Rank(0), Rank(1)}),
              builder.group("second", {Rank(0), Rank(1)})};
    const auto reduction = [&](ReduceOp reduce) {
      const LayoutId from = builder.layout(Shape{3}, to_string(Sbp::partial(reduce)), here);
      return Communication{Primitive::kAllReduce, Side::kBoth, 0, reduce, DType::kF32, from, to};
    };
    sum = reduction(ReduceOp::kSum);
    maximum = reduction(ReduceOp::kMax);
  }
};

// Calls `work` for each rank with the rendezvous of its process; what it throws, by rank.
std::array<std::string, 2> on_processes(
    const PhysicalGraph& graph, const std::function<void(std::size_t, Rendezvous&)>& work,
    std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  std::array<std::string, 2> messages;
  ThreadHostGroups groups(2);
  on_rank_threads(2, [&](std::size_t p) {
    HostGroup& group = groups.of(Rank(p));
    Rendezvous rendezvous(graph, timeout, CpuCollectives::kDirect,
                          RankProcesses{group, RankBlocks(2, 2)});
    rendezvous.connect([](const std::string&) {});
    try {
      work(p, rendezvous);
      group.agree(std::nullopt);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kRankFailed);
      messages[p] = error.what();
      rendezvous.abort(error.what());
    }
    rendezvous.disconnect();
  });
  return messages;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Numbers {
  std::array<float, 3> in{}, out{};
  MemberBuffers buffers() {
    return {reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()),
            false};
  }
};

// A member of a group, whose messages are looked at on their way out.
class SeenGroup final : public testing::ForwardingGroup {
 public:
  using Pass = std::function<bool(HostTag)>;  // whether it goes out
  SeenGroup(HostGroup& group, Pass pass) : ForwardingGroup(group), pass_(std::move(pass)) {}
  void send(Rank to, HostTag tag, HostBytes bytes) override {
    if (pass_(tag)) ForwardingGroup::send(to, tag, std::move(bytes));
  }

 private:
  const Pass pass_;
};

}  // namespace

TEST_CASE("ranks of two processes may wait for their meetings in any order") {
  TwoGroups two;
  const PhysicalGraph& graph = two.builder.graph();
  const auto messages = on_processes(graph, [&](std::size_t rank, Rendezvous& rendezvous) {
    for (std::int64_t step = 0; step < 100; ++step) {
      std::array<Numbers, 2> numbers;
      std::array<Rendezvous::Ticket, 2> tickets;
      for (std::size_t g = 0; g < 2; ++g) {
        const auto value = static_cast<float>(g * 10 + rank + 1);
        numbers[g].in = {value, 2 * value, static_cast<float>(step)};
        tickets[g] = rendezvous.post(
            {Rank(rank), two.groups[g], step, &two.sum, "sum", numbers[g].buffers()});
      }
      // Rank 0 waits for the first, rank 1 for the second.
      rendezvous.wait(tickets[rank]);
      rendezvous.wait(tickets[1 - rank]);
      const auto both = static_cast<float>(2 * step);
      CHECK(numbers[0].out == std::array<float, 3>{3, 6, both});
      CHECK(numbers[1].out == std::array<float, 3>{23, 46, both});
    }
  });
  CHECK(messages == std::array<std::string, 2>{});
}

TEST_CASE("different communications in two processes end both, naming both ranks") {
  TwoGroups two;
  const PhysicalGraph& graph = two.builder.graph();
  const auto messages = on_processes(graph, [&](std::size_t rank, Rendezvous& rendezvous) {
    Numbers numbers;
    rendezvous.wait(rendezvous.post({Rank(rank), two.groups[GroupId(0).index()], 0,
                                     rank == 0 ? &two.sum : &two.maximum,
                                     rank == 0 ? "sum" : "maximum", numbers.buffers()}));
  });
  for (const std::string& message : messages) {
    CAPTURE(message);
    CHECK(contains(message, "communication 0 of group 'first' is not the same on all ranks"));
    CHECK(contains(message, "rank 0 brings 'sum'"));
    CHECK(contains(message, "rank 1 brings 'maximum'"));
  }
}

TEST_CASE("who waits for a rank of another process in vain says who it is") {
  TwoGroups two;
  const PhysicalGraph& graph = two.builder.graph();
  const auto messages = on_processes(
      graph,
      [&](std::size_t rank, Rendezvous& rendezvous) {
        Numbers numbers;
        // Each waits for another one.
        rendezvous.wait(
            rendezvous.post({Rank(rank), two.groups[rank], 0, &two.sum, "sum", numbers.buffers()}));
      },
      std::chrono::milliseconds(50));
  // One of them is the first whose time is over; its reason ends the other.
  const std::size_t first = contains(messages[0], "stopped") ? 1 : 0;
  CAPTURE(messages[0]);
  CAPTURE(messages[1]);
  CHECK(contains(messages[first], "timed out after 50 ms in communication 0 of group"));
  CHECK(contains(messages[first],
                 first == 0 ? "ranks 0 arrived, ranks 1 did not; missing are of thread 1 of 2"
                            : "ranks 1 arrived, ranks 0 did not; missing are of thread 0 of 2"));
}

TEST_CASE("a fault in one process wakes those that wait in another, who say where they waited") {
  TwoGroups two;
  const PhysicalGraph& graph = two.builder.graph();
  for (int round = 0; round < 20; ++round) {
    const auto messages = on_processes(graph, [&](std::size_t rank, Rendezvous& rendezvous) {
      if (rank == 1) fail(ErrorCode::kRankFailed, "a card burns");
      Numbers numbers;
      rendezvous.wait(rendezvous.post(
          {Rank(0), two.groups[GroupId(0).index()], 0, &two.sum, "sum", numbers.buffers()}));
    });
    CAPTURE(messages[0]);
    CHECK(contains(messages[0], "stopped: a card burns (thread 1 of 2)"));
    CHECK((contains(messages[0],
                    "waited in communication 0 of group 'first': ranks 0 arrived, "
                    "ranks 1 did not") ||
           messages[0] == "stopped: a card burns (thread 1 of 2)"));  // it was there first
  }
}

// Rank 1 sends the first value, and waits for one of rank 0, whose values never go out.
TEST_CASE("a job that ends in the middle of a meeting ends the meeting, in all processes") {
  TwoGroups two;
  const PhysicalGraph& graph = two.builder.graph();
  ThreadHostGroups groups(2);
  std::promise<void> has_begun, has_ended;
  std::future<void> begun = has_begun.get_future(), ended = has_ended.get_future();
  std::atomic<bool> is_begun = false;
  std::thread last_resort([&] {
    if (ended.wait_for(std::chrono::seconds(20)) != std::future_status::ready)
      groups.abort("the meeting did not end");
  });
  std::string reason;
  on_rank_threads(2, [&](std::size_t p) {
    SeenGroup group(groups.of(Rank(p)), [&, p](HostTag tag) {
      if (tag.subject != HostSubject::kData) return true;
      if (p == 1 && !is_begun.exchange(true)) has_begun.set_value();
      return p == 1;
    });
    Rendezvous rendezvous(graph, std::chrono::seconds(30), CpuCollectives::kDirect,
                          RankProcesses{group, RankBlocks(2, 2)});
    rendezvous.connect([](const std::string&) {});
    Numbers numbers;
    rendezvous.post(
        {Rank(p), two.groups[GroupId(0).index()], 0, &two.sum, "sum", numbers.buffers()});
    if (p == 1) {
      CHECK(begun.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
      rendezvous.disconnect();
      return;
    }
    try {
      group.receive(Rank(1), {HostSubject::kTest, 0});
    } catch (const Error& error) {
      reason = error.what();
    }
    rendezvous.disconnect();
  });
  has_ended.set_value();
  last_resort.join();
  CHECK(reason == "stopped: the job has ended (thread 1 of 2)");
}

}  // namespace sextant::spread_rendezvous_test
