// Calls one CUDA kernel on values given in double: the twin of tests/cpu/kernel_call.h.
#pragma once

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "tests/cpu/kernel_call.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// Device memory behind which a word stands that no kernel may change.
class DeviceBytes {
 public:
  explicit DeviceBytes(const std::vector<std::byte>& contents) : size_(contents.size()) {
    SEXTANT_CUDA(cudaMalloc(&data_, size_ + kGuard));
    SEXTANT_CUDA(cudaMemset(data_, kGuardByte, size_ + kGuard));
    SEXTANT_CUDA(cudaMemcpy(data_, contents.data(), size_, cudaMemcpyHostToDevice));
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::vector<std::byte> contents() const { return read(0, size_); }
  bool is_guarded() const {
    for (const std::byte byte : read(size_, kGuard))
      if (byte != std::byte{kGuardByte}) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr unsigned char kGuardByte = 0xA5;

  std::vector<std::byte> read(std::size_t from, std::size_t count) const {
    std::vector<std::byte> bytes(count);
    SEXTANT_CUDA(cudaDeviceSynchronize());
    SEXTANT_CUDA(cudaMemcpy(bytes.data(), data() + from, count, cudaMemcpyDeviceToHost));
    return bytes;
  }

  void* data_ = nullptr;
  std::size_t size_;
};

class DeviceCall {
 public:
  DeviceCall(std::string kind, Attributes attributes) {
    actor_.kind = std::move(kind);
    actor_.name = "under test";
    actor_.attributes = std::move(attributes);
    context_.actor = &actor_;
  }
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  DeviceCall& input(const TestOperand& operand) {
    context_.in.push_back(hold(operand));
    return *this;
  }
  DeviceCall& output(const TestOperand& operand, bool accumulate = false) {
    outputs_.push_back(memory_.size());
    context_.out.push_back(hold(operand));
    context_.accumulate.push_back(accumulate);
    return *this;
  }

  // Of a fused kind: its members, and a tensor that only they see.
  using Seen = std::vector<ActorMember::Operand>;
  DeviceCall& member(std::string kind, const Attributes& attributes, Seen in, Seen out) {
    actor_.members.push_back(
        {std::move(kind), "member", attributes, std::move(in), std::move(out)});
    return *this;
  }
  DeviceCall& inner(const TensorType& type) {
    actor_.inner.push_back({"inner", LayoutId(), type});
    return *this;
  }

  DeviceCall& during(std::uint64_t seed, const ActPosition& act) {
    context_.seed = seed;
    context_.act = act;
    return *this;
  }

  // Nothing where the kernel does not cover the call.
  std::unique_ptr<CudaKernel> kernel(CudaKernelTable::Make make, CudaContext& device) {
    auto kernel = make(context_, device);
    device.allocate_scratch();
    return kernel;
  }
  std::vector<std::vector<double>> results() const {
    std::vector<std::vector<double>> results;
    for (std::size_t i = 0; i < context_.out.size(); ++i) {
      results.emplace_back(static_cast<std::size_t>(context_.out[i].local.shape.elements()));
      load_as_double(context_.out[i].local.dtype, memory_[outputs_[i]].contents().data(),
                     results.back());
    }
    return results;
  }
  // No kernel wrote behind an operand.
  bool is_guarded() const {
    for (const DeviceBytes& bytes : memory_)
      if (!bytes.is_guarded()) return false;
    return true;
  }

 private:
  KernelOperand hold(const TestOperand& given) {
    const auto count = static_cast<std::size_t>(given.type.shape.elements());
    std::vector<double> values = given.values;
    if (values.empty()) values.assign(count, 0.0);
    std::vector<std::byte> bytes(count * static_cast<std::size_t>(size_of(given.type.dtype).value));
    store_from_double(given.type.dtype, values, bytes.data());
    memory_.emplace_back(bytes);
    layouts_.push_back(
        {{given.global.value_or(given.type.shape), given.type.dtype}, {}, PlacementId(0)});
    return {memory_.back().data(), given.type, &layouts_.back(),
            box_at(given.type.shape, given.offsets)};
  }

  Actor actor_;
  KernelContext context_;
  std::deque<Layout> layouts_;
  std::deque<DeviceBytes> memory_;
  std::vector<std::size_t> outputs_;  // in memory_
};

}  // namespace sextant
