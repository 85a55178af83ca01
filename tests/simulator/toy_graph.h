// Physical graphs written by hand for tests of virtual time: every operator is a block and an
// instance of its own, its duration is its number of FLOPs in picoseconds.
#pragma once

#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

struct ToyRead {
  std::string op;
  std::int32_t consume_for = 1;
};

struct ToyCommunication {
  Primitive primitive = Primitive::kAllReduce;
  Side side = Side::kBoth;
  std::string group;  // role by name
  std::int64_t bytes = 0;
};

struct ToyOp {
  std::string name;
  QueueRole queue = QueueRole::kCompute;
  std::int64_t picoseconds = 0;
  std::vector<ToyRead> reads = {};
  std::optional<ToyCommunication> communication = std::nullopt;
  std::int32_t acts = 1;
  std::int32_t acts_per_content = 1;
  std::int32_t registers = 0;  // 0: one per content
  bool writes = true;
  bool state = false;
  Phase phase = Phase::kForward;
};

struct ToyRun {
  std::string op;
  std::int32_t act = 0;
  LaunchGroupId launch_group = {};
};

struct ToyProgram {
  std::string name;
  std::vector<ToyOp> ops;  // producers before readers, states aside
  std::vector<ToyRun> order;
};

// Groups of one rank by role name; every rank of a program names the same roles.
struct ToyRank {
  std::int32_t program = 0;
  std::vector<std::pair<std::string, std::string>> groups;  // role, group
};

struct ToyGroup {
  std::string name;
  std::vector<int> ranks;
};

PhysicalGraph make_toy_graph(const std::vector<ToyProgram>& programs,
                             const std::vector<ToyRank>& ranks,
                             const std::vector<ToyGroup>& groups);

// FLOPs are picoseconds; a launch costs the host nothing, or what it is told to.
class ToyCost : public CostModel {
 public:
  explicit ToyCost(std::int64_t launch_cost = 0) : launch_cost_(launch_cost) {}
  Duration duration(const Work& work) const override {
    return Duration(static_cast<std::int64_t>(work.flops));
  }
  Duration launch_cost() const override { return Duration(launch_cost_); }

 private:
  std::int64_t launch_cost_;
};

// A collective takes one picosecond per byte of its tensor, a transfer what it is told to. All
// members end together.
class ToyNetwork : public NetworkModel {
 public:
  explicit ToyNetwork(std::int64_t transfer = 0) : transfer_(transfer) {}
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override;
  Duration duration(const CollectiveCost& cost) const override;
  bool completes_together() const override { return true; }

 private:
  std::int64_t transfer_;
};

}  // namespace sextant
