// The oracle, and levels worked off in ascending order.

#include "simulator/links/max_min.h"

#include "core/base/check.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace sextant {

namespace {

// Levels this close are one: what floating-point sums in another order differ by must not travel.
constexpr double kSameLevel = 1e-14;

bool is_same_level(double a, double b) {
  return a == b || (b < kNoLimit && std::abs(a - b) <= kSameLevel * b);
}

}  // namespace

std::vector<double> fill_progressively(std::span<const double> capacities,
                                       std::span<const CappedFlow> flows) {
  std::vector<double> rates(flows.size());
  std::vector<bool> stays(flows.size());
  for (std::size_t left = flows.size(); left > 0;) {
    std::vector<long double> taken(capacities.size()), rising(capacities.size());
    long double level = kNoLimit;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!stays[f]) level = std::min<long double>(level, flows[f].cap);
      for (const FlowLoad& on : flows[f].loads) {
        const auto link = static_cast<std::size_t>(on.link);
        if (stays[f])
          taken[link] += static_cast<long double>(on.load) * rates[f];
        else
          rising[link] += on.load;
      }
    }
    const auto full_at = [&](std::size_t link) {
      const long double rest = std::max(0.0L, capacities[link] - taken[link]);
      return rising[link] > 0 ? rest / rising[link] : static_cast<long double>(kNoLimit);
    };
    for (std::size_t link = 0; link < capacities.size(); ++link)
      level = std::min(level, full_at(link));
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (stays[f]) continue;
      const bool is_held =
          flows[f].cap <= level ||
          std::any_of(flows[f].loads.begin(), flows[f].loads.end(), [&](const FlowLoad& on) {
            return on.load > 0 && full_at(static_cast<std::size_t>(on.link)) <= level;
          });
      if (!is_held && level < kNoLimit) continue;
      rates[f] = static_cast<double>(level);
      stays[f] = true;
      --left;
    }
  }
  return rates;
}

// ---------------------------------------------------------------- flows

MaxMin::MaxMin(std::span<const double> capacities)
    : links_(capacities.size()), level_(capacities.size(), kNoLimit) {
  for (std::size_t link = 0; link < links_.size(); ++link) {
    require(capacities[link] > 0, ErrorCode::kUsage, "link {} has a capacity of {}: above 0", link,
            capacities[link]);
    links_[link].capacity = capacities[link];
  }
}

std::int32_t MaxMin::add(std::span<const FlowLoad> loads, double cap) {
  CappedFlow flow{{}, cap};
  require(cap > 0, ErrorCode::kUsage, "a flow with a cap of {}: above 0", cap);
  for (const FlowLoad& on : loads) {
    require(on.link >= 0 && index(on.link) < links_.size(), ErrorCode::kUsage,
            "a flow over link {} of {}", on.link, links_.size());
    require(on.load >= 0 && on.load < kNoLimit, ErrorCode::kUsage,
            "a load of {} on link {}: 0 or more", on.load, on.link);
    if (on.load > 0) flow.loads.push_back(on);
  }
  std::sort(flow.loads.begin(), flow.loads.end());
  for (std::size_t i = 1; i < flow.loads.size(); ++i)
    require(flow.loads[i - 1].link < flow.loads[i].link, ErrorCode::kUsage,
            "a flow names link {} twice", flow.loads[i].link);
  const std::int32_t c = class_of(flow);
  if (++classes_[index(c)].count == 1) join(c);
  for (const PathLink& on : classes_[index(c)].path) touch(on.link);
  return c;
}

void MaxMin::remove(std::int32_t c) {
  FlowClass& flow_class = classes_[index(c)];
  SEXTANT_INVARIANT(flow_class.count > 0, "class {} has no flows", c);
  for (const PathLink& on : flow_class.path) touch(on.link);
  if (--flow_class.count == 0) leave(c);
}

// A class that has, or will get, flows of this kind.
std::int32_t MaxMin::class_of(const CappedFlow& flow) {
  const auto [known, is_new] = class_by_flow_.try_emplace({flow.cap, flow.loads}, 0);
  if (!is_new) return known->second;
  if (free_classes_.empty()) {
    free_classes_.push_back(static_cast<std::int32_t>(classes_.size()));
    classes_.emplace_back();
  }
  const std::int32_t c = free_classes_.back();
  free_classes_.pop_back();
  known->second = c;
  FlowClass& flow_class = classes_[index(c)];
  flow_class.cap = flow.cap;
  flow_class.path.clear();
  for (const FlowLoad& on : flow.loads) flow_class.path.push_back({on.link, 0, on.load});
  return c;
}

void MaxMin::join(std::int32_t c) {
  FlowClass& flow_class = classes_[index(c)];
  for (std::size_t place = 0; place < flow_class.path.size(); ++place) {
    PathLink& on = flow_class.path[place];
    std::vector<Member>& members = links_[index(on.link)].members;
    on.position = static_cast<std::int32_t>(members.size());
    members.push_back({c, static_cast<std::int32_t>(place), on.load});
  }
  flow_class.is_new = true;
  flow_class.levels = least_of(flow_class);
  list(c);
}

void MaxMin::leave(std::int32_t c) {
  FlowClass& flow_class = classes_[index(c)];
  std::vector<FlowLoad> loads;
  for (const PathLink& on : flow_class.path) {
    loads.push_back({on.link, on.load});
    std::vector<Member>& members = links_[index(on.link)].members;
    const Member moved = members.back();
    members[index(on.position)] = moved;
    classes_[index(moved.flow_class)].path[index(moved.place)].position = on.position;
    members.pop_back();
  }
  class_by_flow_.erase({flow_class.cap, loads});
  free_classes_.push_back(c);
}

void MaxMin::touch(std::int32_t link) {
  if (std::exchange(links_[index(link)].is_touched, true)) return;
  touched_.push_back(link);
}

void MaxMin::list(std::int32_t c) {
  if (std::exchange(classes_[index(c)].is_listed, true)) return;
  listed_.push_back(c);
}

// ---------------------------------------------------------------- levels

MaxMin::LeastLevels MaxMin::least_of(const FlowClass& flow_class) const {
  LeastLevels levels;
  const double* const all = level_.data();
  for (const PathLink& on : flow_class.path) {
    const double level = all[on.link];
    if (level < levels.least) {
      levels.second = levels.least;
      levels.least = level;
      levels.least_link = on.link;
    } else {
      levels.second = std::min(levels.second, level);
    }
  }
  return levels;
}

// By Newton's method from below: the sum is concave and piecewise linear in the level, so each
// round takes at least one more flow for limited elsewhere.
double MaxMin::level_of(std::int32_t link) {
  ++levels_computed_;
  const Link& at = links_[index(link)];
  double rising = 0;
  offers_.clear();
  for (const Member& member : at.members) {
    const FlowClass& flow_class = classes_.data()[member.flow_class];
    const double load = member.load * static_cast<double>(flow_class.count);
    // The rate that the class could have if this link were not there.
    offers_.emplace_back(load, limit(flow_class.levels, flow_class.cap, link));
    rising += load;
  }
  std::size_t num_rising = offers_.size();
  double level = at.capacity / rising;
  while (num_rising > 0) {
    double taken = 0;
    std::size_t still_rising = 0;
    rising = 0;
    for (const auto& [load, most] : offers_) {
      if (most < level) {
        taken += load * most;
      } else {
        rising += load;
        ++still_rising;
      }
    }
    if (still_rising >= num_rising) return level;
    num_rising = still_rising;
    level = std::max(level, (at.capacity - taken) / rising);
  }
  return kNoLimit;
}

void MaxMin::queue(std::int32_t link, double key) {
  Link& at = links_[index(link)];
  at.key = key;
  at.is_queued = true;
  heap_.emplace_back(key, link);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

// A link whose turn it is. Its key may be a lower bound only.
void MaxMin::settle(std::int32_t link, double key) {
  Link& at = links_[index(link)];
  at.is_queued = false;
  if (!std::exchange(at.is_known, true)) at.wanted = level_of(link);
  const double level = level_[index(link)];
  if (is_same_level(at.wanted, level)) return;
  if (const double turn = std::min(at.wanted, level); turn > key) return queue(link, turn);
  if (at.wanted > level) {
    set_level(link, kNoLimit, key);
    if (at.wanted < kNoLimit) queue(link, at.wanted);
    return;
  }
  at.settled = solves_;
  set_level(link, at.wanted, key);
}

void MaxMin::set_level(std::int32_t link, double level, double key) {
  const double before = std::exchange(level_[index(link)], level);
  for (const Member& member : links_[index(link)].members) {
    FlowClass& flow_class = classes_.data()[member.flow_class];
    // Neither is among the two that count.
    if (flow_class.levels.least_link != link && std::min(before, level) > flow_class.levels.second)
      continue;
    const LeastLevels levels_before = flow_class.levels;
    flow_class.levels = least_of(flow_class);
    list(member.flow_class);
    if (flow_class.levels == levels_before) continue;
    for (const PathLink& on : flow_class.path)
      if (on.link != link)
        limit_changed(on.link, limit(levels_before, flow_class.cap, on.link),
                      limit(flow_class.levels, flow_class.cap, on.link), key);
  }
}

void MaxMin::limit_changed(std::int32_t link, double before, double after, double key) {
  Link& at = links_[index(link)];
  if (before == after || at.settled == solves_) return;
  if (!at.is_queued) {
    const double level = level_.data()[link];
    if (std::min(before, after) >= level) return;
    at.is_known = false;
    // More from this flow lowers the level, though not below the turn; less can only raise it.
    queue(link, after > before ? key : std::max(key, level));
    return;
  }
  if (at.is_known && std::min(before, after) >= at.wanted) return;
  at.is_known = false;
  if (after > before && at.key > key) queue(link, key);
}

void MaxMin::solve() {
  ++solves_;
  levels_computed_ = 0;
  for (const std::int32_t link : touched_) {
    Link& at = links_[index(link)];
    at.is_touched = false;
    at.wanted = level_of(link);
    at.is_known = true;
    const double level = level_[index(link)];
    if (!is_same_level(at.wanted, level)) queue(link, std::min(at.wanted, level));
  }
  touched_.clear();
  while (!heap_.empty()) {
    const auto [key, link] = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    const Link& at = links_[index(link)];
    if (at.is_queued && at.key == key) settle(link, key);
  }
  changed_.clear();
  for (const std::int32_t c : listed_) {
    FlowClass& flow_class = classes_[index(c)];
    const double rate = std::min(flow_class.cap, flow_class.levels.least);
    const bool differs = flow_class.is_new || rate != flow_class.rate;
    flow_class.rate = rate;
    flow_class.is_listed = flow_class.is_new = false;
    if (differs && flow_class.count > 0) changed_.push_back(c);
  }
  listed_.clear();
}

}  // namespace sextant
