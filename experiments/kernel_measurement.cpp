// Calls of one operator, launches of a step; every row is known by its work.
#include "experiments/kernel_measurement.h"

#include "core/base/check.h"
#include "experiments/operator_call.h"
#include "experiments/step_timing.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace sextant {
namespace {

// What a device does together with others takes its share of their bytes. Where the launch is
// shorter than this it is the start that was measured, and no share says how long that is.
constexpr double kLeastTogether = 100e-6;

}  // namespace

std::string measured_name(const std::string& name) {
  constexpr std::string_view kSuffix = "-measured";
  return name.ends_with(kSuffix) ? name : name + std::string(kSuffix);
}

KernelMeasurement::KernelMeasurement(KernelTimer& timer, DType dtype, double overhead_s, Say say,
                                     Typical typical)
    : timer_(timer),
      dtype_(dtype),
      overhead_s_(overhead_s),
      say_(std::move(say)),
      typical_(typical) {}

double KernelMeasurement::seconds_of(const KernelTiming& timing) const {
  return typical_ == Typical::kMean ? timing.mean_s : timing.median_s;
}

TensorType KernelMeasurement::type(std::vector<std::int64_t> extents) const {
  return {.shape = Shape(std::move(extents)), .dtype = dtype_};
}

void KernelMeasurement::add(const std::string& kind, const std::vector<TensorType>& inputs,
                            const Attributes& attributes) {
  try {
    const OperatorCall call(kind, inputs, attributes);
    if (const auto timing = timer_.time(std::span(&call.context(), 1)))
      add_row(call.work(), seconds_of(*timing) + overhead_s_);
    else
      say_("no kernel for " + kind);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput) throw;
    say_(kind + " is left out: " + error.what());
  }
}

void KernelMeasurement::add_step(const BenchedStep& step) {
  timer_.set_id_limit(step.id_limit);
  double members_s = 0;
  for (const TimedLaunch& launch : time_step(step.graph, timer_)) {
    if (launch.work.kernel == "none" && !launch.is_member) continue;  // a view starts none
    if (!launch.timing) say_(fmt::format("no kernel for {} ({})", launch.kind, launch.types));
    if (launch.is_member) {
      // Cost models know the whole of a fused operator; nothing is known of it where a member is
      // not.
      members_s += launch.timing ? seconds_of(*launch.timing) : std::nan("");
      if (!launch.ends) continue;
      const double whole_s = std::exchange(members_s, 0);
      if (std::isfinite(whole_s)) add_row(*launch.ends, whole_s + overhead_s_);
      continue;
    }
    if (!launch.timing) continue;
    const double seconds = seconds_of(*launch.timing);
    if (timer_.go_together(launch.kind) && seconds < kLeastTogether) continue;
    if (launch.calls == 1) {
      add_row(launch.work, seconds + overhead_s_);
      continue;
    }
    // What one launch does for many calls is shared among them by their bytes; cost models see
    // single calls.
    const auto bytes = [](const Work& of) {
      return static_cast<double>(of.read.value + of.written.value);
    };
    for (const Work& work : launch.works)
      if (bytes(launch.work) > 0 && bytes(work) > 0)
        add_row(work, (seconds + overhead_s_) * bytes(work) / bytes(launch.work));
  }
}

void KernelMeasurement::add_row(const Work& work, double seconds) {
  measured_.push_back({.kernel = work.kernel,
                       .flops = work.flops,
                       .bytes = work.read + work.written,
                       .seconds = seconds});
}

std::vector<MeasuredKernel> KernelMeasurement::take() const {
  std::vector<MeasuredKernel> rows;
  std::vector<double> counts;
  for (const MeasuredKernel& one : measured_) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const MeasuredKernel& before) {
      return before.kernel == one.kernel && before.flops == one.flops && before.bytes == one.bytes;
    });
    const auto at = static_cast<std::size_t>(row - rows.begin());
    if (row == rows.end()) {
      rows.push_back(one);
      counts.push_back(1);
    } else {
      row->seconds += (one.seconds - row->seconds) / ++counts[at];
    }
  }
  return rows;
}

}  // namespace sextant
