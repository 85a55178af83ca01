// G57 as a law: nothing that is one step costs more than the same thing in parts, and no plan costs
// more than a detour, on the networks of all built-in clusters.
#include "sbp/boxing.h"
#include "sbp/boxing_plans.h"
#include "simulator/clusters/builtin_clusters.h"
#include "simulator/costs/models.h"
#include "tests/support/long_run.h"
#include "tests/support/mesh_words.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sextant::boxing_costs_test {
namespace {

constexpr std::int64_t kDevices = 64;

// Each built-in with 64 devices, where its nodes allow that.
std::vector<Cluster> clusters() {
  std::vector<Cluster> all;
  for (const BuiltinCluster& builtin : builtin_clusters()) {
    std::vector<std::int64_t> values;
    for (const BuiltinSetting& setting : builtin.settings) values.push_back(setting.fallback);
    values[0] = 1;
    values[0] = kDevices / builtin.make(values).num_devices();
    if (values[0] == 0) continue;  // racks of 72
    all.push_back(builtin.make(values));
    REQUIRE(all.back().num_devices() == kDevices);
  }
  return all;
}

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint32_t>(bound));
  }
  // Every order of magnitude alike, and the small ones in full.
  std::int64_t size() { return below(1 << (1 + below(30))); }
  template <typename T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(list.size())))];
  }
  template <typename T>
  void shuffle(std::vector<T>& list) {
    std::shuffle(list.begin(), list.end(), engine_);
  }
  std::vector<Rank> devices(std::int64_t count) {
    std::vector<Rank> all;
    for (std::int64_t i = 0; i < kDevices; ++i) all.emplace_back(static_cast<int>(i));
    std::shuffle(all.begin(), all.end(), engine_);
    all.resize(static_cast<std::size_t>(count));
    return all;
  }

 private:
  std::mt19937 engine_;
};

Duration time_of(const NetworkModel& network, Primitive primitive, const std::vector<Rank>& members,
                 std::int64_t bytes) {
  Communication communication;
  communication.primitive = primitive;
  CollectiveCost cost;
  cost.communication = &communication;
  cost.members = members;
  cost.global_bytes = Bytes(bytes);
  return network.duration(cost);
}

TEST_CASE("G57: all_reduce is never dearer than reduce_scatter and all_gather, on any cluster") {
  Random random(57);
  for (const Cluster& cluster : clusters()) {
    CAPTURE(cluster.name);
    const std::unique_ptr<NetworkModel> network = make_network_model(cluster);
    for (std::int64_t members = 2; members <= kDevices; ++members) {
      std::vector<std::vector<Rank>> groups = {random.devices(members), random.devices(members)};
      std::sort(groups[0].begin(), groups[0].end());
      std::vector<Rank> consecutive;
      for (std::int64_t i = 0; i < members; ++i) consecutive.emplace_back(static_cast<int>(i));
      groups.push_back(consecutive);
      std::vector<std::int64_t> sizes = {0, 1, members - 1, members, std::int64_t{1} << 40};
      for (int i = 0; i < 20; ++i) sizes.push_back(random.size());
      for (const std::vector<Rank>& group : groups)
        for (const std::int64_t bytes : sizes) {
          const Duration direct = time_of(*network, Primitive::kAllReduce, group, bytes);
          const Duration parts = time_of(*network, Primitive::kReduceScatter, group, bytes) +
                                 time_of(*network, Primitive::kAllGather, group, bytes);
          if (direct > parts)
            FAIL_CHECK(members << " members, " << bytes << " bytes: " << direct.value
                               << " ps, in parts " << parts.value << " ps");
        }
    }
  }
}

Placement mesh(const std::vector<std::int64_t>& extents, std::vector<Rank> devices) {
  Placement placement;
  for (const std::int64_t extent : extents)
    placement.axes.push_back({"a" + std::to_string(placement.axes.size()), extent});
  placement.ranks = std::move(devices);
  return placement;
}

const std::vector<Sbp> kLetters = {Sbp::broadcast(), Sbp::split(0), Sbp::split(1), Sbp::partial()};

// Plans of one tensor on one placement, made when asked for.
class Costs {
 public:
  Costs(Shape shape, Placement placement, const NetworkModel* network, const CostModel* cost)
      : shape_(std::move(shape)),
        placement_(std::move(placement)),
        network_(network),
        cost_(cost) {}

  // Time first and then bytes, or bytes alone.
  std::pair<std::int64_t, std::int64_t> of(const NdSbp& from, const NdSbp& to) {
    const auto [known, is_new] = costs_.try_emplace({from, to});
    if (is_new) {
      const BoxingPlan plan = plan_boxing({.type = {shape_, DType::kBF16},
                                           .from_placement = &placement_,
                                           .to_placement = &placement_,
                                           .from = from,
                                           .to = to,
                                           .network = network_,
                                           .cost = cost_});
      known->second = {network_ != nullptr ? plan.time.value : plan.total_bytes.value,
                       plan.total_bytes.value};
    }
    return known->second;
  }

  void check(const NdSbp& a, const NdSbp& b, const NdSbp& c) {
    const auto direct = of(a, c), first = of(a, b), second = of(b, c);
    if (direct.first > first.first + second.first)
      FAIL_CHECK(to_string(shape_)
                 << " on " << to_string(placement_) << ": " << to_string(a) << " -> "
                 << to_string(c) << " costs " << direct.first << ", through " << to_string(b) << " "
                 << first.first << " + " << second.first);
  }

 private:
  Shape shape_;
  Placement placement_;
  const NetworkModel* network_;
  const CostModel* cost_;
  std::map<std::pair<NdSbp, NdSbp>, std::pair<std::int64_t, std::int64_t>> costs_;
};

const std::vector<std::vector<std::int64_t>> kOneAndTwoAxes = {{2},    {3},    {8},
                                                               {2, 2}, {2, 3}, {4, 2}};
const std::vector<std::vector<std::int64_t>> kThreeAxes = {{2, 2, 2}, {2, 3, 2}};

void check_triangles(const std::vector<std::vector<std::int64_t>>& meshes, std::int64_t triples,
                     const NetworkModel* network, const CostModel* cost, Random& random) {
  for (const std::vector<std::int64_t>& extents : meshes) {
    const std::int64_t size =
        std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
    const std::vector<NdSbp> words = testing::words_over(kLetters, extents.size());
    for (const Shape& shape : {Shape{5, 7}, Shape{1, 3}, Shape{2048, 512}}) {
      Costs costs(shape, mesh(extents, random.devices(size)), network, cost);
      const auto all = static_cast<std::int64_t>(words.size() * words.size() * words.size());
      if (all <= triples) {
        for (const NdSbp& a : words)
          for (const NdSbp& b : words)
            for (const NdSbp& c : words) costs.check(a, b, c);
      } else {
        for (std::int64_t i = 0; i < triples; ++i)
          costs.check(random.pick(words), random.pick(words), random.pick(words));
      }
    }
  }
}

TEST_CASE("G57: by bytes the direct way is never dearer than any detour") {
  Random random(1);
  check_triangles(kOneAndTwoAxes, 5000, nullptr, nullptr, random);
  check_triangles(kThreeAxes, 2000, nullptr, nullptr, random);
}

TEST_CASE("G57: by time the direct way is never dearer than any detour, on any cluster") {
  Random random(2);
  for (const Cluster& cluster : clusters()) {
    CAPTURE(cluster.name);
    const auto cost = make_cost_model(cluster, cluster.device.peaks.front().dtype);
    for (const auto& network : {make_network_model(cluster), make_alpha_beta(cluster)}) {
      check_triangles(kOneAndTwoAxes, is_long_run() ? 750 : 250, network.get(), cost.get(), random);
      check_triangles(kThreeAxes, is_long_run() ? 125 : 50, network.get(), cost.get(), random);
    }
  }
}

}  // namespace
// Stages of 16 devices: each next to the one before, devices in order or shuffled alike.
std::vector<Placement> stages_of(const std::vector<std::size_t>& order) {
  std::vector<Placement> stages;
  for (int stage = 0; stage < 4; ++stage) {
    stages.push_back(consecutive_placement({{"a", 4}, {"b", 4}}, Rank(16 * stage)));
    const std::vector<Rank> ranks = stages.back().ranks;
    for (std::size_t i = 0; i < ranks.size(); ++i) stages.back().ranks[i] = ranks[order[i]];
  }
  return stages;
}

TEST_CASE("stages that lie alike share plans, which are those that are made anew, on any cluster") {
  Random random(11);
  std::vector<std::size_t> order(16);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::vector<Sbp> letters = {Sbp::broadcast(), Sbp::split(0), Sbp::split(1), Sbp::partial()};
  std::size_t shared = 0, asked = 0;
  for (const Cluster& cluster : clusters()) {
    const auto network = make_network_model(cluster);
    const DType dtype = cluster.device.peaks.front().dtype;
    const auto cost = make_cost_model(cluster, dtype);
    for (int round = 0; round < 4; ++round) {
      BoxingPlans plans(BoxingObjective::kTime, network.get(), cost.get());
      const std::vector<Placement> stages = stages_of(order);
      const NdSbp from = {random.pick(letters), random.pick(letters)};
      const NdSbp to = {random.pick(letters), random.pick(letters)};
      const TensorType type{Shape{64, 1 + random.below(4096)}, dtype};
      const BoxedTypeId number = plans.type(type);
      for (std::size_t stage = 0; stage < stages.size(); ++stage)
        for (const std::size_t next : {stage, std::min(stage + 1, stages.size() - 1)}) {
          const BoxingRequest request{.type = type,
                                      .from_placement = &stages[stage],
                                      .to_placement = &stages[next],
                                      .from = from,
                                      .to = to,
                                      .network = network.get(),
                                      .cost = cost.get()};
          const BoxingPlan& known = plans.plan(number, plans.placement(stages[stage]), from,
                                               plans.placement(stages[next]), to);
          const BoxingPlan anew = plan_boxing(request);
          CHECK(known.steps == anew.steps);
          CHECK(known.total_bytes == anew.total_bytes);
          CHECK(known.time == anew.time);
          ++asked;
        }
      shared += plans.size() == 2 ? 1 : 0;
      random.shuffle(order);
    }
  }
  // Where nodes are joined by a switch, all stages are alike: one plan inside them, one between.
  CHECK(shared >= 4);
  CHECK(asked > 0);
}

}  // namespace sextant::boxing_costs_test
