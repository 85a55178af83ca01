// Meetings of ranks: transfers, launch groups, mismatches, timeouts, failures of a peer.
#include "backends/cpu/rendezvous.h"

#include "core/base/check.h"
#include "tests/cpu/device_harness.h"
#include "tests/support/graph_builder.h"

#include <doctest/doctest.h>

#include <functional>
#include <thread>

namespace sextant::rendezvous_test {
namespace {

using testing::BlockBuilder;
using testing::GraphBuilder;

constexpr CpuQueueKind kKinds[] = {CpuQueueKind::kInline, CpuQueueKind::kAsynchronous,
                                   CpuQueueKind::kStress};

CpuOptions options_of(CpuQueueKind kind, std::int64_t timeout_ms = 20'000) {
  CpuOptions options;
  options.queues = kind;
  options.rendezvous_timeout_ms = timeout_ms;
  return options;
}

// Calls `work(rank)` on a thread per rank.
void on_ranks(int ranks, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(work, rank);
  for (std::thread& thread : threads) thread.join();
}

// Message of the error that `work` ends with; empty without one.
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kRankFailed);
    return error.what();
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// All state, so that tests can fill inputs and read outputs while poison is on.
std::int32_t state(BlockBuilder& block, const std::string& name, LayoutId layout) {
  return block.reg(
      name, layout,
      block.frame(
          {.memory = MemoryClass::kParameters, .acts_per_content = 1, .initially_full = true}));
}

// `ranks` ranks in one group; run 0 is the collective from register 0 to register 1. Rank r runs
// program r, whose reduction is `reduces[r]`.
PhysicalGraph all_reduce_graph(const std::vector<ReduceOp>& reduces) {
  GraphBuilder builder;
  const int ranks = static_cast<int>(reduces.size());
  const PlacementId here = builder.placement({{"x", ranks}}, Rank(0));
  const LayoutId to = builder.layout(Shape{3}, "B", here);
  std::vector<Rank> members;
  for (int rank = 0; rank < ranks; ++rank) members.emplace_back(rank);
  const GroupId group = builder.group("all", members);
  for (const ReduceOp reduce : reduces) {
    const LayoutId from = builder.layout(Shape{3}, to_string(Sbp::partial(reduce)), here);
    const ProgramId program = builder.program("p", here, 1);
    BlockBuilder block(builder, "b", Phase::kForward);
    const std::int32_t in = state(block, "in", from);
    const std::int32_t out = state(block, "out", to);
    block.communication("gradient sum", QueueRole::kCollective,
                        {Primitive::kAllReduce, Side::kBoth, 0, reduce, DType::kF32, from, to},
                        {BlockBuilder::of_register(in)}, {out});
    const InstanceId instance = builder.instance(program, block.finish(), "i", 1, {1, 1});
    builder.act(program, instance, 0);
    builder.bind(program, {group});
  }
  return builder.graph();
}

TEST_CASE("ranks meet step after step whoever comes first") {
  for (const CpuQueueKind kind : kKinds) {
    DeviceHarness harness(all_reduce_graph(std::vector<ReduceOp>(4, ReduceOp::kSum)),
                          options_of(kind), reference_kernels());
    on_ranks(4, [&](int rank) {
      const auto value = static_cast<float>(1 << rank);
      harness.write(rank, 0, 0, {value, 2 * value, -value});
      Fence last;
      for (std::int64_t step = 0; step < 50; ++step) last = harness.launch(rank, 0, {}, step);
      harness.device(rank).wait(last);
    });
    for (int rank = 0; rank < 4; ++rank)
      CHECK(harness.read(rank, 0, 1) == std::vector<float>{15, 30, -15});
    // 50 steps of a ring over 4 members with parts of 1, 1, 1, 0 elements: 2 * 3 - 1 - 1 elements
    // from 0 to 1 and from 1 to 2, 2 * 3 - 1 - 0 from 2 to 3 and from 3 to 0.
    const Traffic expected{{{Rank(0), Rank(1)}, Bytes(50 * 4 * 4)},
                           {{Rank(1), Rank(2)}, Bytes(50 * 4 * 4)},
                           {{Rank(2), Rank(3)}, Bytes(50 * 5 * 4)},
                           {{Rank(3), Rank(0)}, Bytes(50 * 5 * 4)}};
    CHECK(harness.rendezvous().traffic() == expected);
  }
}

TEST_CASE("different communications at one meeting end the job, naming both ranks") {
  for (const CpuQueueKind kind : kKinds) {
    DeviceHarness harness(all_reduce_graph({ReduceOp::kSum, ReduceOp::kMax}), options_of(kind),
                          reference_kernels());
    std::vector<std::string> messages(2);
    on_ranks(2, [&](int rank) {
      messages[static_cast<std::size_t>(rank)] =
          message_of([&] { harness.device(rank).wait(harness.launch(rank, 0)); });
    });
    for (const std::string& message : messages) {
      CHECK(contains(message, "communication 0 of group 'all' is not the same on all ranks"));
      CHECK(contains(message, "rank 0 brings 'gradient sum': all_reduce (sum, f32) f32 3 P(sum)"));
      CHECK(contains(message, "rank 1 brings 'gradient sum': all_reduce (max, f32) f32 3 P(max)"));
    }
  }
}

TEST_CASE("a meeting that is not complete in time names who arrived and who did not") {
  for (const CpuQueueKind kind : kKinds) {
    DeviceHarness harness(all_reduce_graph(std::vector<ReduceOp>(3, ReduceOp::kSum)),
                          options_of(kind, 50), reference_kernels());
    std::vector<std::string> messages(3);
    on_ranks(3, [&](int rank) {
      if (rank == 1) return;
      messages[static_cast<std::size_t>(rank)] =
          message_of([&] { harness.device(rank).wait(harness.launch(rank, 0)); });
    });
    CHECK((contains(messages[0], "timed out after 50 ms") ||
           contains(messages[2], "timed out after 50 ms")));
    CHECK((contains(messages[0], "ranks 0, 2 arrived, ranks 1 did not") ||
           contains(messages[2], "ranks 0, 2 arrived, ranks 1 did not")));
    CHECK(contains(messages[0], "operator 'gradient sum' (all_reduce), act 0 of step 0"));
  }
}

TEST_CASE("a rank that stands still says what its queues are at") {
  DeviceHarness harness(all_reduce_graph(std::vector<ReduceOp>(2, ReduceOp::kSum)),
                        options_of(CpuQueueKind::kAsynchronous, 50), reference_kernels());
  CHECK(harness.device(0).stuck().empty());
  const Fence first = harness.launch(0, 0);
  harness.launch(0, 0, {}, 1);
  CHECK(contains(message_of([&] { harness.device(0).wait(first); }), "timed out"));
  CHECK(harness.device(0).stuck() ==
        std::vector<std::string>{"rank 0, collective: launch 0, 'gradient sum' (all_reduce), act 0 "
                                 "of step 0, at work; 1 launch behind it"});
}

TEST_CASE("the failure of one rank wakes the others, who name it") {
  for (const CpuQueueKind kind : kKinds) {
    DeviceHarness harness(all_reduce_graph(std::vector<ReduceOp>(2, ReduceOp::kSum)),
                          options_of(kind), reference_kernels());
    std::string message;
    on_ranks(2, [&](int rank) {
      if (rank == 0)
        message = message_of([&] { harness.device(0).wait(harness.launch(0, 0)); });
      else
        harness.device(1).abort("rank 1: operator 'x' failed");
    });
    CHECK(contains(message, "rank 1: operator 'x' failed"));
  }
}

// Two stages of `from_ranks` and `to_ranks` devices and a transfer of a [4, 2] tensor. Group roles:
// one group of all ranks.
struct TransferGraph {
  GraphBuilder builder;
  int ranks;

  TransferGraph(int from_ranks, const char* from_words, int to_ranks, const char* to_words)
      : ranks(from_ranks + to_ranks) {
    const PlacementId senders = builder.placement({{"x", from_ranks}}, Rank(0));
    const PlacementId receivers = builder.placement({{"x", to_ranks}}, Rank(from_ranks));
    const LayoutId from = builder.layout(Shape{4, 2}, from_words, senders);
    const LayoutId to = builder.layout(Shape{4, 2}, to_words, receivers);
    std::vector<Rank> members;
    for (int rank = 0; rank < ranks; ++rank) members.emplace_back(rank);
    const GroupId group = builder.group("stage0 to stage1", members);
    const auto stage = [&](PlacementId placement, Side side, int count) {
      const ProgramId program = builder.program("p", placement, 1);
      BlockBuilder block(builder, "b", Phase::kForward);
      const bool sends = side == Side::kSend;
      const std::int32_t reg = state(block, "x", sends ? from : to);
      std::vector<Operand> in;
      std::vector<std::int32_t> out;
      if (sends)
        in.push_back(BlockBuilder::of_register(reg));
      else
        out.push_back(reg);
      block.communication(
          "activation", sends ? QueueRole::kTransferOutForward : QueueRole::kTransferInForward,
          {Primitive::kTransfer, side, 0, ReduceOp::kSum, DType::kF32, from, to}, in, out);
      const InstanceId instance = builder.instance(program, block.finish(), "i", 1, {1});
      builder.act(program, instance, 0);
      for (int i = 0; i < count; ++i) builder.bind(program, {group});
    };
    stage(senders, Side::kSend, from_ranks);
    stage(receivers, Side::kReceive, to_ranks);
  }
};

TEST_CASE("a transfer gives the receivers their boxes of what the senders hold") {
  // Element (i, j) is 2 i + j.
  const std::vector<float> whole{0, 1, 2, 3, 4, 5, 6, 7};
  for (const CpuQueueKind kind : kKinds) {
    // Rows over 3 ranks (2, 1, 1) to columns over 2 ranks.
    TransferGraph transfer(3, "S(0)", 2, "S(1)");
    DeviceHarness harness(transfer.builder.graph(), options_of(kind), reference_kernels());
    harness.write(0, 0, 0, {0, 1, 2, 3});
    harness.write(1, 0, 0, {4, 5});
    harness.write(2, 0, 0, {6, 7});
    on_ranks(5, [&](int rank) { harness.device(rank).wait(harness.launch(rank, 0)); });
    CHECK(harness.read(3, 0, 0) == std::vector<float>{0, 2, 4, 6});
    CHECK(harness.read(4, 0, 0) == std::vector<float>{1, 3, 5, 7});
    // Every wanted box: 2, 1, 1 rows of one column to each receiver.
    const Traffic expected{{{Rank(0), Rank(3)}, Bytes(8)}, {{Rank(0), Rank(4)}, Bytes(8)},
                           {{Rank(1), Rank(3)}, Bytes(4)}, {{Rank(1), Rank(4)}, Bytes(4)},
                           {{Rank(2), Rank(3)}, Bytes(4)}, {{Rank(2), Rank(4)}, Bytes(4)}};
    CHECK(harness.rendezvous().traffic() == expected);
  }
}

// Two ranks that send to each other, with the two communications in opposite order.
TEST_CASE("a launch group posts all its halves before it waits") {
  GraphBuilder builder;
  const PlacementId places[] = {builder.placement({{"x", 1}}, Rank(0)),
                                builder.placement({{"x", 1}}, Rank(1))};
  const LayoutId layouts[] = {builder.layout(Shape{2}, "B", places[0]),
                              builder.layout(Shape{2}, "B", places[1])};
  const GroupId groups[] = {builder.group("0 to 1", {Rank(0), Rank(1)}),
                            builder.group("1 to 0", {Rank(1), Rank(0)})};
  for (int rank = 0; rank < 2; ++rank) {
    const ProgramId program = builder.program("p", places[rank], 2);
    BlockBuilder block(builder, "b", Phase::kForward);
    const std::int32_t mine = state(block, "mine", layouts[rank]);
    const std::int32_t theirs = state(block, "theirs", layouts[rank]);
    // Role 0 is the group in which this rank sends. Both ranks send first: without the group, and
    // in one thread, neither would come to receive.
    block.communication("send", QueueRole::kTransferOutForward,
                        {Primitive::kTransfer, Side::kSend, 0, ReduceOp::kSum, DType::kF32,
                         layouts[rank], layouts[1 - rank]},
                        {BlockBuilder::of_register(mine)}, {});
    block.communication("receive", QueueRole::kTransferInBackward,
                        {Primitive::kTransfer, Side::kReceive, 1, ReduceOp::kSum, DType::kF32,
                         layouts[1 - rank], layouts[rank]},
                        {}, {theirs});
    const InstanceId instance = builder.instance(program, block.finish(), "i", 1, {1, 1});
    builder.act(program, instance, 0);
    builder.bind(program, {groups[rank], groups[1 - rank]});
  }
  for (const CpuQueueKind kind : kKinds) {
    DeviceHarness harness(builder.graph(), options_of(kind), reference_kernels());
    on_ranks(2, [&](int rank) {
      const auto value = static_cast<float>(rank + 1);
      harness.write(rank, 0, 0, {value, value});
      std::array<Fence, 2> fences;
      for (std::int64_t step = 0; step < 20; ++step)
        fences = harness.launch_together(rank, 0, 1, step);
      CHECK(fences[0] == Fence{QueueRole::kTransferOutForward, 19});
      CHECK(fences[1] == Fence{QueueRole::kTransferInBackward, 19});
      harness.device(rank).wait(fences[0]);
      // The members complete together.
      CHECK(harness.device(rank).state(fences[1]) == FenceState::kDone);
    });
    CHECK(harness.read(0, 0, 1) == std::vector<float>{2, 2});
    CHECK(harness.read(1, 0, 1) == std::vector<float>{1, 1});
  }
  // The same on two launches hangs on a serial device, and the timeout says where.
  DeviceHarness harness(builder.graph(), options_of(CpuQueueKind::kInline, 50),
                        reference_kernels());
  on_ranks(2, [&](int rank) {
    CHECK(message_of([&] { harness.device(rank).wait(harness.launch(rank, 0)); }) != "");
  });
}

}  // namespace
}  // namespace sextant::rendezvous_test
