// What `run` says of its steps, for people.
#pragma once

#include "cli/console.h"
#include "cli/runs/run_record.h"
#include "cli/training/run_recorder.h"
#include "cli/workflow.h"

namespace sextant {

// Losses, the step time, and what was skipped or dropped.
void say_result(const RunRecord& record, const PlannedJob& planned, const RunRecorder::Steps& steps,
                const Console& console);

// What the profiled steps say, by kind; by run where a device times no less. The rest of the step
// is between the launches. Nothing of a run that was not profiled.
void say_profile(const RunRecord& record, const Console& console);

}  // namespace sextant
