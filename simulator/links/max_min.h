// Max-min fair rates: no flow can be faster without making one slower that is not faster than it.
// Knows no time; simulator/links/flow_network.h and timed mode move bytes at these rates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

// What a rate of 1 takes of a link's capacity. Links of a flow differ; zero loads count for
// nothing.
struct FlowLoad {
  std::int32_t link = 0;
  double load = 0;
  auto operator<=>(const FlowLoad&) const = default;
};

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct CappedFlow {
  std::vector<FlowLoad> loads;
  double cap = kNoLimit;
};

// Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): all rates rise together, and
// whoever meets its cap or a full link stays. Slow and obvious: the oracle of MaxMin.
std::vector<double> fill_progressively(std::span<const double> capacities,
                                       std::span<const CappedFlow> flows);

// The same rates, kept while flows come and go. Flows of equal loads and caps are one class.
//
// Every link has a level: the rate at which it holds what it cannot let pass faster. Levels are the
// unique fixed point of
//   level(l) = the s with  sum over flows f on l of  load(f, l) min(u(f, l), s) = capacity(l),
//   u(f, l)  = min(cap(f), levels of the other links of f),
// and a level depends on lower ones alone. So a change is worked off in ascending order of levels,
// as in incremental shortest paths (Ramalingam and Reps 1996): a level that must rise is first
// taken away, and each is set once. Only links that a change reaches are looked at.
class MaxMin {
 public:
  // Throws Error(kUsage) for a capacity that is not positive.
  explicit MaxMin(std::span<const double> capacities);

  // Returns the class. Throws Error(kUsage) for a load that is negative or no number, a link that
  // there is not or that is named twice, and a cap that is not positive.
  std::int32_t add(std::span<const FlowLoad> loads, double cap = kNoLimit);
  // One flow of the class less. The number of a class without flows is used again.
  void remove(std::int32_t flow_class);
  // Brings the rates up to date.
  void solve();

  // As of the last `solve`; infinite for a flow without loads and cap.
  double rate(std::int32_t flow_class) const { return classes_[index(flow_class)].rate; }
  // Classes that have flows and whose rates the last `solve` changed or found first.
  std::span<const std::int32_t> changed() const { return changed_; }
  // Of the last `solve`: how many levels were worked out.
  std::int64_t levels_computed() const { return levels_computed_; }

 private:
  struct PathLink {
    std::int32_t link = 0;
    std::int32_t position = 0;  // in Link::members
    double load = 0;
  };
  struct LeastLevels {
    double least = kNoLimit, second = kNoLimit;  // of the levels on a path
    std::int32_t least_link = -1;
    bool operator==(const LeastLevels&) const = default;
  };
  struct FlowClass {
    LeastLevels levels;
    double cap = kNoLimit;
    std::int64_t count = 0;
    std::vector<PathLink> path;
    double rate = 0;
    bool is_listed = false;  // in listed_
    bool is_new = false;
  };
  struct Member {
    std::int32_t flow_class = 0;
    std::int32_t place = 0;  // in FlowClass::path
    double load = 0;
  };
  struct Link {
    double capacity = 0;
    double wanted = kNoLimit;  // the level by the flows, when `is_known`
    double key = 0;            // in the heap, when `is_queued`
    bool is_known = false, is_queued = false, is_touched = false;
    std::int64_t settled = 0;  // the last solve that set the level for good
    std::vector<Member> members;
  };

  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  std::int32_t class_of(const CappedFlow& flow);
  void join(std::int32_t flow_class);
  void leave(std::int32_t flow_class);
  void touch(std::int32_t link);
  void list(std::int32_t flow_class);
  static double limit(const LeastLevels& levels, double cap, std::int32_t link) {
    return std::min(cap, levels.least_link == link ? levels.second : levels.least);
  }
  LeastLevels least_of(const FlowClass& flow_class) const;
  double level_of(std::int32_t link);
  void queue(std::int32_t link, double key);
  void settle(std::int32_t link, double key);
  void set_level(std::int32_t link, double level, double key);
  void limit_changed(std::int32_t link, double before, double after, double key);

  std::vector<Link> links_;
  std::vector<double> level_;  // by link; side by side, for they are looked up most
  std::vector<FlowClass> classes_;
  std::vector<std::int32_t> free_classes_;
  std::map<std::pair<double, std::vector<FlowLoad>>, std::int32_t> class_by_flow_;
  std::vector<std::pair<double, std::int32_t>> heap_;  // key, link; stale ones are passed over
  std::vector<std::int32_t> touched_, listed_, changed_;
  std::vector<std::pair<double, double>> offers_;  // load, limit
  std::int64_t solves_ = 0, levels_computed_ = 0;
};

}  // namespace sextant
