// One pass over the entries in the order they are evaluated.
#include "actor/tapes/flat_tape.h"

#include "core/base/at.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

void sort_seen_later(FlatTape& flat) {
  std::sort(flat.seen_later.begin(), flat.seen_later.end());
  flat.seen_later.erase(std::unique(flat.seen_later.begin(), flat.seen_later.end()),
                        flat.seen_later.end());
}

// The wait of an entry as a flat tape has it.
std::int32_t flat_wait(FlatTape& flat, std::int32_t e, const TapeWait& wait) {
  if (wait.lag == 0) return wait.entry;
  flat.seen_later.push_back(wait.entry);
  if (wait.entry >= e) return wait.entry;
  flat.saved.push_back(wait.entry);
  return static_cast<std::int32_t>(flat.queue_of.size() + flat.saved.size()) - 1;
}

void pair_waits(FlatTape& flat) {
  flat.two_waits.resize(flat.queue_of.size());
  flat.more_waits.clear();
  const std::int32_t nobody = flat.nobody();
  std::int32_t first = 0;
  for (std::size_t e = 0; e < flat.two_waits.size(); ++e) {
    const std::int32_t count = flat.waits_end[e] - first;
    const std::int32_t* const waits = flat.waits.data() + std::exchange(first, first + count);
    std::array<std::int32_t, 2>& two = flat.two_waits[e];
    two[0] = count > 0 ? waits[0] : nobody;
    two[1] = count > 1 ? waits[1] : nobody;
    if (count <= 2) continue;
    two[1] = ~static_cast<std::int32_t>(flat.more_waits.size());
    flat.more_waits.push_back(count - 1);
    flat.more_waits.insert(flat.more_waits.end(), waits + 1, waits + count);
  }
}

class Flattening {
 public:
  Flattening(const Tape& tape, FlatTape& flat)
      : tape_(tape), flat_(flat), size_(static_cast<std::int32_t>(tape.entries.size())) {
    flat_.tape = &tape;
    flat_.queue_of.resize(tape.entries.size());
    flat_.waits_end.resize(tape.entries.size());
    flat_.waits.resize(tape.waits.size());
    flat_.ops.reserve(tape.entries.size() / 2);
    number_of_queue_.assign(tape.ranks.size() * kNumQueueRoles, -1);
    missing_in_meeting_.reserve(tape.meetings.size());
    for (const TapeMeeting& meeting : tape.meetings)
      missing_in_meeting_.push_back(meeting.num_entries);
    missing_in_launch_.resize(tape.entries.size());
  }

  void run() {
    for (std::int32_t e = 0; e < size_; ++e) {
      const TapeEntry& entry = tape_.entries[at(e)];
      const std::int32_t queue = queue_of(entry);
      flat_.queue_of[at(e)] = queue;
      flat_.launches_of_queue[at(queue)] += entry.opens_launch ? 1 : 0;
      add_waits(e, entry);
    }
    for (std::int32_t e = 0; e < size_;) e += add_op(e);
    sort_seen_later(flat_);
    merge_sole();
    pair_waits(flat_);
  }

 private:
  std::int32_t queue_of(const TapeEntry& entry) {
    std::int32_t& number =
        number_of_queue_[at(entry.place) * kNumQueueRoles + static_cast<std::size_t>(entry.queue)];
    if (number < 0) {
      number = static_cast<std::int32_t>(flat_.place_of_queue.size());
      flat_.place_of_queue.push_back(entry.place);
      flat_.launches_of_queue.push_back(0);
    }
    return number;
  }

  void add_waits(std::int32_t e, const TapeEntry& entry) {
    for (std::int32_t w = 0; w < entry.num_waits; ++w)
      flat_.waits[at(next_wait_++)] = flat_wait(flat_, e, tape_.waits[at(entry.first_wait + w)]);
    flat_.waits_end[at(e)] = next_wait_;
  }

  std::int32_t add_op(std::int32_t e) {
    const TapeEntry& entry = tape_.entries[at(e)];
    using Kind = FlatTape::Op::Kind;
    if (!entry.meeting.is_valid()) {
      if (flat_.ops.empty() || flat_.ops.back().kind != Kind::kCompute)
        flat_.ops.push_back({Kind::kCompute, e, 0, {}});
      ++flat_.ops.back().count;
      return 1;
    }
    if (const std::int32_t members = members_from(e); members > 0) {
      flat_.ops.push_back({Kind::kTogether, e, members, entry.meeting});
      return members;
    }
    std::int32_t end = e + 1;
    if (entry.launch_group >= 0)
      while (end < size_ && tape_.entries[at(end)].launch_group == entry.launch_group) ++end;
    flat_.ops.push_back({Kind::kLaunch, e, end - e, {}});
    flat_.has_groups = true;
    missing_in_launch_[at(e)] = end - e;
    for (std::int32_t i = e; i < end; ++i) arrive(tape_.entries[at(i)].meeting);
    return end - e;
  }

  // How many, if all members of the entry's communication follow it and none is in a launch group;
  // else 0.
  std::int32_t members_from(std::int32_t e) const {
    const MeetingId m = tape_.entries[at(e)].meeting;
    const std::int32_t members = tape_.meetings[m].num_entries;
    if (e + members > size_) return 0;
    for (std::int32_t i = e; i < e + members; ++i) {
      const TapeEntry& other = tape_.entries[at(i)];
      if (other.meeting != m || other.launch_group >= 0) return 0;
    }
    return members;
  }

  void arrive(MeetingId m) {
    if (--missing_in_meeting_[m] > 0) return;
    const TapeMeeting& meeting = tape_.meetings[m];
    FlatTape::Op op{FlatTape::Op::Kind::kComplete, static_cast<std::int32_t>(flat_.over.size()), 0,
                    m};
    for (std::int32_t i = meeting.first_entry; i < meeting.first_entry + meeting.num_entries; ++i) {
      const std::int32_t e = tape_.meeting_entries[at(i)];
      const std::int32_t group = tape_.entries[at(e)].launch_group;
      const std::int32_t first = group >= 0 ? group : e;
      if (--missing_in_launch_[at(first)] == 0) flat_.over.push_back(first);
    }
    op.count = static_cast<std::int32_t>(flat_.over.size()) - op.first;
    flat_.ops.push_back(op);
  }

  void merge_sole() {
    using Kind = FlatTape::Op::Kind;
    for (const FlatTape::Op& op : flat_.ops)
      if (op.kind == Kind::kTogether && op.count == 1) flat_.sole.push_back(op.first);
    if (flat_.sole.empty()) return;
    flat_.merged.reserve(flat_.ops.size());
    for (FlatTape::Op op : flat_.ops) {
      if (op.kind == Kind::kTogether && op.count == 1) op = {Kind::kCompute, op.first, 1, {}};
      if (op.kind == Kind::kCompute && !flat_.merged.empty() &&
          flat_.merged.back().kind == Kind::kCompute)
        flat_.merged.back().count += op.count;
      else
        flat_.merged.push_back(op);
    }
  }

  const Tape& tape_;
  FlatTape& flat_;
  std::int32_t size_;
  std::int32_t next_wait_ = 0;
  std::vector<std::int32_t> number_of_queue_;          // by place and role
  Table<MeetingId, std::int32_t> missing_in_meeting_;  // members
  std::vector<std::int32_t> missing_in_launch_;        // members, by its first entry
};

}  // namespace

FlatTape::FlatTape(const Tape& from) : tape(&from) { Flattening(from, *this).run(); }

void FlatTape::add(std::span<const AddedWait> added) {
  std::vector<std::int32_t> all;
  all.reserve(waits.size() + added.size());
  auto next = added.begin();
  std::int32_t first = 0;
  for (std::int32_t e = 0; at(e) < queue_of.size(); ++e) {
    const std::int32_t end = std::exchange(first, waits_end[at(e)]);
    all.insert(all.end(), waits.begin() + end, waits.begin() + first);
    for (; next != added.end() && next->entry == e; ++next)
      all.push_back(flat_wait(*this, e, next->wait));
    waits_end[at(e)] = size_of(all);
  }
  waits = std::move(all);
  sort_seen_later(*this);
  pair_waits(*this);
}

}  // namespace sextant
