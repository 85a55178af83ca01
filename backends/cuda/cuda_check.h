// Every CUDA and cuBLASLt call is checked where it is made: the error names expression, file and
// line.
#pragma once

#include "core/base/error.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

namespace sextant {

// Throw Error(kDevice) with place and expression where a call has failed.
inline void check_cuda(cudaError_t status, const char* expression, const char* file, int line) {
  if (status == cudaSuccess) return;
  throw Error(ErrorCode::kDevice, std::string(file) + ":" + std::to_string(line) + ": " +
                                      expression + ": " + cudaGetErrorString(status));
}

inline void check_cublas(cublasStatus_t status, const char* expression, const char* file,
                         int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCode::kDevice, std::string(file) + ":" + std::to_string(line) + ": " +
                                      expression + ": " + cublasLtGetStatusString(status));
}

}  // namespace sextant

#define SEXTANT_CUDA(expression) \
  ::sextant::check_cuda((expression), #expression, __FILE__, __LINE__)
#define SEXTANT_CUBLAS(expression) \
  ::sextant::check_cublas((expression), #expression, __FILE__, __LINE__)
