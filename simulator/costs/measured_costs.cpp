// Durations from measured kernels: exact where the work was measured; elsewhere what the roofline
// says, by the ratio that measured neighbours have to theirs. The roofline knows shapes, so ratios
// change slowly.
#include "core/graphs/kernel_names.h"
#include "simulator/costs/modelled_time.h"
#include "simulator/costs/models.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant {
namespace {

// Nearer than this, weights differ no more: a sixteenth of an octave.
constexpr double kLeastSquare = 1.0 / 256;

// Kernels of a family that do other work to each byte, or move other bytes in a product
// (epilogues), are further apart than octaves of size; in a product less, whose rate depends on its
// size too.
constexpr double kKindWeight = 8, kProductKindWeight = 2;

using Position = std::array<double, 3>;  // in octaves

// Where a kernel lies among those of its family: how large it is, and what it does.
struct Place {
  Position size = {};
  double kind = 0;  // octaves, times a weight
};

double octaves(double value) { return std::log2(std::max(value, 1.0)); }

double square_size_distance(const Position& a, const Position& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// Elements of both operands and the result.
double elements_of(const MatmulExtents& extents) {
  return extents.m * extents.k + extents.k * extents.n + extents.m * extents.n;
}

Place place_of(std::string_view kernel, double flops, double bytes) {
  if (const auto extents = matmul_extents(kernel))
    return {{octaves(extents->m), octaves(extents->n), octaves(extents->k)},
            kProductKindWeight * (octaves(bytes) - octaves(elements_of(*extents)))};
  return {{octaves(flops), octaves(bytes), 0}, kKindWeight * (octaves(flops) - octaves(bytes))};
}

double square_distance(const Place& a, const Place& b) {
  const double kinds = a.kind - b.kind;
  return square_size_distance(a.size, b.size) + kinds * kinds;
}

struct Key {
  std::string kernel;
  double flops = 0;
  std::int64_t bytes = 0;
  auto operator<=>(const Key&) const = default;
};

// Kernels of one work: their mean.
std::map<Key, double> means_of(const MeasuredKernels& measured) {
  std::map<Key, std::pair<double, int>> sums;
  for (const MeasuredKernel& kernel : measured.kernels) {
    auto& [sum, count] = sums[{kernel.kernel, kernel.flops, kernel.bytes.value}];
    sum += kernel.seconds;
    ++count;
  }
  std::map<Key, double> means;
  for (const auto& [key, sum] : sums) means.emplace(key, sum.first / sum.second);
  return means;
}

Work work_of(const Key& key) {
  return {.flops = key.flops, .read = Bytes(key.bytes), .written = {}, .kernel = key.kernel};
}

class MeasuredCosts final : public CostModel {
 public:
  MeasuredCosts(const MeasuredKernels& measured, std::unique_ptr<CostModel> roofline)
      : roofline_(std::move(roofline)), exact_(means_of(measured)) {
    for (const auto& [key, seconds] : exact_) add(key, seconds);
  }

  Duration duration(const Work& work) const override {
    // Events around nothing are a microsecond apart.
    if (work.kernel == kNoKernel) return roofline_->duration(work);
    const std::int64_t bytes = work.read.value + work.written.value;
    const auto exact = exact_.find({work.kernel, work.flops, bytes});
    if (exact != exact_.end()) return duration_from_seconds(exact->second);
    return interpolated(work, nullptr);
  }

  Duration launch_cost() const override { return roofline_->launch_cost(); }
  bool fuses(std::string_view fused_kind) const override { return roofline_->fuses(fused_kind); }

  // Predictions of single kernels from all others, against what they took: the median of errors,
  // weighted by time.
  double leave_one_out_error() const {
    std::vector<std::pair<double, double>> errors;  // error, seconds
    double whole = 0;
    for (const auto& [key, seconds] : exact_) {
      const double predicted = to_seconds(interpolated(work_of(key), &key));
      errors.emplace_back(std::abs(predicted / seconds - 1), seconds);
      whole += seconds;
    }
    std::sort(errors.begin(), errors.end());
    double sum = 0;
    for (const auto& [error, seconds] : errors)
      if ((sum += seconds) >= whole / 2) return error;
    return 0;
  }

 private:
  struct Point {
    const Key* key = nullptr;
    Place place;
    double log_ratio = 0;  // of what it took to what the roofline says
  };

  void add(const Key& key, double seconds) {
    const double modelled = to_seconds(roofline_->duration(work_of(key)));
    if (modelled <= 0) return;
    families_[std::string(kernel_family(key.kernel))].push_back(
        {.key = &key,
         .place = place_of(key.kernel, key.flops, static_cast<double>(key.bytes)),
         .log_ratio = std::log(seconds / modelled)});
  }

  // Smooth in the work: all of the family count, by 1 / distance^4. `left_out` does not.
  Duration interpolated(const Work& work, const Key* left_out) const {
    const Duration modelled = roofline_->duration(work);
    const auto family = families_.find(kernel_family(work.kernel));
    if (family == families_.end()) return modelled;
    const Place here = place_of(work.kernel, work.flops,
                                static_cast<double>(work.read.value + work.written.value));
    double weights = 0, logarithms = 0;
    for (const Point& point : family->second) {
      if (point.key == left_out) continue;
      const double square = std::max(square_distance(here, point.place), kLeastSquare);
      const double weight = 1 / (square * square);
      weights += weight;
      logarithms += weight * point.log_ratio;
    }
    if (weights == 0) return modelled;
    return modelled_time(to_seconds(modelled) * std::exp(logarithms / weights), work.kernel);
  }

  std::unique_ptr<CostModel> roofline_;
  std::map<Key, double> exact_;
  std::map<std::string, std::vector<Point>, std::less<>> families_;
};

bool is_measured(const DeviceKind& device, DType compute_dtype) {
  return device.measured && !device.measured->kernels.empty() &&
         device.measured->dtype == compute_dtype;
}

}  // namespace

std::unique_ptr<CostModel> make_cost_model(const Cluster& cluster, DType compute_dtype) {
  auto roofline = make_roofline(cluster, compute_dtype);
  if (!is_measured(cluster.device, compute_dtype)) return roofline;
  return std::make_unique<MeasuredCosts>(*cluster.device.measured, std::move(roofline));
}

double leave_one_out_error(const Cluster& cluster) {
  const auto& measured = cluster.device.measured;
  if (!measured || measured->kernels.empty()) return 0;
  return MeasuredCosts(*measured, make_roofline(cluster, measured->dtype)).leave_one_out_error();
}

}  // namespace sextant
