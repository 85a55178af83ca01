// Handles, scratch, step number and fault flags of one device.
#include "backends/cuda/cuda_context.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/kernels/products/product_choices.h"
#include "backends/cuda/measured_choices.h"
#include "backends/cuda/step_number.h"
#include "core/base/check.h"
#include "core/base/units.h"

#ifdef SEXTANT_HAS_CUDNN
#include <cudnn.h>
#endif

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace sextant {

CudaContext::CudaContext(const CudaOptions& options)
    : deterministic_(options.deterministic),
      tunes_(options.tune_matmuls && !options.deterministic),
      notice_(options.notice),
      choices_(options.choices ? options.choices : std::make_shared<MeasuredChoices>()),
      products_(std::make_unique<ProductChoices>(options)) {
  SEXTANT_CUBLAS(cublasLtCreate(&cublas_));
  SEXTANT_CUDA(cudaMalloc(&workspace_, kWorkspaceBytes));
  SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&step_), sizeof(std::int64_t)));
  SEXTANT_CUDA(cudaMemset(step_, 0, sizeof(std::int64_t)));
  SEXTANT_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&fault_flags_),
                             kMostFaultFlags * sizeof(std::int32_t), cudaHostAllocMapped));
  std::fill_n(fault_flags_, kMostFaultFlags, 0);
}

CudaContext::~CudaContext() {
  shared_.clear();  // plans go before the handles they were made for
#ifdef SEXTANT_HAS_CUDNN
  if (cudnn_ != nullptr) cudnnDestroy(cudnn_);
#endif
  cudaFreeHost(fault_flags_);
  cudaFree(step_);
  cudaFree(scratch_);
  cudaFree(workspace_);
  cublasLtDestroy(cublas_);
}

cudnnContext* CudaContext::cudnn() {
#ifdef SEXTANT_HAS_CUDNN
  if (cudnn_ == nullptr) {
    const cudnnStatus_t status = cudnnCreate(&cudnn_);
    require(status == CUDNN_STATUS_SUCCESS, ErrorCode::kDevice, "cuDNN cannot be used: {}",
            cudnnGetErrorString(status));
  }
  return cudnn_;
#else
  fail(ErrorCode::kDevice, "this build has no cuDNN");
#endif
}

std::size_t CudaContext::fastest_of(const std::string& name, std::size_t count,
                                    const std::function<std::size_t()>& measure) {
  const std::lock_guard lock(choices_->mutex);
  const auto known = choices_->plans.find(name);
  if (known != choices_->plans.end() && known->second < count) return known->second;
  if (choices_->is_complete) return 0;
  return choices_->plans[name] = measure();
}

void CudaContext::need_scratch(std::size_t bytes) {
  require(scratch_ == nullptr || bytes <= scratch_bytes_, ErrorCode::kInternal,
          "a kernel needs {} bytes of scratch after {} were allocated", bytes, scratch_bytes_);
  scratch_bytes_ = std::max(scratch_bytes_, bytes);
}

void CudaContext::allocate_scratch() {
  if (scratch_ != nullptr || scratch_bytes_ == 0) return;
  std::size_t free = 0, total = 0;
  SEXTANT_CUDA(cudaMemGetInfo(&free, &total));
  require(scratch_bytes_ <= free, ErrorCode::kInfeasible,
          "kernels need {} of scratch beside the plan's memory, {} of the card's {} are free",
          to_text(Bytes(static_cast<std::int64_t>(scratch_bytes_))),
          to_text(Bytes(static_cast<std::int64_t>(free))),
          to_text(Bytes(static_cast<std::int64_t>(total))));
  SEXTANT_CUDA(cudaMalloc(&scratch_, scratch_bytes_));
}

void CudaContext::note(const std::string& text) {
  if (!notes_.insert(text).second) return;
  if (notice_)
    notice_(text);
  else
    fmt::print(stderr, "note (CUDA): {}\n", text);
}

void CudaContext::begin_step(std::int64_t step, cudaStream_t stream) {
  SEXTANT_CUDA(enqueue_step_number(step_, step, stream));
}

void CudaContext::begin_next_step(cudaStream_t stream) {
  SEXTANT_CUDA(enqueue_next_step_number(step_, stream));
}

std::int32_t* CudaContext::fault_flag(std::string message) {
  const auto known = std::find(fault_messages_.begin(), fault_messages_.end(), message);
  if (known != fault_messages_.end()) return fault_flags_ + (known - fault_messages_.begin());
  require(fault_messages_.size() < kMostFaultFlags, ErrorCode::kDevice,
          "more than {} operators check their data", kMostFaultFlags);
  fault_messages_.push_back(std::move(message));
  return fault_flags_ + (fault_messages_.size() - 1);
}

std::optional<std::string> CudaContext::fault() const {
  for (std::size_t i = 0; i < fault_messages_.size(); ++i)
    if (static_cast<const volatile std::int32_t*>(fault_flags_)[i] != 0) return fault_messages_[i];
  return std::nullopt;
}

}  // namespace sextant
