// Ranks and groups are refined by actor/protocol/rank_classes.h, links and groups here, until
// neither splits.

#include "simulator/links/link_classes.h"

#include "simulator/links/group_communications.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace sextant {

namespace {

using Signature = std::vector<std::int64_t>;

// Sums of the same loads in another order are the same load.
std::int64_t rounded(double bytes) { return static_cast<std::int64_t>(static_cast<float>(bytes)); }

class Refinement {
 public:
  Refinement(const PhysicalGraph& graph, const GroupMembers& members, const NetworkModel& network,
             std::span<const std::int32_t> group_colours)
      : members_(members),
        group_colour_(group_colours.begin(), group_colours.end()),
        link_class_(network.links().size(), -1) {
    const GroupCommunications issued(graph, members);
    group_colour_.resize(graph.groups.size());
    demands_.resize(graph.groups.size());
    for (std::size_t group = 0; group < demands_.size(); ++group)
      for (const CollectiveCost& cost : issued.of(GroupId(group))) {
        demands_[group].emplace_back();
        network.demand(cost, demands_[group].back());
      }
    for (std::size_t link = 0; link < link_class_.size(); ++link)
      capacities_.push_back(rounded(network.links()[link].bytes_per_second));
  }

  std::span<const std::int32_t> group_colours() const { return group_colour_; }
  const std::vector<std::int32_t>& group_classes() const { return group_class_; }
  const std::vector<std::int32_t>& link_classes() const { return link_class_; }

  // One round; returns how many classes of groups and links there are.
  std::size_t refine(const RankClasses& ranks) {
    const std::size_t groups = number_groups(ranks);
    const std::size_t links = number_links();
    std::map<Signature, std::int32_t> colours;
    for (std::size_t group = 0; group < demands_.size(); ++group)
      group_colour_[group] = number(colours, by_links(group));
    return groups + links + colours.size();
  }

 private:
  static std::int32_t number(std::map<Signature, std::int32_t>& numbers, Signature signature) {
    const auto next = static_cast<std::int32_t>(numbers.size());
    return numbers.try_emplace(std::move(signature), next).first->second;
  }

  std::size_t number_groups(const RankClasses& ranks) {
    std::map<Signature, std::int32_t> numbers;
    group_class_.resize(demands_.size());
    for (std::size_t group = 0; group < demands_.size(); ++group) {
      std::vector<std::pair<std::int64_t, std::int64_t>> seen;
      for (const GroupMember& member : members_.of(GroupId(group)))
        seen.emplace_back(ranks.class_of[member.rank.index()], member.role);
      std::sort(seen.begin(), seen.end());
      Signature signature{group_colour_[group]};
      for (const auto& [rank_class, role] : seen) {
        signature.push_back(rank_class);
        signature.push_back(role);
      }
      group_class_[group] = number(numbers, std::move(signature));
    }
    return numbers.size();
  }

  std::size_t number_links() {
    // (link; group class, communication, load), each once per group.
    std::vector<std::pair<std::int32_t, std::array<std::int64_t, 3>>> uses;
    for (std::size_t group = 0; group < demands_.size(); ++group)
      for (std::size_t i = 0; i < demands_[group].size(); ++i)
        for (const LinkLoad& load : demands_[group][i].loads)
          uses.push_back(
              {load.link,
               {group_class_[group], static_cast<std::int64_t>(i), rounded(load.bytes)}});
    std::sort(uses.begin(), uses.end());
    std::map<Signature, std::int32_t> numbers;
    for (auto first = uses.begin(); first != uses.end();) {
      const auto link = static_cast<std::size_t>(first->first);
      Signature signature{link_class_[link], capacities_[link]};
      auto last = first;
      for (; last != uses.end() && last->first == first->first; ++last)
        signature.insert(signature.end(), last->second.begin(), last->second.end());
      new_class_.emplace_back(link, number(numbers, std::move(signature)));
      first = last;
    }
    for (const auto& [link, link_class] : new_class_) link_class_[link] = link_class;
    new_class_.clear();
    return numbers.size();
  }

  Signature by_links(std::size_t group) const {
    Signature signature{group_class_[group]};
    for (const NetworkDemand& demand : demands_[group]) {
      std::vector<std::pair<std::int64_t, std::int64_t>> loads;
      for (const LinkLoad& load : demand.loads)
        loads.emplace_back(link_class_[static_cast<std::size_t>(load.link)], rounded(load.bytes));
      std::sort(loads.begin(), loads.end());
      signature.push_back(demand.latency.value);
      signature.push_back(static_cast<std::int64_t>(loads.size()));
      for (const auto& [link_class, bytes] : loads) {
        signature.push_back(link_class);
        signature.push_back(bytes);
      }
    }
    return signature;
  }

  const GroupMembers& members_;
  std::vector<std::vector<NetworkDemand>> demands_;  // by group and communication
  std::vector<std::int32_t> group_colour_, group_class_, link_class_;
  std::vector<std::int64_t> capacities_;
  std::vector<std::pair<std::size_t, std::int32_t>> new_class_;
};

}  // namespace

LinkClasses link_classes(const PhysicalGraph& graph, const GroupMembers& members,
                         const NetworkModel& network, std::span<const std::int32_t> rank_colours,
                         std::span<const std::int32_t> group_colours, MemberOrder order) {
  Refinement refinement(graph, members, network, group_colours);
  LinkClasses classes;
  for (std::size_t count = 0, last = 1; count != last;) {
    classes.ranks = rank_classes(graph, members, rank_colours, refinement.group_colours(), order);
    last = std::exchange(count, classes.ranks.size() + refinement.refine(classes.ranks));
  }
  classes.group_class = refinement.group_classes();
  std::vector<bool> seen(refinement.link_classes().size());
  for (const std::int32_t link_class : refinement.link_classes()) {
    const bool stands = link_class >= 0 && !seen[static_cast<std::size_t>(link_class)];
    if (stands) seen[static_cast<std::size_t>(link_class)] = true;
    classes.is_representative.push_back(stands);
  }
  return classes;
}

}  // namespace sextant
