// What a run came to: trained with an eye on the machine, then profiled, said and written.
#pragma once

#include "backends/cpu/machine_load.h"
#include "cli/console.h"
#include "cli/runs/run_record.h"
#include "cli/training/run_backend.h"
#include "cli/training/run_recorder.h"
#include "cli/training/run_setup.h"
#include "cli/training/run_steps.h"
#include "io/data/sample_data.h"
#include "io/training_host.h"

#include <memory>
#include <optional>

namespace sextant {

struct RunOutcome {
  RunRecorder::Steps steps;
  std::optional<Trained> trained;  // nothing: the user interrupted
  RunRecord record;
  std::optional<OthersLoad> load;  // of others, meanwhile; nothing where it is not known
};

// Trains all steps (train_steps) and watches what the machine does besides.
RunOutcome trained_outcome(const RunSetup& setup, TrainingHost& host,
                           std::unique_ptr<RunDevices> devices, RunRecorder& recorder,
                           Console& console);

// Adds times of operators where --profile asks for them (profile_steps). `data`: nullptr for none.
void add_profile(const RunSetup& setup, const SampleData* data, RunOutcome& outcome,
                 Console& console);

// Says and writes all that is known; throws what require_trained throws. All processes call it, the
// first speaks.
void end_run(const RunSetup& setup, const RunOutcome& outcome, const Console& console);

}  // namespace sextant
