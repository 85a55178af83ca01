// Matching by (group number, occurrence); one call of the network model per communication.

#include "simulator/modes/fabric.h"

#include "core/base/check.h"
#include "core/costs/communication_volume.h"
#include "core/graphs/meeting_members.h"

#include <algorithm>

namespace sextant {

Fabric::Fabric(const PhysicalGraph& graph, const NetworkModel& network, RankClasses classes,
               std::span<const std::int32_t> group_colours)
    : graph_(graph), network_(network), classes_(std::move(classes)), groups_(graph.groups.size()) {
  const GroupMembers members(graph);
  std::map<std::pair<std::int32_t, std::vector<MemberKey>>, std::int32_t> numbers;
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    Group& group = groups_[index];
    for (const GroupMember& member : members.of(GroupId(index)))
      group.in_order.push_back({classes_.class_of[member.rank.index()], member.role});
    std::vector<MemberKey> keys = group.in_order;
    std::sort(keys.begin(), keys.end());
    const auto next = static_cast<std::int32_t>(numbers.size());
    const std::int32_t colour = group_colours.empty() ? 0 : group_colours[index];
    group.number = numbers.try_emplace({colour, keys}, next).first->second;
    group.distinct = static_cast<std::size_t>(std::unique(keys.begin(), keys.end()) - keys.begin());
  }
}

void Fabric::arrive(Arrival& arrival, std::int64_t ticket, Rank rank, RunId run,
                    const Communication& communication, Time at) {
  const std::lock_guard lock(mutex_);
  const GroupId group = graph_.ranks[rank].groups[static_cast<std::size_t>(communication.group)];
  const std::int64_t occurrence = occurrences_[{rank.value, communication.group}]++;
  const auto place = meetings_.try_emplace({groups_[group.index()].number, occurrence}).first;
  Meeting& meeting = place->second;
  if (meeting.participants.empty()) {
    meeting.group = group;
    meeting.program = graph_.ranks[rank].program;
    meeting.run = run;
    meeting.communication = &communication;
  }
  require(are_same(graph_, *meeting.communication, communication), ErrorCode::kInternal,
          "rank {} issues another communication in group '{}' than its peers, at occurrence {}",
          rank.value, graph_.groups[group].name, occurrence);
  const MemberKey key{classes_.class_of[rank.index()], communication.group};
  meeting.participants.push_back({key, &arrival, ticket, at});
  if (meeting.participants.size() < groups_[group.index()].distinct) return;
  const Meeting complete_one = std::move(meeting);
  meetings_.erase(place);
  complete(complete_one);
}

void Fabric::complete(const Meeting& meeting) {
  const std::vector<MemberKey>& members = groups_[meeting.group.index()].in_order;
  const auto participant_of = [&](const MemberKey& key) {
    return std::find_if(meeting.participants.begin(), meeting.participants.end(),
                        [&](const Participant& one) { return one.key == key; });
  };
  std::vector<Time> arrivals, done(members.size());
  for (const MemberKey& key : members) {
    const auto found = participant_of(key);
    require(found != meeting.participants.end(), ErrorCode::kInternal,
            "a member of group '{}' arrived twice", graph_.groups[meeting.group].name);
    arrivals.push_back(found->at);
  }
  network_.complete(
      launched_cost(graph_, meeting.program, meeting.run, graph_.groups[meeting.group].ranks),
      arrivals, done);
  if (counts_traffic_)
    add_traffic(graph_, *meeting.communication, graph_.groups[meeting.group].ranks, traffic_);
  const Time all_arrived = *std::max_element(arrivals.begin(), arrivals.end());
  for (const Participant& one : meeting.participants) {
    const auto member = std::find(members.begin(), members.end(), one.key) - members.begin();
    one.arrival->completed(one.ticket, all_arrived, done[static_cast<std::size_t>(member)]);
  }
}

}  // namespace sextant
