// Runs boxing for real: distributes a tensor of small integers, executes the steps on CPU devices,
// collects what lies on the target, and counts bytes three ways. For tests of boxing plans.
#pragma once

#include "backends/cpu/cpu_backend.h"
#include "core/costs/communication_volume.h"
#include "sbp/boxing.h"
#include "simulator/modes/simulate.h"
#include "tests/conformance/operators/operator_runner.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// From where and what to where and what.
struct BoxingCase {
  TensorType type;
  Placement source, target;
  NdSbp from, to;
  std::optional<DType> to_dtype = {};
  std::optional<DType> reduce_dtype = {};
  BoxingObjective objective = BoxingObjective::kBytes;

  BoxingRequest request() const;
  std::string text() const;  // "5x3 f32: S(0)@[x=2] -> B@[y=3]{1-3} bf16"
};

// Elements between -20 and 20 (flags of bool), so that every type holds all their sums.
Piece small_integers(const TensorType& type);

// Devices of one graph, by rank and prepared, and what they have moved.
class BoxingDevices {
 public:
  virtual ~BoxingDevices() = default;
  virtual std::vector<Device*> devices() = 0;
  virtual std::vector<PairBytes> moved_bytes() const = 0;
};
// Those of a world of ranks, on CPUs or GPUs.
template <typename World>
class BoxingWorld final : public BoxingDevices {
 public:
  template <typename Options>
  BoxingWorld(const PhysicalGraph& graph, const Options& options) : world_(graph, options) {}
  std::vector<Device*> devices() override { return world_.devices(); }
  std::vector<PairBytes> moved_bytes() const override { return world_.moved_bytes(); }

 private:
  World world_;
};

// Where a boxing runs.
struct BoxingBackend {
  std::function<std::unique_ptr<BoxingDevices>(const PhysicalGraph&)> make;
  bool by_scripts = false;  // exchanges are those of core/collective_script
};
BoxingBackend cpu_boxing_backend(const CpuOptions& options);

struct BoxingOutcome {
  std::vector<Piece> pieces;  // by the target's devices
  Piece found;  // the global tensor that lies there; NaN where it is none, as where copies differ
  std::vector<PairBytes> moved;  // counted by the backend, of one step
};

// What the source's devices hold of the tensor; partial values are random shares, copies of a share
// are equal.
std::vector<Piece> pieces_on_source(const BoxingCase& boxing, const Piece& tensor);

// Executes the steps `repetitions` times and looks at the last result.
BoxingOutcome run_boxing(const BoxingCase& boxing, std::span<const BoxingStep> steps,
                         const std::vector<Piece>& pieces, const CpuOptions& options,
                         std::int64_t repetitions = 1);

BoxingOutcome run_boxing_on(const BoxingBackend& backend, const BoxingCase& boxing,
                            std::span<const BoxingStep> steps, const std::vector<Piece>& pieces,
                            std::int64_t repetitions = 1);

// Bytes per pair of ranks: what the planner says of the steps, and what the simulator counts.
std::vector<PairBytes> planned_bytes(const BoxingCase& boxing, std::span<const BoxingStep> steps);
std::vector<PairBytes> simulated_bytes(const PhysicalGraph& graph, SimulationMode mode);

// Empty if the steps, executed, give the tensor and move what planner and simulator say; else what
// is wrong; by scripts the sum of bytes is compared. Without steps: the plan of this case.
std::string fault_of(const BoxingCase& boxing, std::span<const BoxingStep> steps,
                     const CpuOptions& options, std::int64_t repetitions = 1);
std::string fault_of(const BoxingCase& boxing, const CpuOptions& options,
                     std::int64_t repetitions = 1);
std::string fault_on(const BoxingBackend& backend, const BoxingCase& boxing,
                     std::int64_t repetitions = 1);

}  // namespace sextant
