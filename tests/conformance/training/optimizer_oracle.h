// Optimizers in plain loops over whole tensors, written from their papers: slow, obvious, and
// independent of the operators they judge.
#pragma once

#include "compiler/training/optimizer_options.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sextant {

struct OracleTensor {
  std::vector<double> p, m, v;
  bool decays = true;
};

class OptimizerOracle {
 public:
  explicit OptimizerOracle(const OptimizerOptions& options) : options_(options) {}

  std::map<std::string, OracleTensor> tensors;

  // `gradients` are sums over the tokens of the step.
  void step(const std::map<std::string, std::vector<double>>& gradients, double tokens);
  double last_norm() const { return norm_; }
  std::int64_t updates() const { return updates_; }

 private:
  double rate() const;
  void update(OracleTensor& tensor, const std::vector<double>& gradient, double rate) const;
  std::vector<double> adam_direction(OracleTensor& tensor, const std::vector<double>& g) const;

  OptimizerOptions options_;
  std::int64_t updates_ = 0;
  double norm_ = 0;
};

}  // namespace sextant
