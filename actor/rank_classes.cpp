// Colour refinement: split classes by what their groups look like until nothing splits.
#include "actor/rank_classes.h"

#include "core/check.h"

#include <algorithm>
#include <map>

namespace sextant {
namespace {

using Signature = std::vector<std::int32_t>;

// Numbers signatures in the order they are first seen.
class Numbering {
 public:
  std::int32_t number_of(const Signature& signature) {
    const auto next = static_cast<std::int32_t>(numbers_.size());
    return numbers_.emplace(signature, next).first->second;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<Signature, std::int32_t> numbers_;
};

Signature group_signature(std::span<const GroupMember> members, std::int32_t colour,
                          const std::vector<std::int32_t>& class_of) {
  std::vector<std::pair<std::int32_t, std::int32_t>> seen;
  seen.reserve(members.size());
  for (const GroupMember& member : members) {
    seen.push_back({class_of[member.rank.index()], member.role});
  }
  std::sort(seen.begin(), seen.end());
  Signature signature{colour};
  for (const auto& [rank_class, role] : seen) {
    signature.push_back(rank_class);
    signature.push_back(role);
  }
  return signature;
}

RankClasses with_representatives(std::vector<std::int32_t> class_of) {
  RankClasses classes;
  for (std::size_t rank = 0; rank < class_of.size(); ++rank) {
    if (static_cast<std::size_t>(class_of[rank]) == classes.representatives.size()) {
      classes.representatives.push_back(Rank(rank));
    }
  }
  classes.class_of = std::move(class_of);
  return classes;
}

}  // namespace

GroupMembers::GroupMembers(const PhysicalGraph& graph) : members_(graph.groups.size()) {
  // Position in the group by (group, rank), to keep group order.
  std::vector<std::map<Rank, std::size_t>> position(graph.groups.size());
  for (std::size_t g = 0; g < graph.groups.size(); ++g) {
    const std::vector<Rank>& ranks = graph.groups[g].ranks;
    members_[g].resize(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) position[g].emplace(ranks[i], i);
    require(position[g].size() == ranks.size(), ErrorCode::kBadInput,
            "group '{}' lists a rank twice", graph.groups[g].name);
  }
  for (std::size_t r = 0; r < graph.ranks.size(); ++r) {
    const std::vector<GroupId>& roles = graph.ranks[r].groups;
    for (std::size_t role = 0; role < roles.size(); ++role) {
      require(roles[role].is_valid() && roles[role].index() < graph.groups.size(),
              ErrorCode::kBadInput, "rank {}: role {} names no group", r, role);
      const std::size_t g = roles[role].index();
      const auto found = position[g].find(Rank(r));
      require(found != position[g].end(), ErrorCode::kBadInput,
              "rank {} is not a member of group '{}', which is its role {}", r,
              graph.groups[g].name, role);
      GroupMember& member = members_[g][found->second];
      require(
          !member.rank.is_valid(), ErrorCode::kBadInput,
          "rank {} names group '{}' in roles {} and {}; two groups of equal ranks are two groups",
          r, graph.groups[g].name, member.role, role);
      member = {Rank(r), static_cast<GroupRole>(role)};
    }
  }
  for (std::size_t g = 0; g < members_.size(); ++g) {
    for (std::size_t i = 0; i < members_[g].size(); ++i) {
      require(members_[g][i].rank.is_valid(), ErrorCode::kBadInput,
              "rank {} is a member of group '{}' but names it in no role",
              graph.groups[g].ranks[i].value, graph.groups[g].name);
    }
  }
}

RankClasses rank_classes(const PhysicalGraph& graph, const GroupMembers& members,
                         std::span<const std::int32_t> rank_colours,
                         std::span<const std::int32_t> group_colours) {
  const std::size_t ranks = graph.ranks.size();
  const auto colour = [](std::span<const std::int32_t> colours, std::size_t i) {
    return colours.empty() ? 0 : colours[i];
  };
  std::vector<std::int32_t> class_of(ranks);
  Numbering start;
  for (std::size_t r = 0; r < ranks; ++r) {
    class_of[r] = start.number_of({graph.ranks[r].program.value, colour(rank_colours, r)});
  }
  for (std::size_t count = start.size(), last = 0; count != last;) {
    Numbering groups, refined;
    std::vector<std::int32_t> group_class(graph.groups.size());
    for (std::size_t g = 0; g < graph.groups.size(); ++g) {
      group_class[g] = groups.number_of(
          group_signature(members.of(GroupId(g)), colour(group_colours, g), class_of));
    }
    std::vector<std::int32_t> next(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      Signature signature{class_of[r]};
      for (const GroupId group : graph.ranks[r].groups) {
        signature.push_back(group_class[group.index()]);
      }
      next[r] = refined.number_of(signature);
    }
    class_of = std::move(next);
    last = count;
    count = refined.size();
  }
  return with_representatives(std::move(class_of));
}

RankClasses all_ranks(const PhysicalGraph& graph) {
  std::vector<std::int32_t> class_of(graph.ranks.size());
  for (std::size_t r = 0; r < class_of.size(); ++r) class_of[r] = static_cast<std::int32_t>(r);
  return with_representatives(std::move(class_of));
}

}  // namespace sextant
