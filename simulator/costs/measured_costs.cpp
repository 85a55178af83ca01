// Durations from measured kernels: exact where the work was measured, from neighbours where it lies
// near, the roofline's elsewhere.
#include "core/graphs/kernel_names.h"
#include "simulator/costs/modelled_time.h"
#include "simulator/costs/models.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr std::size_t kNeighbours = 4;
constexpr double kFarthest = 2;  // octaves
// Nearer than this, weights differ no more: a thousandth of an octave.
constexpr double kLeastSquare = 1e-6;

// Kernels of a family that do other work to each byte (gradients), or move other bytes in a product
// (epilogues), are further apart than octaves of size; in a product less, whose rate depends on its
// size too.
// Of GPT-2 medium on two H200, attention_grad of half the batch was predicted 54 % short with both
// weights 1, 20 % with these, of which 11 % are what a reduction beside it costs.
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
  const auto m = static_cast<double>(extents.m), n = static_cast<double>(extents.n),
             k = static_cast<double>(extents.k);
  return m * k + k * n + m * n;
}

Place place_of(const std::optional<MatmulExtents>& extents, double flops, double bytes) {
  if (extents)
    return {{octaves(extents->m), octaves(extents->n), octaves(extents->k)},
            kProductKindWeight * (octaves(bytes) - octaves(elements_of(*extents)))};
  return {{octaves(flops), octaves(bytes), 0}, kKindWeight * (octaves(flops) - octaves(bytes))};
}

double square_distance(const Place& a, const Place& b) {
  const double kinds = a.kind - b.kind;
  return square_size_distance(a.size, b.size) + kinds * kinds;
}

// All matmuls are one family.
std::string family_of(std::string_view kernel) {
  return std::string(kernel.substr(0, kernel.find(':')));
}

class MeasuredCosts final : public CostModel {
 public:
  MeasuredCosts(const MeasuredKernels& measured, std::unique_ptr<CostModel> roofline)
      : roofline_(std::move(roofline)) {
    std::map<Key, std::pair<double, int>> sums;  // kernels of one work: their mean
    for (const MeasuredKernel& kernel : measured.kernels) {
      auto& [sum, count] = sums[{kernel.kernel, kernel.flops, kernel.bytes.value}];
      sum += kernel.seconds;
      ++count;
    }
    for (const auto& [key, sum] : sums) add(key, sum.first / sum.second);
  }

  Duration duration(const Work& work) const override {
    // Events around nothing are a microsecond apart.
    if (work.kernel == kNoKernel) return roofline_->duration(work);
    const std::int64_t bytes = work.read.value + work.written.value;
    const auto exact = exact_.find({work.kernel, work.flops, bytes});
    if (exact != exact_.end()) return duration_from_seconds(exact->second);
    const auto family = families_.find(family_of(work.kernel));
    if (family == families_.end()) return roofline_->duration(work);
    return from_neighbours(family->second, work);
  }

  Duration launch_cost() const override { return roofline_->launch_cost(); }
  bool fuses(std::string_view fused_kind) const override { return roofline_->fuses(fused_kind); }

 private:
  struct Key {
    std::string kernel;
    double flops = 0;
    std::int64_t bytes = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Point {
    Place place;
    double per_flop = 0, per_byte = 0;  // seconds; 0: has none
  };

  void add(const Key& key, double seconds) {
    exact_.emplace(key, seconds);
    const auto bytes = static_cast<double>(key.bytes);
    families_[family_of(key.kernel)].push_back(
        {.place = place_of(matmul_extents(key.kernel), key.flops, bytes),
         .per_flop = key.flops > 0 ? seconds / key.flops : 0,
         .per_byte = bytes > 0 ? seconds / bytes : 0});
  }

  Duration from_neighbours(const std::vector<Point>& points, const Work& work) const {
    const double bytes = static_cast<double>(work.read.value + work.written.value);
    const std::optional<MatmulExtents> extents = matmul_extents(work.kernel);
    const Place here = place_of(extents, work.flops, bytes);
    // Matmuls scale with FLOPs, everything else with the bytes it moves.
    const double amount = extents ? work.flops : bytes;
    double nearest = kFarthest * kFarthest + 1;
    std::vector<std::pair<double, double>> near;  // square of distance, seconds per amount
    for (const Point& point : points) {
      const double rate = extents ? point.per_flop : point.per_byte;
      if (rate <= 0) continue;
      near.emplace_back(square_distance(here, point.place), rate);
      nearest = std::min(nearest, square_size_distance(here.size, point.place.size));
    }
    const std::size_t count = std::min(near.size(), kNeighbours);
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
    if (amount <= 0 || nearest > kFarthest * kFarthest) return roofline_->duration(work);
    double weights = 0, logarithms = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double weight = 1 / std::max(near[i].first, kLeastSquare);
      weights += weight;
      logarithms += weight * std::log(near[i].second);
    }
    return modelled_time(amount * std::exp(logarithms / weights), work.kernel);
  }

  std::unique_ptr<CostModel> roofline_;
  std::map<Key, double> exact_;
  std::map<std::string, std::vector<Point>> families_;
};

}  // namespace

std::unique_ptr<CostModel> make_cost_model(const Cluster& cluster, DType compute_dtype) {
  auto roofline = make_roofline(cluster, compute_dtype);
  const auto& measured = cluster.device.measured;
  if (!measured || measured->kernels.empty() || measured->dtype != compute_dtype) return roofline;
  return std::make_unique<MeasuredCosts>(*measured, std::move(roofline));
}

}  // namespace sextant
