// All steps of a run, and what they leave where it comes to its end.
#pragma once

#include "actor/runtime.h"
#include "cli/console.h"
#include "cli/training/run_backend.h"
#include "cli/training/run_recorder.h"
#include "cli/training/run_setup.h"
#include "experiments/data_pipeline/data_times.h"
#include "io/training_host.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// What a run leaves that came to its end.
struct Trained {
  std::vector<IssueHash> issued;
  std::string recording;                                // with --record
  std::vector<std::vector<std::int64_t>> loaded_bytes;  // by step and rank
  DataTimes data;                                       // of the ranks of this process
};

// Trains; `recorder` gets every step. Nothing when the user interrupted. The devices are gone when
// it returns: their memory is another's now. Throws what ended the steps before their end, once
// what there is was kept.
std::optional<Trained> train_steps(const RunSetup& setup, TrainingHost& host,
                                   std::unique_ptr<RunDevices> devices, RunRecorder& recorder,
                                   Console& console);

}  // namespace sextant
