// Greedy: from every call on, those behind it that can come to its place.
#include "actor/calls/call_groups.h"

#include "core/graphs/views.h"

#include <algorithm>

namespace sextant {
namespace {

bool overlap(const KernelOperand& a, const KernelOperand& b) {
  if (a.data == nullptr || b.data == nullptr) return false;  // between members alone
  return a.data < b.data + size_of(b.local).value && b.data < a.data + size_of(a.local).value;
}

bool any_overlap(const std::vector<KernelOperand>& these, const std::vector<KernelOperand>& those) {
  return std::any_of(these.begin(), these.end(), [&](const KernelOperand& a) {
    return std::any_of(those.begin(), those.end(),
                       [&](const KernelOperand& b) { return overlap(a, b); });
  });
}

bool may_swap(const KernelContext& a, const KernelContext& b) {
  if (is_view(*a.actor) || is_view(*b.actor)) return true;  // it moves no bytes
  return !any_overlap(a.out, b.in) && !any_overlap(a.out, b.out) && !any_overlap(a.in, b.out);
}

}  // namespace

std::vector<std::vector<std::size_t>> groups_of_calls(std::span<const KernelContext> calls,
                                                      std::span<const std::string> keys,
                                                      std::size_t most) {
  std::vector<std::vector<std::size_t>> groups;
  std::vector<bool> is_grouped(calls.size(), false);
  for (std::size_t first = 0; first < calls.size(); ++first) {
    if (keys[first].empty() || is_grouped[first]) continue;
    std::vector<std::size_t> group{first};
    for (std::size_t next = first + 1; next < calls.size() && group.size() < most; ++next) {
      if (keys[next] != keys[first] || is_grouped[next]) continue;
      const auto between = calls.subspan(first, next - first);
      if (std::all_of(between.begin(), between.end(),
                      [&](const KernelContext& call) { return may_swap(call, calls[next]); }))
        group.push_back(next);
    }
    if (group.size() < 2) continue;
    for (const std::size_t call : group) is_grouped[call] = true;
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace sextant
