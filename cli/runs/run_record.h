// What `sextant run` leaves in its folder beside metrics.jsonl, and `sextant compare` reads.
#pragma once

#include "actor/runtime.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"
#include "simulator/steps/communication_use.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// How a run ended: by itself, by a signal, by a rank that failed.
enum class RunEnd : std::uint8_t { kComplete, kInterrupted, kFailed };

// "complete", "interrupted", "failed".
std::string_view to_string(RunEnd end);

struct RunRecord {
  std::string plan_hash;
  std::string strategy;
  std::string backend, devices;
  std::string planned_device;  // of the plan's cluster
  // Whether `devices` are of that kind: else times and rates say nothing about it.
  bool is_planned_device = true;
  RunEnd end = RunEnd::kComplete;
  std::int64_t first_step = 0;  // trained by others, where a run goes on from a checkpoint
  std::int64_t asked_steps = 0;
  std::int64_t skipped_steps = 0;  // changed no weight
  // Choices of experts over all steps: those that found no place, and all that might have.
  std::int64_t dropped_choices = 0, choices = 0;
  std::string queues, kernels;  // of CPU ranks
  std::uint64_t seed = 0;
  std::int64_t steps = 0;          // that were made
  std::int64_t warm_up_steps = 0;  // excluded from the step time
  double step_time_s = 0;          // median
  double step_time_quartiles_s[2] = {0, 0};
  double first_loss = 0, last_loss = 0;
  std::vector<IssueHash> issued;  // by rank, over all steps; empty: not all were done
  // Per step and rank, of profiled extra steps; by name, and by operator kind.
  std::map<std::string, double> operator_time_s, kind_time_s;
  std::optional<CommunicationUse> communication;  // of the same steps; nothing: not profiled
  // Of the machine's processor time, meanwhile; nothing where it is not known, as of a GPU.
  std::optional<double> others_share;
  // Of the machine's processors meanwhile (backends/cpu/yardstick.h), a mean; likewise.
  std::optional<double> yardstick_s;
};

// The text of run.json, and back. Throws Error(kBadInput) with file and key for what it does not
// write.
std::string to_json_text(const RunRecord& record);
RunRecord run_record_from_json(std::string_view text, std::string_view file_name);

// Name of a run in tables of times: its actors', without the layer's number.
std::string run_name(const PhysicalGraph& graph, Rank rank, RunId run);
// Name of a part of a run, by its actors.
std::string run_name(const PhysicalGraph& graph, Rank rank, RunId run, std::int32_t first_actor,
                     std::int32_t num_actors);

}  // namespace sextant
