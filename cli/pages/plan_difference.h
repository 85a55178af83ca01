// Two plans beside each other, term by term: both compiled and simulated here.
#pragma once

#include "cli/pages/plan_view.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// What is stated differently: a setting, the model, the cluster.
struct StatedDifference {
  std::string key, first, second;
};

// Words of an operator's result by axis, axes of one member left out; empty: the plan has no such
// operator.
struct WordsDifference {
  std::string name, first, second;
};

struct DifferentTerm {
  enum class Unit : std::uint8_t { kSeconds, kBytes, kCount };
  std::string name;
  Unit unit = Unit::kSeconds;
  double first = 0, second = 0;
  double difference() const { return second - first; }
};

struct PlanDifference {
  std::vector<StatedDifference> stated;
  std::vector<WordsDifference> words;
  std::vector<DifferentTerm> time;  // parts of the step, mean over ranks: they add up to the step
  // Of the device with least room: classes of the arena at its fullest, what packing adds to them,
  // libraries. They add up to what the device needs.
  std::vector<DifferentTerm> memory;
  std::vector<DifferentTerm> boxing;  // by primitive: times, bytes moved, modelled time per step

  bool is_same_plan() const { return stated.empty(); }
};

// Where two plans differ: settings, words, times, memory and boxing.
PlanDifference plan_difference(const PlanView& first, const PlanView& second);

}  // namespace sextant
