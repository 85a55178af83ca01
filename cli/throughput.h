// How fast a job goes: samples per second, and in the unit that its model is counted in.
#pragma once

#include "cli/workflow.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace sextant {

struct Throughput {
  SampleUnit unit = SampleUnit::kSamples;
  double samples_per_s = 0;
  double units_per_s = 0;
};

// Of steps that take `step_time_s` seconds each; samples are those of the global batch.
Throughput throughput(const Job& job, double step_time_s);
std::string rate_text(double per_second);           // "79", "7.9"
std::string to_text(const Throughput& throughput);  // "79 images/s"
// The keys `samples_per_s` and, of models that read tokens, `tokens_per_s`.
void add_to(nlohmann::ordered_json& object, const Throughput& throughput);

}  // namespace sextant
