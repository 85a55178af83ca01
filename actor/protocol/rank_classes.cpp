// Colour refinement: split classes by what their groups look like until nothing splits.
#include "actor/protocol/rank_classes.h"

#include "core/base/check.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>

namespace sextant {
namespace {

// Numbers sequences in the order they are first seen. They lie one after the other in one vector.
class Numbering {
 public:
  explicit Numbering(std::size_t expected) { by_hash_.reserve(expected); }

  // The next sequence is put together here.
  std::vector<std::int32_t>& text() { return text_; }
  // Of what was put there since the last call.
  std::int32_t number() {
    const std::span<const std::int32_t> added = std::span(text_).subspan(end_);
    std::uint64_t hash = added.size();
    for (const std::int32_t value : added)
      hash = (hash ^ static_cast<std::uint32_t>(value)) * 0x9E3779B97F4A7C15U ^ (hash >> 29);
    for (auto [found, end] = by_hash_.equal_range(hash); found != end; ++found) {
      const auto [first, last] = known_[static_cast<std::size_t>(found->second)];
      if (!std::equal(added.begin(), added.end(), text_.begin() + first, text_.begin() + last))
        continue;
      text_.resize(end_);
      return found->second;
    }
    const auto next = static_cast<std::int32_t>(known_.size());
    known_.push_back(
        {static_cast<std::ptrdiff_t>(end_), static_cast<std::ptrdiff_t>(text_.size())});
    by_hash_.emplace(hash, next);
    end_ = text_.size();
    return next;
  }
  std::size_t size() const { return known_.size(); }

 private:
  std::vector<std::int32_t> text_;
  std::size_t end_ = 0;
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> known_;  // in text_
  std::unordered_multimap<std::uint64_t, std::int32_t> by_hash_;
};

// Classes and roles of the members: as a multiset, or in order.
void append_members(std::span<const GroupMember> members, MemberOrder order,
                    const std::vector<std::int32_t>& class_of, std::vector<std::int32_t>& text) {
  static_assert(sizeof(GroupRole) == sizeof(std::int32_t));
  thread_local std::vector<std::pair<std::int32_t, std::int32_t>> seen;
  seen.clear();
  for (const GroupMember& member : members)
    seen.push_back({class_of[member.rank.index()], member.role});
  if (order == MemberOrder::kAlike && !std::is_sorted(seen.begin(), seen.end()))
    std::sort(seen.begin(), seen.end());
  // Equal neighbours as one with their number: most groups have members of one class.
  for (std::size_t i = 0; i < seen.size();) {
    std::size_t end = i + 1;
    while (end < seen.size() && seen[end] == seen[i]) ++end;
    text.insert(text.end(), {seen[i].first, seen[i].second, static_cast<std::int32_t>(end - i)});
    i = end;
  }
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

GroupMembers::GroupMembers(const PhysicalGraph& graph) {
  first_role_.push_back(0);
  for (const RankBinding& rank : graph.ranks)
    first_role_.push_back(first_role_.back() + rank.groups.size());
  positions_.assign(first_role_.back(), -1);
  first_.push_back(0);
  for (const GroupId g : graph.groups.keys()) {
    const std::vector<Rank>& ranks = graph.groups[g].ranks;
    for (std::size_t i = 0; i < ranks.size(); ++i) add(graph, g, ranks[i], i);
    first_.push_back(members_.size());
  }
  for (const Rank r : graph.ranks.keys()) {
    const std::vector<GroupId>& roles = graph.ranks[r].groups;
    for (std::size_t role = 0; role < roles.size(); ++role) {
      require(roles[role].is_valid() && roles[role].index() < graph.groups.size(),
              ErrorCode::kBadInput, "rank {}: role {} names no group", r, role);
      require(positions_[first_role_[r.index()] + role] >= 0, ErrorCode::kBadInput,
              "rank {} is not a member of group '{}', which is its role {}", r,
              graph.groups[roles[role]].name, role);
    }
  }
}

void GroupMembers::add(const PhysicalGraph& graph, GroupId group, Rank rank, std::size_t position) {
  const std::string& name = graph.groups[group].name;
  require(rank.is_valid() && rank.index() < graph.ranks.size(), ErrorCode::kBadInput,
          "group '{}' lists rank {} of {}", name, rank.value, graph.ranks.size());
  const std::vector<GroupId>& roles = graph.ranks[rank].groups;
  const auto found = std::find(roles.begin(), roles.end(), group);
  require(found != roles.end(), ErrorCode::kBadInput,
          "rank {} is a member of group '{}' but names it in no role", rank.value, name);
  const auto again = std::find(found + 1, roles.end(), group);
  require(again == roles.end(), ErrorCode::kBadInput,
          "rank {} names group '{}' in roles {} and {}; two groups of equal ranks are two groups",
          rank.value, name, found - roles.begin(), again - roles.begin());
  const auto role = static_cast<std::size_t>(found - roles.begin());
  std::int32_t& known = positions_[first_role_[rank.index()] + role];
  require(known < 0, ErrorCode::kBadInput, "group '{}' lists a rank twice", name);
  known = static_cast<std::int32_t>(position);
  members_.push_back({rank, static_cast<GroupRole>(role)});
}

RankClasses rank_classes(const PhysicalGraph& graph, const GroupMembers& members,
                         std::span<const std::int32_t> rank_colours,
                         std::span<const std::int32_t> group_colours, MemberOrder order) {
  const std::size_t ranks = graph.ranks.size();
  const auto colour = [](std::span<const std::int32_t> colours, std::size_t i) {
    return colours.empty() ? 0 : colours[i];
  };
  std::vector<std::int32_t> class_of(ranks), next(ranks), group_class(graph.groups.size());
  Numbering start(graph.programs.size());
  for (std::size_t r = 0; r < ranks; ++r) {
    start.text().insert(start.text().end(),
                        {graph.ranks[Rank(r)].program.value, colour(rank_colours, r)});
    class_of[r] = start.number();
  }
  for (std::size_t count = start.size(), last = 0; count != last;) {
    Numbering groups(count), refined(count);
    for (const GroupId g : graph.groups.keys()) {
      groups.text().push_back(colour(group_colours, g.index()));
      append_members(members.of(g), order, class_of, groups.text());
      group_class[g.index()] = groups.number();
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      refined.text().push_back(class_of[r]);
      for (const GroupId group : graph.ranks[Rank(r)].groups)
        refined.text().push_back(group_class[group.index()]);
      if (order == MemberOrder::kDistinct) {
        const auto positions = members.positions_of(Rank(r));
        refined.text().insert(refined.text().end(), positions.begin(), positions.end());
      }
      next[r] = refined.number();
    }
    std::swap(class_of, next);
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
