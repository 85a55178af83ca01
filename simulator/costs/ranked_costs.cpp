// One model per device kind; a rank is a kind and a factor, and equal pairs are one colour.

#include "simulator/costs/ranked_costs.h"

#include "core/base/check.h"
#include "simulator/costs/models.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

namespace {

class RankedCosts : public CostModel {
 public:
  RankedCosts(const Cluster& cluster, DType dtype, std::span<const Straggler> stragglers) {
    models_.push_back(model_of(cluster, cluster.device, dtype));
    for (const OtherDevices& other : cluster.other_devices)
      models_.push_back(model_of(cluster, other.device, dtype));
    const auto ranks = static_cast<std::size_t>(cluster.num_devices());
    std::vector<double> factors(ranks, 1.0);
    for (const Straggler& straggler : stragglers) {
      require(straggler.rank.is_valid() && straggler.rank.index() < ranks, ErrorCode::kUsage,
              "straggler {}: the cluster has ranks 0 to {}", straggler.rank.value, ranks - 1);
      factors[straggler.rank.index()] *= straggler.factor;
    }
    std::map<std::pair<std::size_t, double>, std::int32_t> colours;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::pair<std::size_t, double> kind(kind_of(cluster, Rank(rank)), factors[rank]);
      const auto next = static_cast<std::int32_t>(colours.size());
      const auto [entry, is_new] = colours.try_emplace(kind, next);
      if (is_new) kinds_.push_back(kind);
      colour_.push_back(entry->second);
    }
  }

  Duration duration(const Work& work) const override { return models_.front()->duration(work); }
  Duration duration_on(Rank rank, const Work& work) const override {
    const auto& [model, factor] = kinds_[static_cast<std::size_t>(colour_of(rank))];
    const Duration plain = models_[model]->duration(work);
    if (factor == 1.0) return plain;
    return Duration(std::llround(static_cast<double>(plain.value) * factor));
  }
  std::int32_t colour_of(Rank rank) const override { return colour_.at(rank.index()); }
  Duration launch_cost() const override { return models_.front()->launch_cost(); }
  bool fuses(std::string_view fused_kind) const override {
    return std::all_of(models_.begin(), models_.end(),
                       [&](const auto& model) { return model->fuses(fused_kind); });
  }

 private:
  static std::unique_ptr<CostModel> model_of(const Cluster& cluster, const DeviceKind& device,
                                             DType dtype) {
    Cluster alike = cluster;
    alike.device = device;
    alike.other_devices.clear();
    return make_cost_model(alike, dtype);
  }

  static std::size_t kind_of(const Cluster& cluster, Rank rank) {
    const DeviceKind* device = &cluster.device_of(rank);
    for (std::size_t i = 0; i < cluster.other_devices.size(); ++i)
      if (device == &cluster.other_devices[i].device) return i + 1;
    return 0;
  }

  std::vector<std::unique_ptr<CostModel>> models_;
  std::vector<std::pair<std::size_t, double>> kinds_;  // by colour: model and factor
  std::vector<std::int32_t> colour_;                   // by rank
};

[[noreturn]] void refuse(std::string_view text) {
  fail(ErrorCode::kUsage, "straggler '{}': wanted RANK=1.2x or RANK=+20%", text);
}

template <typename Number>
Number parsed(std::string_view part, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc() || end != part.data() + part.size()) refuse(text);
  return value;
}

}  // namespace

Straggler parse_straggler(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) refuse(text);
  const std::string_view value = text.substr(equals + 1);
  Straggler straggler;
  straggler.rank.value = parsed<std::int32_t>(text.substr(0, equals), text);
  if (value.ends_with('x'))
    straggler.factor = parsed<double>(value.substr(0, value.size() - 1), text);
  else if (value.starts_with('+') && value.ends_with('%'))
    straggler.factor = 1 + parsed<double>(value.substr(1, value.size() - 2), text) / 100;
  else
    refuse(text);
  const bool good = std::isfinite(straggler.factor) && straggler.factor > 0 &&
                    straggler.factor <= 1e6 && straggler.rank.value >= 0;
  if (!good) refuse(text);
  return straggler;
}

std::unique_ptr<CostModel> make_ranked_costs(const Cluster& cluster, DType compute_dtype,
                                             std::span<const Straggler> stragglers) {
  return std::make_unique<RankedCosts>(cluster, compute_dtype, stragglers);
}

}  // namespace sextant
