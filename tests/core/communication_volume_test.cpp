// Boxes between members, solved by hand, and a law: every element a destination wants comes once.

#include "core/costs/communication_volume.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace sextant::communication_volume_test {
namespace {

Placement line(const char* axis, int first, int count) {
  Placement placement;
  placement.axes = {{axis, count}};
  for (int rank = first; rank < first + count; ++rank) placement.ranks.emplace_back(rank);
  return placement;
}

std::vector<Rank> members_of(const Placement& a, const Placement& b) {
  std::vector<Rank> members = a.ranks;
  if (!(a == b)) members.insert(members.end(), b.ranks.begin(), b.ranks.end());
  return members;
}

Communication communication_of(Primitive primitive) {
  Communication communication;
  communication.primitive = primitive;
  communication.dtype = DType::kF32;
  return communication;
}

// 5 x 3 f32: rows 3 + 2, columns 2 + 1. Rank 0 keeps 3 x 2 and sends 3 x 1 = 12 B; rank 1 sends
// 2 x 2 = 16 B. The largest volume is 16 B, together 28 B.
TEST_CASE("an all_to_all of uneven shards moves exactly what is not in place") {
  const Placement both = line("x", 0, 2);
  const NdSbp rows = {Sbp::split(0)}, columns = {Sbp::split(1)};
  const auto moves = box_moves(Shape{5, 3}, {&rows, &both}, {&columns, &both}, both.ranks);
  REQUIRE(moves.size() == 4);
  CHECK(moves[0] == BoxMove{0, 0, Shard{{{0, 3}, {0, 2}}}});
  CHECK(moves[1] == BoxMove{1, 0, Shard{{{3, 2}, {0, 2}}}});
  CHECK(moves[2] == BoxMove{0, 1, Shard{{{0, 3}, {2, 1}}}});
  CHECK(moves[3] == BoxMove{1, 1, Shard{{{3, 2}, {2, 1}}}});
  const Communication all_to_all = communication_of(Primitive::kAllToAll);
  const CollectiveCost cost =
      collective_cost(all_to_all, Shape{5, 3}, {&rows, &both}, {&columns, &both}, both.ranks);
  CHECK(cost.largest_volume == Bytes(16));
  CHECK(cost.global_bytes == Bytes(28));
}

TEST_CASE("replicas share the work of sending") {
  const Placement from = line("x", 0, 2), to = line("x", 2, 4);
  const NdSbp broadcast = {Sbp::broadcast()};
  const auto moves =
      box_moves(Shape{4}, {&broadcast, &from}, {&broadcast, &to}, members_of(from, to));
  REQUIRE(moves.size() == 4);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    CHECK(moves[i].source == static_cast<std::int32_t>(i % 2));
    CHECK(moves[i].destination == static_cast<std::int32_t>(2 + i));
  }
}

TEST_CASE("every partial copy is sent to whoever wants the value") {
  const Placement from = line("x", 0, 3), to = line("x", 3, 1);
  const NdSbp partial = {Sbp::partial()}, broadcast = {Sbp::broadcast()};
  CHECK(box_moves(Shape{4}, {&partial, &from}, {&broadcast, &to}, members_of(from, to)).size() ==
        3);
  // Of two partial destinations the first takes the copies 0 and 2, the second copy 1.
  const Placement two = line("x", 3, 2);
  const auto dealt =
      box_moves(Shape{4}, {&partial, &from}, {&partial, &two}, members_of(from, two));
  const Shard all{{{0, 4}}};
  CHECK(dealt == std::vector<BoxMove>{{0, 3, all}, {2, 3, all}, {1, 4, all}});
}

TEST_CASE("a partial copy stays where it is if a device that holds it wants one") {
  const Placement from = line("x", 0, 3), to = line("x", 2, 3);
  const NdSbp partial = {Sbp::partial()};
  const std::vector<Rank> members = {Rank(0), Rank(1), Rank(2), Rank(3), Rank(4)};
  // Device 2 keeps its copy, number 2; 0 and 1 go to the places 0 and 1 of the target.
  const Shard all{{{0, 4}}};
  CHECK(box_moves(Shape{4}, {&partial, &from}, {&partial, &to}, members) ==
        std::vector<BoxMove>{{0, 2, all}, {2, 2, all}, {1, 3, all}});
}

TEST_CASE("each element a destination wants arrives exactly once, from any words without partial") {
  const std::vector<NdSbp> words = {{Sbp::split(0)}, {Sbp::split(1)}, {Sbp::broadcast()}};
  for (const int sources : {1, 2, 3})
    for (const int destinations : {1, 2, 4})
      for (const NdSbp& from_words : words)
        for (const NdSbp& to_words : words) {
          const Shape shape{5, 3};
          const Placement from = line("x", 0, sources), to = line("x", sources, destinations);
          const auto moves =
              box_moves(shape, {&from_words, &from}, {&to_words, &to}, members_of(from, to));
          for (int member = 0; member < destinations; ++member) {
            const std::vector<std::int64_t> hierarchy = {destinations}, coordinates = {member};
            const Shard wanted = shard_of(shape, to_words, hierarchy, coordinates);
            for (std::int64_t row = 0; row < 5; ++row)
              for (std::int64_t column = 0; column < 3; ++column) {
                const Shard element{{{row, 1}, {column, 1}}};
                int arrivals = 0;
                for (const BoxMove& move : moves)
                  if (move.destination == sources + member &&
                      !intersect(move.box, element).is_empty())
                    ++arrivals;
                CHECK(arrivals == (intersect(wanted, element).is_empty() ? 0 : 1));
              }
          }
        }
}

// A tensor-parallel group reduces its own share of a batch that data parallelism splits:
// 8 x 6 f32 over dp=2 is 4 x 6 x 4 B = 96 B for the group, not 192 B.
// For each device of `to` and element, the shares of the source that it gets.
using Got = std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::int64_t>>;

std::int64_t share_of(const NdSbp& words, const Placement& placement, Rank rank) {
  const auto coordinates = placement.coordinates_of(placement.index_of(rank).value());
  std::int64_t share = 0;
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (words[axis].is_partial()) share = share * placement.axes[axis].extent + coordinates[axis];
  return share;
}

Got shares_got(const Shape& shape, const NdSbp& from, const Placement& source, const NdSbp& to,
               const Placement& target) {
  std::vector<Rank> members = source.ranks;
  for (const Rank rank : target.ranks)
    if (!source.index_of(rank)) members.push_back(rank);
  Got got;
  for (const BoxMove& move : box_moves(shape, {&from, &source}, {&to, &target}, members)) {
    const Rank sender = members[static_cast<std::size_t>(move.source)];
    const auto receiver =
        target.index_of(members[static_cast<std::size_t>(move.destination)]).value();
    for (std::int64_t i = move.box.dims[0].offset; i < move.box.dims[0].end(); ++i)
      got[{receiver, i}].push_back(share_of(from, source, sender));
  }
  for (auto& [key, shares] : got) std::sort(shares.begin(), shares.end());
  return got;
}

// Wherever source and target lie on each other, all words of both sides: every copy of a share of
// the target gets the same, and the shares of the target together get each of the source once.
TEST_CASE("copies of a share agree and every share arrives once, on overlapping placements too") {
  const Placement target{{{"a", 2}, {"b", 2}}, {Rank(0), Rank(1), Rank(2), Rank(3)}};
  const std::vector<Sbp> words{Sbp::split(0), Sbp::broadcast(), Sbp::partial()};
  const Shape shape{3};
  std::vector<int> ranks{0, 1, 2, 3, 4, 5};
  do {
    const Placement source{{{"x", 2}, {"y", 2}},
                           {Rank(ranks[0]), Rank(ranks[1]), Rank(ranks[2]), Rank(ranks[3])}};
    for (int number = 0; number < 81; ++number) {
      const auto word = [&](int place) {
        return words[static_cast<std::size_t>(number / place % 3)];
      };
      const NdSbp from{word(1), word(3)}, to{word(9), word(27)};
      std::int64_t num_shares = 1;
      for (const Sbp& one : from) num_shares *= one.is_partial() ? 2 : 1;
      const Got got = shares_got(shape, from, source, to, target);
      // By element, then by the coordinates of replicas: what all shares of the target got.
      std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> together;
      std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> of_share;
      bool copies_agree = true;
      for (std::size_t device = 0; device < 4; ++device) {
        const auto at = target.coordinates_of(device);
        std::int64_t replica = 0;
        for (std::size_t axis = 0; axis < 2; ++axis)
          if (to[axis].is_broadcast()) replica = replica * 2 + at[axis];
        const Shard box = shard_of(shape, to, target.hierarchy(), at);
        for (std::int64_t i = box.dims[0].offset; i < box.dims[0].end(); ++i) {
          const auto found = got.find({device, i});
          const std::vector<std::int64_t> shares =
              found == got.end() ? std::vector<std::int64_t>{} : found->second;
          auto& all = together[{i, replica}];
          all.insert(all.end(), shares.begin(), shares.end());
          const auto [known, is_new] =
              of_share.try_emplace({i, share_of(to, target, target.ranks[device])}, shares);
          copies_agree = copies_agree && (is_new || known->second == shares);
        }
      }
      CAPTURE(to_string(from));
      CAPTURE(to_string(to));
      REQUIRE(copies_agree);
      for (auto& [key, all] : together) {
        std::sort(all.begin(), all.end());
        std::vector<std::int64_t> each(static_cast<std::size_t>(num_shares));
        std::iota(each.begin(), each.end(), 0);
        REQUIRE(all == each);
      }
    }
  } while (std::next_permutation(ranks.begin(), ranks.end()));
}

TEST_CASE("the tensor of a group is what its members hold, not the global tensor") {
  Placement mesh;
  mesh.axes = {{"dp", 2}, {"tp", 2}};
  for (int rank = 0; rank < 4; ++rank) mesh.ranks.emplace_back(rank);
  const NdSbp from = {Sbp::split(0), Sbp::partial()}, to = {Sbp::split(0), Sbp::broadcast()};
  const std::vector<Rank> second_replica = {Rank(2), Rank(3)};
  const Communication all_reduce = communication_of(Primitive::kAllReduce);
  CHECK(collective_cost(all_reduce, Shape{8, 6}, {&from, &mesh}, {&to, &mesh}, second_replica)
            .global_bytes == Bytes(96));
}

// 7 elements in chunks of 3, 2 and 2, bool: one byte each. An all_reduce sends twice all of it less
// the chunks of both ends; a reduce_scatter all but the sender's, an all_gather all but the
// receiver's.
TEST_CASE("a ring sends everything but the chunks that need not travel") {
  const Placement ring = line("x", 4, 3);
  const NdSbp split = {Sbp::split(0)}, whole = {Sbp::broadcast()}, partial = {Sbp::partial()};
  const auto sent = [&](Primitive primitive, const NdSbp& from, const NdSbp& to) {
    Communication communication = communication_of(primitive);
    communication.dtype = DType::kBool;
    Traffic traffic;
    add_traffic(communication, Shape{7}, {&from, &ring}, {&to, &ring}, ring.ranks, traffic);
    return pairs_of(traffic);
  };
  const auto around = [](std::int64_t first, std::int64_t second, std::int64_t third) {
    return std::vector<PairBytes>{{Rank(4), Rank(5), Bytes(first)},
                                  {Rank(5), Rank(6), Bytes(second)},
                                  {Rank(6), Rank(4), Bytes(third)}};
  };
  CHECK(sent(Primitive::kAllReduce, partial, whole) == around(14 - 5, 14 - 4, 14 - 5));
  CHECK(sent(Primitive::kReduceScatter, partial, split) == around(7 - 3, 7 - 2, 7 - 2));
  CHECK(sent(Primitive::kAllGather, split, whole) == around(7 - 2, 7 - 2, 7 - 3));
  CHECK(sent(Primitive::kBroadcast, whole, whole) ==
        std::vector<PairBytes>{{Rank(4), Rank(5), Bytes(7)}, {Rank(5), Rank(6), Bytes(7)}});
  CHECK(sent(Primitive::kShift, split, split) == around(3, 2, 2));
}

// 6 x 3 f32 in rows over 3: two rows of 12 B each, and one step of a ring that carries 3 x 24 B.
TEST_CASE("a shift costs one step of a ring") {
  const Placement both = line("x", 0, 3);
  const NdSbp rows = {Sbp::split(0)};
  const Communication shift = communication_of(Primitive::kShift);
  const CollectiveCost cost =
      collective_cost(shift, Shape{6, 3}, {&rows, &both}, {&rows, &both}, both.ranks);
  CHECK(cost.global_bytes == Bytes(72));
  CHECK(cost.largest_volume == Bytes(0));
}

TEST_CASE("pairs that send nothing are left out and others add up") {
  const Placement both = line("x", 0, 2);
  const NdSbp rows = {Sbp::split(0)}, whole = {Sbp::broadcast()};
  const Communication gather = communication_of(Primitive::kAllGather);
  Traffic traffic;
  // One row: rank 0 holds it, so only 0 -> 1 carries bytes; twice 3 f32.
  for (int time = 0; time < 2; ++time)
    add_traffic(gather, Shape{1, 3}, {&rows, &both}, {&whole, &both}, both.ranks, traffic);
  CHECK(pairs_of(traffic) == std::vector<PairBytes>{{Rank(0), Rank(1), Bytes(24)}});
}

TEST_CASE("an axis on which all members agree does not stop partial destinations") {
  Placement mesh;
  mesh.axes = {{"dp", 2}, {"tp", 2}};
  for (int rank = 0; rank < 4; ++rank) mesh.ranks.emplace_back(rank);
  const NdSbp from = {Sbp::partial(), Sbp::split(0)}, to = {Sbp::partial(), Sbp::split(1)};
  const std::vector<Rank> second = {Rank(2), Rank(3)};
  CHECK(box_moves(Shape{4, 4}, {&from, &mesh}, {&to, &mesh}, second).size() == 4);
}

// Two all_reduces of 10 and 6 elements of f32 and a send, all in launch group 0: the first
// all_reduce is asked for 64 bytes, the second for none; the send is on another queue and keeps its
// own.
TEST_CASE("a bucket is priced once, with the bytes of all its members") {
  PhysicalGraph graph;
  graph.placements = {line("x", 0, 2)};
  const auto layout = [&](std::int64_t elements, Sbp word) {
    graph.layouts.push_back({{Shape{elements}, DType::kF32}, {word}, PlacementId(0)});
    return LayoutId(graph.layouts.size() - 1);
  };
  Block block;
  const auto add = [&](std::int64_t elements, Primitive primitive, QueueRole queue) {
    Actor actor;
    actor.queue = queue;
    actor.communication = communication_of(primitive);
    actor.communication->from = layout(elements, Sbp::partial());
    actor.communication->to = layout(elements, Sbp::broadcast());
    block.actors.push_back(actor);
  };
  add(10, Primitive::kAllReduce, QueueRole::kCollective);
  add(3, Primitive::kBroadcast, QueueRole::kTransferOutForward);
  add(6, Primitive::kAllReduce, QueueRole::kCollective);
  graph.blocks = {block};
  RankProgram program;
  program.instances.resize(1);
  program.instances[InstanceId(0)].block = BlockId(0);
  for (std::int32_t actor = 0; actor < 3; ++actor)
    program.order.push_back({InstanceId(0), actor, 1, 0, LaunchGroupId(0)});
  graph.programs = {program};
  const auto bytes = [&](std::int32_t run) {
    return launched_cost(graph, ProgramId(0), RunId(run), graph.placements[PlacementId(0)].ranks)
        .global_bytes.value;
  };
  CHECK(bytes(0) == 64);
  CHECK(bytes(1) == 12);
  CHECK(bytes(2) == 0);
  for (Run& run : graph.programs[ProgramId(0)].order) run.launch_group = {};
  CHECK(bytes(0) == 40);
  CHECK(bytes(2) == 24);
}

}  // namespace
}  // namespace sextant::communication_volume_test
