// One element after the other, powers by multiplication.
#include "tests/conformance/training/optimizer_oracle.h"

#include <cmath>

namespace sextant {
namespace {

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double power(double base, std::int64_t exponent) {
  double product = 1;
  for (std::int64_t i = 0; i < exponent; ++i) product *= base;
  return product;
}

}  // namespace

void OptimizerOracle::step(const std::map<std::string, std::vector<double>>& gradients,
                           double tokens) {
  double squares = 0;
  for (const auto& [name, gradient] : gradients)
    for (const double g : gradient) squares += g / tokens * (g / tokens);
  norm_ = std::sqrt(squares);
  const double limit = options_.max_gradient_norm;
  const double clip = limit > 0 && norm_ > limit ? limit / norm_ : 1.0;
  ++updates_;
  const double now = rate();
  for (const auto& [name, gradient] : gradients) {
    std::vector<double> mean = gradient;
    for (double& g : mean) g = g / tokens * clip;
    update(tensors.at(name), mean, now);
  }
}

double OptimizerOracle::rate() const {
  const double full = options_.learning_rate, least = options_.minimum_rate;
  const auto t = static_cast<double>(updates_);
  const double warm = options_.warm_up > 0 ? static_cast<double>(options_.warm_up) : 1.0;
  if (t < warm) return full * t / warm;
  if (options_.schedule == RateSchedule::kConstant) return full;
  const auto total = static_cast<double>(options_.total);
  if (t > total) return least;
  const double done = (t - warm) / (total - warm);
  if (options_.schedule == RateSchedule::kLinear) return full - (full - least) * done;
  return least + (full - least) * (1.0 + std::cos(std::acos(-1.0) * done)) / 2.0;
}

std::vector<double> OptimizerOracle::adam_direction(OracleTensor& tensor,
                                                    const std::vector<double>& g) const {
  std::vector<double> direction(g.size());
  tensor.m.resize(g.size());
  tensor.v.resize(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    tensor.m[i] += (1 - options_.beta1) * (g[i] - tensor.m[i]);
    tensor.v[i] += (1 - options_.beta2) * (g[i] * g[i] - tensor.v[i]);
    const double m = tensor.m[i] / (1 - power(options_.beta1, updates_));
    const double v = tensor.v[i] / (1 - power(options_.beta2, updates_));
    direction[i] = m / (std::sqrt(v) + options_.epsilon);
  }
  return direction;
}

void OptimizerOracle::update(OracleTensor& tensor, const std::vector<double>& g,
                             double rate) const {
  const double decay = tensor.decays ? options_.weight_decay : 0.0;
  std::vector<double>& p = tensor.p;
  switch (options_.kind) {
    case OptimizerKind::kSgd:
      for (std::size_t i = 0; i < p.size(); ++i) p[i] = p[i] * (1 - rate * decay) - rate * g[i];
      return;
    case OptimizerKind::kMomentum:
      tensor.m.resize(p.size());
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double slope = g[i] + decay * p[i];
        tensor.m[i] = options_.momentum * tensor.m[i] + slope;
        p[i] -= rate * (options_.nesterov ? slope + options_.momentum * tensor.m[i] : tensor.m[i]);
      }
      return;
    case OptimizerKind::kAdamW: {
      const std::vector<double> direction = adam_direction(tensor, g);
      for (std::size_t i = 0; i < p.size(); ++i)
        p[i] = p[i] * (1 - rate * decay) - rate * direction[i];
      return;
    }
    case OptimizerKind::kLamb: {
      std::vector<double> direction = adam_direction(tensor, g);
      for (std::size_t i = 0; i < p.size(); ++i) direction[i] += decay * p[i];
      const double weight = norm_of(p), step = norm_of(direction);
      const double trust = tensor.decays && weight > 0 && step > 0 ? weight / step : 1.0;
      for (std::size_t i = 0; i < p.size(); ++i) p[i] -= rate * trust * direction[i];
      return;
    }
  }
}

}  // namespace sextant
