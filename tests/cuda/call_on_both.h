// Calls of kernels whose operands lie in host memory for the CPU's reference and in device memory
// for CUDA, begun with the same bytes.
#pragma once

#include "actor/calls/kernel_context.h"
#include "backends/cpu/kernels/shared/kernel.h"
#include "backends/cpu/kernels/shared/workspace.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace sextant {

// A tensor that exists twice. Its device copy begins `misalignment` bytes behind an aligned
// address.
class TwinTensor {
 public:
  TwinTensor(const TensorType& type, const std::vector<double>& values,
             std::size_t misalignment = 0);
  ~TwinTensor();
  TwinTensor(const TwinTensor&) = delete;
  TwinTensor& operator=(const TwinTensor&) = delete;

  const TensorType& type() const { return type_; }
  KernelOperand on_host();
  KernelOperand on_device() const;
  std::vector<std::byte> host_bytes() const { return host_; }
  std::vector<std::byte> device_bytes() const;  // waits for the device
  std::vector<double> host_values() const;
  std::vector<double> device_values() const;
  void set(const std::vector<double>& values);  // both

 private:
  std::size_t size() const;
  TensorType type_;
  Layout layout_;
  std::size_t misalignment_;
  std::vector<std::byte> host_;
  std::byte* allocation_ = nullptr;
};

// An operator on twin tensors, all of them whole.
class TwinCall {
 public:
  TwinCall(std::string kind, Attributes attributes, std::vector<TwinTensor*> in,
           std::vector<TwinTensor*> out, bool accumulate = false);

  void run_reference();
  KernelContext for_device() const;

 private:
  KernelContext context() const;
  Actor actor_;
  std::vector<TwinTensor*> in_, out_;
  bool accumulate_;
  Workspace workspace_;
};

// Numbers in [-range, range] that use all digits, another sequence per salt.
std::vector<double> digits(std::int64_t count, std::uint64_t salt, double range);
// Whole numbers in [0, below).
std::vector<double> whole_numbers(std::int64_t count, std::uint64_t salt, std::int64_t below);

}  // namespace sextant
