// How weights are updated, as a value and as a line of text:
// "adamw lr=0.0003 warmup=100 schedule=cosine steps=1000 min_lr=3e-05 clip=1 loss_scale=dynamic".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sextant {

enum class OptimizerKind : std::uint8_t { kSgd, kMomentum, kAdamW, kLamb };
std::string_view to_string(OptimizerKind kind);  // "sgd", "momentum", "adamw", "lamb"

enum class RateSchedule : std::uint8_t { kConstant, kLinear, kCosine };
std::string_view to_string(RateSchedule schedule);  // "constant", "linear", "cosine"

// By what the loss is multiplied before its gradients are formed, so that small ones survive 16
// bits. Gradients that overflow skip the step, everywhere.
struct LossScale {
  enum class Kind : std::uint8_t {
    kAutomatic,  // dynamic where something is computed in f16, else none
    kNone,
    kStatic,   // `initial` in every step
    kDynamic,  // times `backoff` after an overflow, times `growth` after `interval` updates without
  };
  Kind kind = Kind::kAutomatic;
  double initial = 65536.0;
  double growth = 2.0, backoff = 0.5;
  std::int64_t interval = 2000;
  bool operator==(const LossScale&) const = default;
};

// In which element type the gradient of a weight adds up over the micro-batches and travels.
enum class GradientType : std::uint8_t {
  kWide,     // f32 (f64 for f64)
  kCompute,  // that of the computation, so that Adam needs 2 + 2 + 12 bytes per parameter
};
std::string_view to_string(GradientType type);  // "wide", "compute"

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 3e-4;
  RateSchedule schedule = RateSchedule::kConstant;
  std::int64_t warm_up = 0;   // updates until the full rate
  std::int64_t total = 0;     // updates until `minimum_rate`; of linear and cosine
  double minimum_rate = 0.0;  // of linear and cosine
  double momentum = 0.9;      // of momentum
  bool nesterov = false;      // of momentum
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // of adamw and lamb
  // Of weights; norms and biases do not decay (ParameterInfo::weight_decay).
  double weight_decay = 0.1;
  double max_gradient_norm = 0.0;  // 0: gradients are not clipped
  LossScale loss_scale;
  GradientType gradients = GradientType::kWide;
  bool operator==(const OptimizerOptions&) const = default;
};

// Throws Error(kUsage) naming the setting, its value and what would be accepted.
void validate(const OptimizerOptions& options);

// The kind and then settings, "key=value", blanks between. Unknown kinds and keys are refused with
// the nearest valid one, and so are settings that the kind does not have.
OptimizerOptions parse_optimizer(std::string_view text);
// The kind, the rate, and what is not the default; parse_optimizer reads it back.
std::string to_string(const OptimizerOptions& options);

}  // namespace sextant
