// The kind of a tensor is what its name says behind the parameter.
#include "tests/conformance/training/law_compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

namespace sextant {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double largest(const std::vector<double>& values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

double relative_error(const std::vector<double>& found, const std::vector<double>& expected,
                      double scale) {
  if (found.size() != expected.size()) return kInfinity;
  double error = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i])) return kInfinity;
    error = std::max(error, std::abs(found[i] - expected[i]));
  }
  return error == 0 ? 0 : error / scale;
}

std::string kind_of(const std::string& name) {
  for (const std::string kind : {".m", ".v", ".step", ".momentum"})
    if (name.ends_with(kind)) return kind;
  const std::size_t colon = name.rfind(':');
  return colon == std::string::npos ? "" : name.substr(colon);
}

void keep_larger(Distance& worst, double error, const std::string& where) {
  if (error > worst.error) worst = {error, where};
}

template <typename IsWanted>
Distance distance_of_kinds(const TrainingResult& found, const TrainingResult& expected,
                           const IsWanted& is_wanted) {
  std::map<std::string, double> scales;
  for (const auto& [name, values] : expected.state) {
    double& scale = scales[kind_of(name)];
    scale = std::max(scale, largest(values));
  }
  if (found.state.size() != expected.state.size())
    return {kInfinity, "the number of tensors, " + std::to_string(found.state.size()) + " for " +
                           std::to_string(expected.state.size())};
  Distance worst;
  for (const auto& [name, values] : expected.state) {
    const auto other = found.state.find(name);
    if (other == found.state.end()) return {kInfinity, "no " + name};
    const std::string kind = kind_of(name);
    if (is_wanted(kind))
      keep_larger(worst, relative_error(other->second, values, scales.at(kind)), name);
  }
  return worst;
}

}  // namespace

Distance distance_of_losses(const TrainingResult& found, const TrainingResult& expected) {
  Distance distance;
  keep_larger(distance, relative_error(found.losses, expected.losses, largest(expected.losses)),
              "losses");
  return distance;
}

Distance distance_of_gradients(const TrainingResult& found, const TrainingResult& expected) {
  return distance_of_kinds(
      found, expected, [](std::string_view kind) { return kind == ".m" || kind == ".momentum"; });
}

Distance distance_of_state(const TrainingResult& found, const TrainingResult& expected) {
  return distance_of_kinds(found, expected, [](std::string_view) { return true; });
}

Distance larger(const Distance& a, const Distance& b) { return b.error > a.error ? b : a; }

Distance distance(const TrainingResult& found, const TrainingResult& expected) {
  return larger(distance_of_state(found, expected), distance_of_losses(found, expected));
}

}  // namespace sextant
