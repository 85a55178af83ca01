// Units by how often classes meet; stretches by letting each unit run until it needs another.
#include "simulator/modes/recurring/block_order.h"

#include "core/base/at.h"
#include "core/base/check.h"
#include "core/graphs/physical_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace sextant {
namespace {

// Matrices grow with the square of it.
constexpr std::size_t kMostPlaces = 4;
// Classes that meet at fewer of their launches than one in so many stay apart.
constexpr std::int64_t kRarely = 20;

using Op = FlatTape::Op;

bool is_transfer(const Tape& tape, MeetingId meeting) {
  const TapeCall& call = tape.calls[tape.meetings[meeting].first_call];
  return tape.costs[call.cost].communication->primitive == Primitive::kTransfer;
}

class Units {
 public:
  explicit Units(const FlatTape& flat) : unit_of_(flat.tape->ranks.size()) {
    std::iota(unit_of_.begin(), unit_of_.end(), 0);
    join_those_that_meet(flat);
  }
  std::vector<std::int32_t> take() { return std::move(unit_of_); }

 private:
  void join_those_that_meet(const FlatTape& flat) {
    const Tape& tape = *flat.tape;
    std::vector<std::int64_t> launches(unit_of_.size());
    for (const TapeEntry& entry : tape.entries) ++launches[at(entry.place)];
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> meetings;
    for (const Op& op : flat.ops) {
      if (op.kind != Op::Kind::kTogether || op.count < 2 || at(op.count) > kMostPlaces) continue;
      if (is_transfer(tape, op.meeting)) continue;
      const std::int32_t place = tape.entries[at(op.first)].place;
      for (std::int32_t e = op.first + 1; e < op.first + op.count; ++e)
        ++meetings[std::minmax(place, tape.entries[at(e)].place)];
    }
    for (const auto& [places, count] : meetings)
      if (count * kRarely >= std::min(launches[at(places.first)], launches[at(places.second)]))
        join(unit_of_[at(places.first)], unit_of_[at(places.second)]);
  }

  void join(std::int32_t a, std::int32_t b) {
    const auto places = static_cast<std::size_t>(
        std::count_if(unit_of_.begin(), unit_of_.end(), [&](auto u) { return u == a || u == b; }));
    if (a == b || places > kMostPlaces) return;
    std::replace(unit_of_.begin(), unit_of_.end(), std::max(a, b), std::min(a, b));
  }

  std::vector<std::int32_t> unit_of_;  // by place; the smallest place of it
};

class Ordering {
 public:
  explicit Ordering(const FlatTape& flat)
      : flat_(flat),
        tape_(*flat.tape),
        lanes_(tape_.ranks.size()),
        next_(tape_.ranks.size()),
        is_launching_(tape_.ranks.size()) {
    order_.unit_of_place = Units(flat).take();
    places_of_unit_.resize(lanes_.size());
    for (std::size_t place = 0; place < lanes_.size(); ++place)
      places_of_unit_[at(order_.unit_of_place[place])].push_back(static_cast<std::int32_t>(place));
    for (std::size_t e = 0; e < tape_.entries.size(); ++e)
      lanes_[at(tape_.entries[e].place)].push_back(static_cast<std::int32_t>(e));
    stays_inside_.assign(tape_.meetings.size(), false);
    for (const Op& op : flat.ops)
      if (op.kind == Op::Kind::kTogether) stays_inside_[op.meeting] = is_inside(op);
  }

  BlockOrder run() {
    order_.entries.reserve(tape_.entries.size());
    for (const Op& op : flat_.ops) add(op);
    for (std::size_t unit = 0; unit < places_of_unit_.size(); ++unit) advance(unit);
    for (std::size_t place = 0; place < lanes_.size(); ++place)
      require(next_[place] == lanes_[place].size(), ErrorCode::kInternal,
              "rank {} has launches left that wait for others", tape_.ranks[place].value);
    return std::move(order_);
  }

 private:
  using Kind = BlockOrder::Item::Kind;

  bool is_inside(const Op& op) const {
    const std::int32_t unit = unit_of(op.first);
    for (std::int32_t e = op.first + 1; e < op.first + op.count; ++e)
      if (unit_of(e) != unit) return false;
    return true;
  }

  std::int32_t unit_of(std::int32_t e) const {
    return order_.unit_of_place[at(tape_.entries[at(e)].place)];
  }

  void add(const Op& op) {
    switch (op.kind) {
      case Op::Kind::kCompute:
        return;
      case Op::Kind::kTogether:
        if (!stays_inside_[op.meeting]) add_border(op, Kind::kTogether);
        return;
      case Op::Kind::kLaunch:
        add_border(op, Kind::kLaunch);
        is_launching_[at(tape_.entries[at(op.first)].place)] = true;
        return;
      case Op::Kind::kComplete:
        order_.items.push_back({Kind::kComplete, op.first, op.count, op.meeting});
        for (std::int32_t i = op.first; i < op.first + op.count; ++i)
          is_launching_[at(tape_.entries[at(flat_.over[at(i)])].place)] = false;
        return;
    }
  }

  void add_border(const Op& op, Kind kind) {
    for (std::int32_t e = op.first; e < op.first + op.count; ++e) advance(at(unit_of(e)));
    for (std::int32_t e = op.first; e < op.first + op.count; ++e)
      ++next_[at(tape_.entries[at(e)].place)];
    order_.items.push_back({kind, op.first, op.count, op.meeting});
  }

  // All that the unit can do before it needs another one.
  void advance(std::size_t unit) {
    const std::size_t first = order_.entries.size();
    bool moved = true;
    while (std::exchange(moved, false))
      for (const std::int32_t place : places_of_unit_[unit])
        while (take_next(place)) moved = true;
    const std::size_t count = order_.entries.size() - first;
    if (count > 0)
      order_.items.push_back(
          {Kind::kStretch, static_cast<std::int32_t>(first), static_cast<std::int32_t>(count), {}});
  }

  bool take_next(std::int32_t place) {
    const std::vector<std::int32_t>& lane = lanes_[at(place)];
    std::size_t& next = next_[at(place)];
    if (next == lane.size() || is_launching_[at(place)]) return false;
    const std::int32_t e = lane[next];
    const MeetingId m = tape_.entries[at(e)].meeting;
    if (!m.is_valid()) {
      order_.entries.push_back(e);
      ++next;
      return true;
    }
    return stays_inside_[m] && take_meeting(m);
  }

  bool take_meeting(MeetingId m) {
    const TapeMeeting& meeting = tape_.meetings[m];
    const auto first = tape_.meeting_entries.begin() + meeting.first_entry;
    const auto last = first + meeting.num_entries;
    if (!std::all_of(first, last, [&](std::int32_t e) { return is_next(e); })) return false;
    for (auto e = first; e != last; ++e) {
      order_.entries.push_back(*e);
      ++next_[at(tape_.entries[at(*e)].place)];
    }
    return true;
  }

  bool is_next(std::int32_t e) const {
    const std::size_t place = at(tape_.entries[at(e)].place);
    return !is_launching_[place] && next_[place] < lanes_[place].size() &&
           lanes_[place][next_[place]] == e;
  }

  const FlatTape& flat_;
  const Tape& tape_;
  std::vector<std::vector<std::int32_t>> lanes_;  // by place: its entries
  std::vector<std::size_t> next_;                 // by place
  std::vector<bool> is_launching_;                // by place: a launch of it is not complete
  std::vector<std::vector<std::int32_t>> places_of_unit_;
  Table<MeetingId, bool> stays_inside_;  // by meeting
  BlockOrder order_;
};

}  // namespace

BlockOrder block_order(const FlatTape& flat) { return Ordering(flat).run(); }

}  // namespace sextant
