// What the kernels of one device share: library handles, scratch memory, the number of the step,
// and flags through which kernels report bad data.
#pragma once

#include "backends/cuda/cuda_backend.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

struct cudnnContext;

namespace sextant {

class ProductChoices;

class CudaContext {
 public:
  explicit CudaContext(const CudaOptions& options);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  cublasLtHandle_t cublas() const { return cublas_; }
  // Made at the first call; throws Error(kDevice) where the build has no cuDNN.
  cudnnContext* cudnn();
  bool deterministic() const { return deterministic_; }
  // Whether kernels may measure which of several ways is fastest while they are made.
  bool tunes() const { return tunes_; }
  // Multiprocessors that kernels which are made now are cut for; 0: all of the card. Fewer where a
  // collective is under way beside them: one wave of blocks for all takes as long as two where some
  // are taken.
  std::int32_t processors() const { return processors_; }
  void set_processors(std::int32_t processors) { processors_ = processors; }
  // Whether a collective may be under way beside kernels that are made now.
  bool in_company() const { return in_company_; }
  void set_in_company(bool in_company) { in_company_ = in_company; }
  // Which of `count` ways is the fastest: what `measure` finds, or found on another rank of the job
  // under this name. With `tunes` alone.
  std::size_t fastest_of(const std::string& name, std::size_t count,
                         const std::function<std::size_t()>& measure);

  // Algorithms of matrix products; measures them while kernels are made, where the options say so.
  ProductChoices& products() { return *products_; }

  // Scratch of the compute queue: its launches are in order, so all kernels share it. Contents
  // survive no launch.
  void* workspace() const { return workspace_; }
  // NVIDIA's recommendation for Hopper (cuBLAS documentation, cublasSetWorkspace).
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  // Larger scratch of the compute queue: valid once `allocate_scratch` ran, after all kernels are
  // made; so kernels keep the context and ask when they are enqueued.
  void need_scratch(std::size_t bytes);
  void allocate_scratch();
  void* scratch() const { return scratch_; }

  // What kernels of the same shape share, plans of libraries for instance: null until the first of
  // them sets it.
  std::shared_ptr<void>& shared(const std::string& name) { return shared_[name]; }
  // Tells the user, each text once, through the notice of the options or on standard error: that a
  // slower way was taken, for instance.
  void note(const std::string& text);
  const std::set<std::string>& notes() const { return notes_; }

  // Device address of the number of the step under way. Kernels that draw random numbers read it,
  // so that a captured graph draws anew in each replay.
  const std::int64_t* step() const { return step_; }
  // Enqueues what makes `step` the number; by the device, before the first launch of a step.
  void begin_step(std::int64_t step, cudaStream_t stream);
  // Enqueues, in a captured step, which has no number, what makes it one more than the last.
  void begin_next_step(cudaStream_t stream);

  // A flag in mapped memory that a kernel sets to something other than 0 when its data are bad: ids
  // out of range, labels without a class. `message` names operator and rule; the acts of a step,
  // which say the same, share a flag.
  std::int32_t* fault_flag(std::string message);
  // The message of the first flag that is set, if any. Any thread, any time.
  std::optional<std::string> fault() const;

 private:
  static constexpr std::size_t kMostFaultFlags = 4096;

  bool deterministic_ = false, tunes_ = false;
  std::int32_t processors_ = 0;
  bool in_company_ = false;
  std::function<void(const std::string&)> notice_;
  const std::shared_ptr<MeasuredChoices> choices_;
  cublasLtHandle_t cublas_ = nullptr;
  std::unique_ptr<ProductChoices> products_;
  cudnnContext* cudnn_ = nullptr;
  void* workspace_ = nullptr;
  void* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
  std::int64_t* step_ = nullptr;
  std::int32_t* fault_flags_ = nullptr;
  std::vector<std::string> fault_messages_;
  std::map<std::string, std::shared_ptr<void>> shared_;
  std::set<std::string> notes_;
};

}  // namespace sextant
