// What a run leaves: its record, its files, and the errors of a run that trained nothing.
#pragma once

#include "cli/console.h"
#include "cli/runs/run_record.h"
#include "cli/training/run_recorder.h"
#include "cli/training/run_setup.h"
#include "cli/verbs.h"
#include "compiler/expand/plan.h"

#include <string>

namespace sextant {

// The record of the steps so far, without times of operators.
RunRecord make_record(const RunSetup& setup, const RunRecorder::Steps& steps, RunEnd end);

// Refuses to replace results of another run, or another plan (Error(kUsage)): the plan in the
// folder may be the one that runs.
void require_new_results(const CommonOptions& common, const Plan& plan);

// Writes metrics, record and plan into the folder of --out; without one nothing.
void write_results(const RunSetup& setup, const RunRecorder::Steps& steps, const RunRecord& record,
                   const Console& console);
// Writes the file of --record; without the option nothing.
void write_recording(const RunArguments& arguments, const std::string& recording,
                     const Console& console);

// What a signal or a failure leaves: says and writes the steps so far, as a whole record.
void keep_unfinished(const RunSetup& setup, const RunRecorder::Steps& steps, RunEnd end,
                     const Console& console);

// Throws Error(kVerification) where a loss is not finite or every step was skipped: a run that says
// nothing more would hide it. Says nothing of one that a signal ended, which has an exit code.
void require_trained(const RunRecorder::Steps& steps, const RunRecord& record);

}  // namespace sextant
