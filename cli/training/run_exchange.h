// What the processes of a run tell each other of it: metrics of steps, times of operators, hashes
// of what ranks issued. In a run of one process there is nobody to tell.
#pragma once

#include "actor/protocol/device.h"
#include "actor/runtime.h"
#include "cli/runs/run_processes.h"
#include "cli/runs/run_record.h"
#include "cli/training/run_recorder.h"
#include "io/training_host.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace sextant {

// Brings metrics of all steps from the process that has them to the first, which records them.
class MetricsWay {
 public:
  // `behind_step` is called where metrics of a step come in; what it throws ends the run.
  MetricsWay(RunProcesses& processes, TrainingHost& host, RunRecorder& recorder, std::int64_t steps,
             std::function<void()> behind_step);
  ~MetricsWay();
  MetricsWay(const MetricsWay&) = delete;
  MetricsWay& operator=(const MetricsWay&) = delete;

  // Waits until all have come.
  void finish();

 private:
  std::exception_ptr failure_;
  std::thread receiver_;
};

// Times of `record` become sums over all processes.
void gather_times(RunProcesses& processes, RunRecord& record);

// By rank: each process has those of its devices (nullptr: in another process) and gets all.
std::vector<std::vector<Stamp>> gather_stamps(RunProcesses& processes,
                                              const std::vector<Device*>& devices);

// By rank: each process has those of its ranks and gets all.
std::vector<IssueHash> gather_hashes(RunProcesses& processes, std::vector<IssueHash> hashes);

// Bytes that loaders gave their ranks, by step and then rank, of all processes. All call it.
std::vector<std::vector<std::int64_t>> gather_loaded_bytes(RunProcesses& processes,
                                                           const TrainingHost& host,
                                                           std::size_t ranks, std::int64_t steps);

// metrics.jsonl with `loaded_bytes`, a number per rank, in each line.
std::string with_loaded_bytes(const std::string& lines,
                              const std::vector<std::vector<std::int64_t>>& loaded);

}  // namespace sextant
