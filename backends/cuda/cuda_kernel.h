// What a CUDA kernel is to the device, and the table that finds one by operator kind. A kernel is
// made once per call, in prepare, at fixed addresses, and enqueued once per act.
#pragma once

#include "actor/calls/kernel_context.h"
#include "core/base/error.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

class CudaContext;

class CudaKernel {
 public:
  virtual ~CudaKernel() = default;
  // Enqueues and never waits, allocates or asks for a result: it may run under stream capture.
  // Throws Error(kDevice) if the launch itself fails.
  virtual void enqueue(cudaStream_t stream) = 0;
};

// No kernel covers a call. Code kDevice.
class NoCudaKernel final : public Error {
  using Error::Error;
};

// A kernel and how many of the calls it was made for it serves.
struct CudaKernelOfCalls {
  std::unique_ptr<CudaKernel> kernel;
  std::size_t num_calls = 1;  // 0: there is no kernel
};

class CudaKernelTable {
 public:
  // Nothing where the kernel does not cover the call: dtypes, shapes, accumulation.
  using Make = std::unique_ptr<CudaKernel> (*)(const KernelContext& call, CudaContext& device);
  // One kernel for several consecutive calls of a run that are all of this kind, for instance the
  // updates of many parameters.
  using MakeMany = std::unique_ptr<CudaKernel> (*)(std::span<const KernelContext> calls,
                                                   CudaContext& device);
  // What calls have in common that may be one kernel though others of the run stand between them;
  // empty: the call stays alone. Calls of one key, of whatever kinds, have one maker.
  using Key = std::string (*)(const KernelContext& call);
  // One kernel for calls of one key that may run at once; nothing where they are not faster so.
  using MakeTogether = std::unique_ptr<CudaKernel> (*)(std::span<const KernelContext> calls,
                                                       const CudaKernelTable& table,
                                                       CudaContext& device);
  static constexpr std::size_t kMostTogether = 4;

  // Kernels added later are preferred. Of operands that lie channels-last a kernel sees none unless
  // it takes them.
  enum class Takes : std::uint8_t { kRowMajor, kChannelsLast };
  void add(std::string kind, Make make, Takes takes = Takes::kRowMajor);
  void add_many(std::string kind, MakeMany make);
  void add_together(std::string kind, Key key, MakeTogether make);

  // The preferred kernel that covers the call; nothing when there is none.
  std::unique_ptr<CudaKernel> make(const KernelContext& call, CudaContext& device) const;
  // Of the first call and, where one kernel serves several, of some behind it. Throws as `make_all`
  // does.
  CudaKernelOfCalls make_first(std::span<const KernelContext> calls, CudaContext& device) const;
  // Kernels of consecutive calls in their order. Throws NoCudaKernel naming operator, kind, types
  // and shapes of the first call that no kernel covers.
  std::vector<std::unique_ptr<CudaKernel>> make_all(std::span<const KernelContext> calls,
                                                    CudaContext& device) const;
  // Empty for kinds that are never made together.
  std::string key_together(const KernelContext& call) const;
  // Of the first calls of a group, all of them or fewer; of none where that is no faster.
  CudaKernelOfCalls make_together(std::span<const KernelContext> group, CudaContext& device) const;
  std::vector<std::string> kinds() const;  // sorted
  // Whether a kernel takes several calls of the kind.
  bool has_many(std::string_view kind) const { return many_.find(kind) != many_.end(); }

 private:
  struct Maker {
    Make make;
    Takes takes;
  };
  std::map<std::string, std::vector<Maker>, std::less<>> kernels_;
  struct Together {
    Key key;
    MakeTogether make;
  };
  std::map<std::string, std::vector<MakeMany>, std::less<>> many_;
  std::map<std::string, Together, std::less<>> together_;
};

// All families of backends/cuda/kernels.
CudaKernelTable cuda_kernels();

}  // namespace sextant
