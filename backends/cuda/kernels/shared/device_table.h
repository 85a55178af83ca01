// A table in device memory that a kernel reads while it runs: filled once, when the kernel is made.
#pragma once

#include "backends/cuda/cuda_check.h"

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace sextant {

template <typename Row>
class DeviceTable {
  static_assert(std::is_trivially_copyable_v<Row>);

 public:
  DeviceTable() = default;
  explicit DeviceTable(const std::vector<Row>& rows) {
    if (rows.empty()) return;
    const std::size_t bytes = rows.size() * sizeof(Row);
    SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&rows_), bytes));
    cudaError_t status = cudaMemcpy(rows_, rows.data(), bytes, cudaMemcpyHostToDevice);
    // A copy from pageable memory may return before it arrives, and the streams that run kernels do
    // not wait for the one it is on.
    if (status == cudaSuccess) status = cudaStreamSynchronize(nullptr);
    if (status != cudaSuccess) cudaFree(rows_);
    SEXTANT_CUDA(status);
  }
  ~DeviceTable() {
    if (rows_ != nullptr) cudaFree(rows_);
  }
  DeviceTable(DeviceTable&& other) noexcept : rows_(std::exchange(other.rows_, nullptr)) {}
  DeviceTable& operator=(DeviceTable&& other) noexcept {
    std::swap(rows_, other.rows_);
    return *this;
  }

  Row* rows() const { return rows_; }  // on the device; nullptr for an empty table

 private:
  Row* rows_ = nullptr;
};

}  // namespace sextant
