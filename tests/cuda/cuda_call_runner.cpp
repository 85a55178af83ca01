// One arena on each side, one copy each way.
#include "tests/cuda/cuda_call_runner.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "core/base/check.h"
#include "tests/cuda/missing_kernels.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {
namespace {

constexpr std::size_t kArena = std::size_t{64} << 20;
constexpr std::size_t kScratch = std::size_t{256} << 20;
constexpr std::size_t kAlignment = 256;
// A context has room for so many kernels that check their data.
constexpr int kCallsOfContext = 2000;

std::size_t guarded_size(const KernelOperand& operand) {
  return static_cast<std::size_t>(size_of(operand.local).value) + kOperandGuard;
}

// Errors that stay with the process.
bool is_lost(cudaError_t status) {
  return status != cudaSuccess && cudaDeviceSynchronize() != cudaSuccess;
}

}  // namespace

CudaCallRunner::CudaCallRunner(const CudaOptions& options)
    : options_(options), kernels_(cuda_kernels()) {
  SEXTANT_CUDA(cudaSetDevice(options.device));
  SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&device_), kArena));
  SEXTANT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&host_), kArena));
  SEXTANT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

CudaCallRunner::~CudaCallRunner() {
  context_.reset();
  cudaStreamDestroy(stream_);
  cudaFreeHost(host_);
  cudaFree(device_);
}

void CudaCallRunner::renew_context() {
  if (context_ != nullptr && calls_of_context_++ < kCallsOfContext) return;
  context_ = std::make_unique<CudaContext>(options_);
  context_->need_scratch(kScratch);
  context_->allocate_scratch();
  context_->begin_step(0, stream_);
  calls_of_context_ = 0;
}

// Copies operands between the caller's memory and the pinned arena; addresses become the device's
// on the way there.
std::size_t CudaCallRunner::place(KernelContext& call, bool to_device) {
  std::size_t used = 0;
  for (std::vector<KernelOperand>* operands : {&call.in, &call.out})
    for (KernelOperand& operand : *operands) {
      const std::size_t size = guarded_size(operand);
      require(used + size <= kArena, ErrorCode::kInternal, "operands are larger than the arena");
      if (to_device) {
        std::memcpy(host_ + used, operand.data, size);
        operand.data = device_ + used;
      } else {
        std::memcpy(operand.data, host_ + used, size);
      }
      used += (size + kAlignment - 1) / kAlignment * kAlignment;
    }
  return used;
}

void CudaCallRunner::execute(const KernelContext& call) {
  const auto kernels = kernels_.make_all(std::span(&call, 1), *context_);
  for (const auto& kernel : kernels) kernel->enqueue(stream_);
}

bool CudaCallRunner::may_refuse(const std::string& error) {
  return std::any_of(stated_limits().begin(), stated_limits().end(), [&error](const auto& limit) {
    return error.find(limit.first) != std::string::npos;
  });
}

bool CudaCallRunner::run(const KernelContext& call) {
  renew_context();
  KernelContext there = call, here = call;
  const std::size_t used = place(there, true);
  SEXTANT_CUDA(cudaMemcpyAsync(device_, host_, used, cudaMemcpyHostToDevice, stream_));
  SEXTANT_CUDA(cudaMemsetAsync(context_->workspace(), 0xFF, CudaContext::kWorkspaceBytes, stream_));
  try {
    execute(there);
  } catch (const NoCudaKernel&) {
    return false;
  } catch (const Error& error) {
    if (is_lost(cudaGetLastError())) throw LostDevice(call.actor->name + ": " + error.what());
    throw;
  }
  SEXTANT_CUDA(cudaMemcpyAsync(host_, device_, used, cudaMemcpyDeviceToHost, stream_));
  if (const cudaError_t status = cudaStreamSynchronize(stream_); status != cudaSuccess)
    throw LostDevice(call.actor->name + ": " + cudaGetErrorString(status));
  if (const auto fault = context_->fault()) {
    context_.reset();
    fail(ErrorCode::kBadInput, "{}", *fault);
  }
  place(here, false);
  return true;
}

}  // namespace sextant
