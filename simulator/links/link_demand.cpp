// One question to the network model per distinct cost, or per group of a class.

#include "simulator/links/link_demand.h"

#include "core/base/at.h"
#include "simulator/steps/run_facts.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sextant {

namespace {

class DemandTable {
 public:
  DemandTable(const PhysicalGraph& graph, const Tape& tape, const NetworkModel& network,
              const LinkClasses* classes)
      : graph_(graph), tape_(tape), network_(network), classes_(classes) {}

  LinkDemands run() {
    LinkDemands result;
    for (const SharedLink& link : network_.links())
      result.capacities.push_back(link.bytes_per_second);
    std::map<Asked, std::int32_t> known;
    if (classes_ != nullptr) list_groups();
    for (const TapeMeeting& meeting : tape_.meetings) {
      auto key = calls_of(meeting);
      const auto next = static_cast<std::int32_t>(result.distinct.size());
      const auto [place, is_new] = known.try_emplace(key, next);
      if (is_new) result.distinct.push_back(demand_of(key));
      result.of_meeting.push_back(place->second);
    }
    return result;
  }

 private:
  // Costs and group classes; without classes the group class is -1.
  using Asked = std::vector<std::pair<TapeCostId, std::int32_t>>;

  // Of every call, each once.
  Asked calls_of(const TapeMeeting& meeting) const {
    Asked calls;
    for (const TapeCallId c : meeting.calls()) {
      const std::int32_t group_class = classes_ == nullptr ? -1 : class_of_call(c);
      const bool known = std::any_of(calls.begin(), calls.end(), [&](const auto& other) {
        return group_class >= 0 && other.second == group_class;
      });
      if (!known) calls.emplace_back(tape_.calls[c].cost, group_class);
    }
    return calls;
  }

  std::int32_t class_of_call(TapeCallId call) const {
    const TapeMeeting& meeting = tape_.meetings[tape_.calls[call].meeting];
    for (std::int32_t i = 0; i < meeting.num_entries; ++i) {
      const TapeEntry& entry =
          tape_.entries[at(tape_.meeting_entries[at(meeting.first_entry + i)])];
      if (entry.call != call) continue;
      const Actor& actor = first_actor_of(graph_, entry.rank, entry.run);
      const GroupId group = graph_.ranks[entry.rank].groups[at(actor.communication->group)];
      return classes_->group_class[group.index()];
    }
    return -1;
  }

  void list_groups() {
    for (std::size_t group = 0; group < classes_->group_class.size(); ++group) {
      const std::size_t c = at(classes_->group_class[group]);
      if (c >= groups_of_class_.size()) groups_of_class_.resize(c + 1);
      groups_of_class_[c].push_back(group);
    }
  }

  LinkDemand demand_of(const Asked& calls) {
    LinkDemand result;
    std::map<std::int32_t, double> bytes;
    double most = 0;
    for (const auto& [cost, group_class] : calls) {
      CollectiveCost asked = tape_.costs[cost];
      if (group_class < 0) {
        add(asked, bytes, most, result);
        continue;
      }
      for (const std::size_t group : groups_of_class_[at(group_class)]) {
        asked.members = graph_.groups[GroupId(group)].ranks;
        add(asked, bytes, most, result);
      }
    }
    if (most == 0) return result;
    for (const auto& [link, load] : bytes) result.loads.push_back({link, load / most});
    return result;
  }

  // The rate is that of one group; on links that stand for a class, the loads are those of all.
  void add(const CollectiveCost& cost, std::map<std::int32_t, double>& bytes, double& most,
           LinkDemand& result) {
    network_.demand(cost, demand_);
    result.latency = demand_.latency;
    double largest = 0;
    for (const LinkLoad& load : demand_.loads) {
      if (load.bytes <= 0) continue;
      largest = std::max(largest, load.bytes);
      if (classes_ == nullptr || classes_->is_representative[at(load.link)])
        bytes[load.link] += load.bytes;
    }
    if (largest == 0) return;
    most = largest;
    result.full_rate = largest / to_seconds(network_.duration(cost) - demand_.latency);
  }

  const PhysicalGraph& graph_;
  const Tape& tape_;
  const NetworkModel& network_;
  const LinkClasses* classes_;
  std::vector<std::vector<std::size_t>> groups_of_class_;
  NetworkDemand demand_;
};

}  // namespace

LinkDemands link_demands(const PhysicalGraph& graph, const Tape& tape, const NetworkModel& network,
                         const LinkClasses* classes) {
  return DemandTable(graph, tape, network, classes).run();
}

}  // namespace sextant
