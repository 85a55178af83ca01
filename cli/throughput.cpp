// Texts and JSON keys of rates.
#include "cli/throughput.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace sextant {

Throughput throughput(const Job& job, double step_time_s) {
  const double samples_per_s = static_cast<double>(job.global_batch) / step_time_s;
  return {.unit = unit_of(job.model),
          .samples_per_s = samples_per_s,
          .units_per_s =
              samples_per_s * static_cast<double>(units_per_sample(job.model, job.sequence))};
}

// Three digits at least: large models take few images per second.
std::string rate_text(double per_second) {
  if (per_second >= 100) return fmt::format("{:.0f}", per_second);
  return fmt::format("{:.{}f}", per_second, per_second >= 10 ? 1 : 2);
}

std::string to_text(const Throughput& throughput) {
  return fmt::format("{} {}/s", rate_text(throughput.units_per_s), to_string(throughput.unit));
}

void add_to(nlohmann::ordered_json& object, const Throughput& throughput) {
  if (throughput.unit == SampleUnit::kTokens) object["tokens_per_s"] = throughput.units_per_s;
  object["samples_per_s"] = throughput.samples_per_s;
}

}  // namespace sextant
