// Warm-up, then a constant, a line or half a cosine.
#include "core/operators/training/learning_rate.h"

#include "core/base/check.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace sextant {
namespace {

std::string schedule_of(const Attributes& attributes) {
  return attributes.contains("schedule") ? attributes.text("schedule") : "constant";
}

}  // namespace

double learning_rate_at(const Attributes& attributes, std::int64_t update) {
  const double rate = attributes.real("learning_rate");
  const std::int64_t full = std::max<std::int64_t>(attributes.integer_or("warm_up", 0), 1);
  if (update <= full) return rate * static_cast<double>(update) / static_cast<double>(full);
  const std::string schedule = schedule_of(attributes);
  if (schedule == "constant") return rate;
  const double minimum = attributes.real_or("minimum_rate", 0.0);
  const std::int64_t total = attributes.integer("total_updates");
  if (update >= total) return minimum;
  const double progress = static_cast<double>(update - full) / static_cast<double>(total - full);
  const double left =
      schedule == "linear" ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return minimum + (rate - minimum) * left;
}

void require_learning_rate(std::string_view kind, const Attributes& attributes) {
  attributes.real("learning_rate");
  const std::string schedule = schedule_of(attributes);
  require(schedule == "constant" || schedule == "linear" || schedule == "cosine",
          ErrorCode::kBadInput, "{}: schedule is '{}', wanted constant, linear or cosine", kind,
          schedule);
  const std::int64_t warm_up = attributes.integer_or("warm_up", 0);
  require(warm_up >= 0, ErrorCode::kBadInput, "{}: a warm-up of {} updates", kind, warm_up);
  if (schedule == "constant") return;
  require(attributes.contains("total_updates"), ErrorCode::kBadInput,
          "{}: a {} schedule needs the attribute 'total_updates'", kind, schedule);
  const std::int64_t total = attributes.integer("total_updates");
  require(total > warm_up, ErrorCode::kBadInput,
          "{}: a {} schedule of {} updates ends within its warm-up of {}", kind, schedule, total,
          warm_up);
}

}  // namespace sextant
