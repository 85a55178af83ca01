// Devices on CUDA GPUs, without CUDA headers: what the rest of the project sees.
#pragma once

#include "actor/hosts/agreement_watch.h"
#include "actor/hosts/rank_processes.h"
#include "actor/protocol/device.h"
#include "backends/cuda/ranks/collectives.h"
#include "core/costs/communication_volume.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct MeasuredChoices;  // measured_choices.h

// Where ranks of a job come one by one and go together.
enum class CommonWait : std::uint8_t { kPrepare, kConnect, kCapture, kClose };

struct CudaOptions {
  int device = 0;          // CUDA ordinal
  std::uint64_t seed = 0;  // of weights
  bool profile = false;    // event pairs around every launch; changes timing
  // The same bits in every run: no atomics in floating point, fixed algorithms.
  bool deterministic = false;
  // Algorithms of matrix products and plans of attention are measured when a program is prepared,
  // on memory that is given back, and not left to the heuristics of their libraries; never with
  // `deterministic`. Seconds per program.
  bool tune_matmuls = false;
  // File that keeps what was measured, for later runs on a card of this kind; empty: none.
  std::string matmul_cache;
  // Where ranks of a job keep what they measured, so that all run alike; null: each its own.
  std::shared_ptr<MeasuredChoices> choices;
  // Where the device says what it did otherwise than asked, in one line.
  std::function<void(const std::string&)> notice;
  // From the third step on, a step is one CUDA graph; the numbers are those of single launches.
  bool graphs = true;
  // The whole arena lies in mapped host memory, so that tests and debuggers read any register;
  // slow.
  bool host_visible = false;
  // Who looks for ranks that keep others waiting at a stage, borrowed; null: nobody.
  AgreementWatch* watch = nullptr;
  // How long ranks may wait for each other while they prepare and close: at least this, since one
  // may measure kernels, or free many communicators.
  std::int64_t least_patience_ms = 60'000;
  // Of waits for what takes as long as kernels are measured or communicators are freed, by ranks
  // that otherwise wait for `timeout`.
  std::chrono::milliseconds patience(std::chrono::milliseconds timeout) const {
    return std::max(timeout, std::chrono::milliseconds(least_patience_ms));
  }
  // For tests of faults: called by a rank that comes to a stage. It may wait, or throw.
  std::function<void(Rank, CommonWait)> at_common_wait;
};

// GPUs that can be used; 0 without a driver.
int num_cuda_devices();
// Why there are none; empty when there are.
std::string why_no_cuda_device();
std::string cuda_device_name(int device);
// Of the library that is loaded, "2.28.3"; empty in a build without NCCL.
std::string nccl_version();

struct CudaWorldOptions {
  // What every rank is run with, but for `device`, `choices` and `stages`, which mean nothing here.
  CudaOptions each;
  std::vector<int> gpus;  // CUDA ordinals in this process; empty: all
  int ranks_per_gpu = 1;  // rank r is on gpus[r / ranks_per_gpu] (rank_placement.h)
  CudaCollectives collectives = CudaCollectives::kAutomatic;
  // With `each.graphs`, steps of several ranks are graphs too, where NCCL exchanges.
  bool graphs_of_several = false;
  // How long a rank waits while nothing of it ends; likewise for peers' launch threads.
  std::int64_t timeout_ms = 60'000;
  // Called once, on a thread, when ranks that were told to end have not: their threads are inside a
  // library. Who gets it must end the process.
  std::function<void(const std::string&)> give_up;
};

// What ranks on these cards exchange by, and the refusals of CudaWorld that need no graph.
CudaCollectives collectives_of(std::size_t ranks, const CudaWorldOptions& options);

// Owns one device per rank of this process and what they share. Launch threads are the caller's,
// one per rank (run_all). Processes of a job make and destroy their worlds in the same order.
class CudaWorld {
 public:
  // Throws Error(kUsage) for a GPU twice, or NCCL for ranks that share one, Error(kDevice) for one
  // that cannot be used or reached by another, Error(kInfeasible) for more ranks than there is room
  // for, or more memory than ranks that share a card have together: before anything is allocated.
  // Where processes are several, all have their world or none has.
  CudaWorld(const PhysicalGraph& graph, const CudaWorldOptions& options,
            const std::optional<RankProcesses>& processes = std::nullopt);
  ~CudaWorld();
  CudaWorld(const CudaWorld&) = delete;
  CudaWorld& operator=(const CudaWorld&) = delete;

  // By rank, prepared; nullptr: the rank is in another process.
  std::vector<Device*> devices();
  // What the ranks of this process sent in exchanges so far, sorted, zero entries left out.
  std::vector<PairBytes> moved_bytes() const;
  // What the ranks of a card were counted to take of it: arenas, scratch, staging, communicators.
  // What libraries take for themselves comes on top.
  Bytes counted_memory(int gpu) const;
  // Ends every rank with this reason: those that wait fail, those that compute launch nothing more.
  void abort(const std::string& reason);
  // With `host_visible`, when nothing is under way.
  std::vector<std::byte> read_register(Rank rank, InstanceId instance, std::int32_t reg,
                                       std::int32_t content = 0) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Throws Error(kDevice) saying why the device cannot be used. Its `prepare` throws
// Error(kInfeasible) before it allocates when the program needs more memory than is free.
std::unique_ptr<Device> make_cuda_device(const CudaOptions& options);

}  // namespace sextant
