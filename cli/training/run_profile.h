// Extra steps behind a training, with stamps: how long each operator takes.
#pragma once

#include "cli/console.h"
#include "cli/runs/run_record.h"
#include "cli/training/run_setup.h"
#include "cli/training/watched_work.h"
#include "io/data/sample_data.h"

namespace sextant {

// Fills in times of operators and communication: seconds per step, mean over ranks; the first step
// is warm-up. A signal in the middle or a failure keeps what was trained, without them, and the
// latter is thrown. `data`: nullptr for none.
void profile_steps(const RunSetup& setup, const SampleData* data, RunRecord& record,
                   const LastWords& keep_trained, Console& console);

}  // namespace sextant
