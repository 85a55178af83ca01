// Runs a plan and compares it with one device; makes failing plans smaller.
#pragma once

#include "tests/conformance/law/law_plan.h"
#include "tests/conformance/training/law_compare.h"
#include "tests/conformance/training/training_runs.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace sextant {

struct LawReport {
  enum class Outcome : std::uint8_t { kHolds, kRefused, kBroken } outcome = Outcome::kHolds;
  std::string reason;  // name of the refusal, or what is wrong
  double error = 0;    // the worst of the run, relative
};

// What two runs of k terms per sum may differ by (README, "Numerics law").
double law_bound(const LawPlan& plan);

class LawRunner {
 public:
  // How the plan's ranks train; the reference is always one CPU rank.
  using Train = std::function<TrainingResult(const LawPlan& plan, const TrainingCase& training,
                                             const PhysicalGraph& graph)>;

  LawRunner();  // on the CPU, as the plan says
  explicit LawRunner(Train train) : train_(std::move(train)) {}
  LawReport run(const LawPlan& plan);
  // Greedily the simplest plan that is still broken.
  LawPlan shrink(LawPlan plan);
  std::size_t num_references() const { return references_.size(); }

 private:
  struct Reference {
    TrainingResult first, last;  // after one step, after all
  };
  const Reference& reference(const LawPlan& plan);
  LawReport compare(const LawPlan& plan, const PhysicalGraph& graph);

  Train train_;
  std::map<std::string, Reference> references_;
};

TrainingCase training_case(const LawPlan& plan);
CpuOptions cpu_options(const LawPlan& plan);

}  // namespace sextant
