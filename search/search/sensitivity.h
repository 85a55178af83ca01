// What would have to change for another plan to be the best: a link, the memory of devices, the
// global batch. Says something of plans that were simulated, nothing of the space.
#pragma once

#include "search/search/search.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// Links are tried up to this factor of their bandwidth, both ways, at as many factors each way with
// one ratio from each to the next; the first at which the runner-up wins is narrowed down.
inline constexpr double kMostChange = 4;
inline constexpr int kChangesEachWay = 8;

// One link faster or slower, both plans as they were compiled: only durations change.
struct LinkChange {
  std::string key;   // of what-if (simulator/reports/what_if.h): "link.inter_node.bandwidth"
  std::string link;  // "ib-ndr"
  bool faster = false;
  // The least change found at which the runner-up takes less time; nothing: at none of those tried.
  std::optional<double> factor;
  double bandwidth = 0;      // B/s, with the factor
  Duration best, runner_up;  // steps, with the factor
};

struct MemoryChange {
  Bytes least;  // of every device, with which the best plan still fits
  // With less, the fastest of the simulated plans is this one; nothing: all of them need as much.
  std::optional<std::size_t> below;  // in SearchResult::plans
  // Compiled, faster than the best, and too large: of these the one that needs least.
  std::optional<Candidate> above;
};

// Both plans compiled for another global batch.
struct BatchChange {
  std::int64_t global_batch = 1;
  // Nothing: it cannot be had, or does not fit.
  std::optional<Duration> best, runner_up;
  bool runner_up_wins() const { return runner_up && (!best || *runner_up < *best); }
};

struct Sensitivity {
  // The fastest simulated plan with another mesh or schedule than the best, else the second.
  std::size_t runner_up = 1;       // in SearchResult::plans
  std::vector<LinkChange> links;   // two of each link that the cluster has: slower, faster
  std::vector<BatchChange> batch;  // a quarter to four times what it is, by size
};

std::optional<std::size_t> runner_up_of(const std::vector<Candidate>& plans);

// `result` has a plan. Mixed devices have no `above`: they lack memory each in its own measure.
MemoryChange memory_change(const SearchProblem& problem, const SearchResult& result);

// Compiles both plans once, and once for each batch; nothing where there is only one plan. Of the
// limits memory counts, and `stop`, polled before each change: what is not reached is left out.
std::optional<Sensitivity> sensitivity(const SearchProblem& problem, const SearchResult& result,
                                       const SearchLimits& limits = {});

}  // namespace sextant
