// Collectives whose members are in several processes, here threads that share no buffers: the same
// bits as in one process, wherever the members are, and messages of the volumes that are counted.
#include "actor/hosts/host_group.h"
#include "actor/hosts/rank_threads.h"
#include "backends/cpu/collectives.h"
#include "core/base/elements.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant::spread_collectives_test {
namespace {

using Bytes2 = std::vector<std::vector<std::byte>>;

// A tensor [extent, 3] under two layouts, each on a line of devices.
struct Exchange {
  PhysicalGraph graph;
  Communication communication;
  std::vector<Rank> ranks;

  Exchange(Primitive primitive, std::int64_t extent, const std::vector<int>& from_ranks,
           const std::string& from, const std::vector<int>& to_ranks, const std::string& to,
           DType dtype) {
    add_side(from_ranks, from, extent, dtype);
    add_side(to_ranks, to, extent, dtype);
    communication.primitive = primitive;
    communication.dtype = dtype;
    communication.from = LayoutId(0);
    communication.to = LayoutId(1);
  }

  std::int64_t elements(std::size_t side, std::size_t member) const {
    const Placement& placement = graph.placements[PlacementId(side)];
    const auto index = placement.index_of(ranks[member]);
    if (!index) return -1;
    return shard_of(graph.layouts[LayoutId(side)].global.shape, graph.layouts[LayoutId(side)].words,
                    placement.hierarchy(), placement.coordinates_of(*index))
        .elements();
  }

  // Values that no order of addition but one gives the same sum.
  Bytes2 inputs() const {
    Bytes2 all;
    for (std::size_t member = 0; member < ranks.size(); ++member) {
      std::vector<double> values(
          static_cast<std::size_t>(std::max<std::int64_t>(0, elements(0, member))));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = 1.0 / static_cast<double>(3 + (i * 7 + member * 13) % 29) +
                    static_cast<double>((member * 5 + i) % 4) * 100.0;
      all.emplace_back(values.size() * size());
      store_from_double(communication.dtype, values, all.back().data());
    }
    return all;
  }
  Bytes2 outputs() const {
    Bytes2 all;
    for (std::size_t member = 0; member < ranks.size(); ++member)
      all.emplace_back(static_cast<std::size_t>(std::max<std::int64_t>(0, elements(1, member))) *
                       size());
    return all;
  }
  std::vector<MemberBuffers> buffers(Bytes2& in, Bytes2& out, bool accumulate) const {
    std::vector<MemberBuffers> all(ranks.size());
    for (std::size_t member = 0; member < ranks.size(); ++member) {
      if (elements(0, member) >= 0) all[member].in = in[member].data();
      if (elements(1, member) >= 0) all[member].out = out[member].data();
      all[member].accumulate = accumulate;
    }
    return all;
  }
  std::size_t size() const { return static_cast<std::size_t>(size_of(communication.dtype).value); }

 private:
  void add_side(const std::vector<int>& side, const std::string& words, std::int64_t extent,
                DType dtype) {
    Placement placement{{{"x", static_cast<std::int64_t>(side.size())}}, {}};
    for (const int rank : side) {
      placement.ranks.emplace_back(rank);
      if (std::find(ranks.begin(), ranks.end(), Rank(rank)) == ranks.end())
        ranks.emplace_back(rank);
    }
    const auto id = PlacementId(graph.placements.size());
    graph.placements.push_back(placement);
    graph.layouts.push_back({{Shape({extent, 3}), dtype}, parse_nd_sbp(words), id});
  }
};

// Messages between "processes", which are counted.
class CountedLinks final : public MemberLinks {
 public:
  CountedLinks(HostGroup& group, std::vector<std::size_t> homes)
      : group_(group), homes_(std::move(homes)) {}
  std::size_t home(std::size_t member) const override { return homes_[member]; }
  std::size_t here() const override { return group_.rank().index(); }
  void send(std::size_t process, std::span<const std::byte> bytes) override {
    CHECK(process != here());
    sent[process] += static_cast<std::int64_t>(bytes.size());
    group_.send(Rank(process), kTag, {bytes.begin(), bytes.end()});
  }
  void receive(std::size_t process, std::span<std::byte> bytes) override {
    const HostBytes received = group_.receive(Rank(process), kTag);
    CHECK(received.size() == bytes.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), received.data(), bytes.size());
  }

  std::map<std::size_t, std::int64_t> sent;

 private:
  static constexpr HostTag kTag{HostSubject::kTest, 0};
  HostGroup& group_;
  std::vector<std::size_t> homes_;
};

void check_spread(const Exchange& exchange, const std::vector<std::size_t>& homes,
                  bool accumulate) {
  Bytes2 in = exchange.inputs(), out = exchange.outputs();
  Traffic whole;
  run_collective({&exchange.graph, &exchange.communication, exchange.ranks,
                  exchange.buffers(in, out, accumulate), nullptr},
                 whole);
  const std::size_t processes = *std::max_element(homes.begin(), homes.end()) + 1;
  ThreadHostGroups groups(processes);
  std::vector<Bytes2> ins(processes, exchange.inputs()), outs(processes, exchange.outputs());
  std::vector<Traffic> parts(processes);
  std::vector<std::map<std::size_t, std::int64_t>> sent(processes);
  on_rank_threads(
      processes,
      [&](std::size_t p) {
        CountedLinks links(groups.of(Rank(p)), homes);
        std::vector<MemberBuffers> buffers = exchange.buffers(ins[p], outs[p], accumulate);
        for (std::size_t member = 0; member < homes.size(); ++member)
          if (homes[member] != p) buffers[member] = {};
        run_collective({&exchange.graph, &exchange.communication, exchange.ranks, buffers, &links},
                       parts[p]);
        sent[p] = links.sent;
      },
      [&](const std::string& reason) { groups.abort(reason); });
  Traffic sum;
  for (const Traffic& part : parts)
    for (const auto& [pair, bytes] : part) sum[pair] += bytes;
  CHECK(sum == whole);
  std::vector<std::map<std::size_t, std::int64_t>> planned(processes);
  for (const auto& [pair, bytes] : whole) {
    const auto home = [&](Rank rank) {
      return homes[static_cast<std::size_t>(
          std::find(exchange.ranks.begin(), exchange.ranks.end(), rank) - exchange.ranks.begin())];
    };
    if (home(pair.first) != home(pair.second))
      planned[home(pair.first)][home(pair.second)] += bytes.value;
  }
  CHECK(sent == planned);
  for (std::size_t member = 0; member < homes.size(); ++member) {
    CHECK(outs[homes[member]][member] == out[member]);
    CHECK(ins[homes[member]][member] == in[member]);
  }
}

const std::vector<std::vector<std::size_t>> kHomes = {
    {0, 1, 1, 1}, {0, 0, 1, 1}, {0, 1, 0, 1}, {2, 0, 1, 0}, {3, 1, 2, 0}};

}  // namespace

TEST_CASE("collectives over processes give the bits and move the volumes of one process") {
  struct Row {
    Primitive primitive;
    const char* from;
    const char* to;
  };
  const std::vector<int> line = {0, 1, 2, 3};
  for (const Row& row :
       {Row{Primitive::kAllReduce, "P(sum)", "B"}, Row{Primitive::kReduceScatter, "P(sum)", "S(0)"},
        Row{Primitive::kAllGather, "S(0)", "B"}, Row{Primitive::kBroadcast, "B", "B"},
        Row{Primitive::kAllToAll, "S(0)", "S(1)"}, Row{Primitive::kShift, "S(0)", "S(0)"}})
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64})
      for (const std::int64_t extent : {0, 3, 8})
        for (const bool accumulate : {false, true})
          for (const std::vector<std::size_t>& homes : kHomes) {
            if (row.primitive == Primitive::kShift && extent % 4 != 0) continue;
            CAPTURE(to_string(row.primitive));
            check_spread({row.primitive, extent, line, row.from, line, row.to, dtype}, homes,
                         accumulate);
          }
}

TEST_CASE("transfers over processes, of partial values and to ranks on both sides") {
  for (const std::vector<std::size_t>& homes : kHomes) {
    for (const char* from : {"S(0)", "B", "P(sum)"})
      check_spread({Primitive::kTransfer, 7, {0, 1}, from, {2, 3}, "S(0)", DType::kF32}, homes,
                   false);
    check_spread({Primitive::kTransfer, 7, {0, 1, 2}, "S(0)", {2, 1, 3}, "S(1)", DType::kBF16},
                 homes, false);
  }
}

TEST_CASE("an all_reduce of several pieces over processes has the bits of one process") {
  for (const std::vector<std::size_t>& homes : kHomes)
    check_spread(
        {Primitive::kAllReduce, 50'001, {0, 1, 2, 3}, "P(sum)", {0, 1, 2, 3}, "B", DType::kF32},
        homes, false);
}

// Of [8, 3] floats over four members a part is 2 * 3 * 4 = 24 bytes, the whole is 96.
TEST_CASE("memory of a collective over processes counts scratch of all members and messages") {
  const std::vector<int> line = {0, 1, 2, 3};
  const auto bytes = [&](Primitive primitive, const char* from, const char* to,
                         const std::optional<MemberHomes>& homes) {
    const Exchange exchange{primitive, 8, line, from, line, to, DType::kF32};
    return scratch_bytes(exchange.graph, exchange.communication, exchange.ranks, homes).value;
  };
  const MemberHomes alone{{0, 0, 0, 0}, 0}, one_of_four{{0, 1, 1, 1}, 0},
      three_of_four{{0, 1, 1, 1}, 1};
  // In one process outputs are written from inputs.
  CHECK(bytes(Primitive::kAllGather, "S(0)", "B", std::nullopt) == 0);
  CHECK(bytes(Primitive::kAllGather, "S(0)", "B", alone) == 0);
  // Parts of three others, or of one, and two messages of a part.
  CHECK(bytes(Primitive::kAllGather, "S(0)", "B", one_of_four) == 3 * 24 + 2 * 24);
  CHECK(bytes(Primitive::kAllGather, "S(0)", "B", three_of_four) == 1 * 24 + 2 * 24);
  CHECK(bytes(Primitive::kBroadcast, "B", "B", one_of_four) == 2 * 96);  // the first member is here
  CHECK(bytes(Primitive::kBroadcast, "B", "B", three_of_four) == 96 + 2 * 96);
  // The parts of all four, in every process.
  CHECK(bytes(Primitive::kReduceScatter, "P(sum)", "S(0)", alone) == 4 * 24);
  CHECK(bytes(Primitive::kReduceScatter, "P(sum)", "S(0)", one_of_four) == 4 * 24 + 2 * 24);
  // Three columns of 8 * 4 = 32 bytes are parts of three members.
  CHECK(bytes(Primitive::kAllToAll, "S(0)", "S(1)", one_of_four) == 3 * 32 + 2 * 32);
}

}  // namespace sextant::spread_collectives_test
