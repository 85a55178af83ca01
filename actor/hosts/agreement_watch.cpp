// Who is at which meeting, by count.
#include "actor/hosts/agreement_watch.h"

#include "core/base/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

void list_rank(std::string& list, Rank rank) {
  list += fmt::format("{}{}", list.empty() ? "" : ", ", rank.value);
}

}  // namespace

AgreementWatch::AgreementWatch(std::vector<Rank> ranks, std::size_t job_ranks,
                               std::function<std::chrono::nanoseconds()> now)
    : job_ranks_(job_ranks), now_(std::move(now)), last_change_(now_()) {
  for (const Rank rank : ranks) members_.push_back({rank, 0, {}, {}});
}

AgreementWatch::Member& AgreementWatch::member(Rank rank) {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const Member& one) { return one.rank == rank; });
  require(found != members_.end(), ErrorCode::kInternal, "rank {} is not watched", rank.value);
  return *found;
}

void AgreementWatch::enter(Rank rank, std::string_view name, Patience patience) {
  const std::lock_guard lock(mutex_);
  Member& own = member(rank);
  ++own.meetings;
  own.meeting = name;
  own.patience = patience;
  last_change_ = now_();
}

void AgreementWatch::leave(Rank rank) {
  const std::lock_guard lock(mutex_);
  member(rank).meeting.clear();
  last_change_ = now_();
}

std::optional<std::string> AgreementWatch::late() const {
  const std::lock_guard lock(mutex_);
  const std::chrono::nanoseconds quiet = now_() - last_change_;
  for (const Member& one : members_)
    if (!one.meeting.empty() && quiet > one.patience) return text_of(one);
  return std::nullopt;
}

std::string AgreementWatch::text_of(const Member& waiting) const {
  std::string arrived, missing;
  for (const Member& one : members_)
    list_rank(one.meetings >= waiting.meetings ? arrived : missing, one.rank);
  // Where all of this process came, it is others that are missing, if there are others.
  if (missing.empty()) missing = members_.size() == job_ranks_ ? "none" : "of other processes";
  return fmt::format(
      "rank {}: waited in agreement {} of all ranks, {}: ranks {} arrived, ranks {} did not; "
      "nothing "
      "came or went for {:g} s",
      waiting.rank.value, waiting.meetings, waiting.meeting, arrived, missing,
      std::chrono::duration<double>(waiting.patience).count());
}

}  // namespace sextant
