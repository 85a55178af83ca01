// Twin tensors: one allocation each, copied whole.
#include "tests/cuda/call_on_both.h"

#include "backends/cuda/cuda_check.h"
#include "core/base/counter_rng.h"
#include "core/base/elements.h"

#include <utility>

namespace sextant {
namespace {

// splitmix64: one number per (salt, index).
std::uint64_t bits_of(std::uint64_t salt, std::uint64_t index) {
  std::uint64_t z = salt * 0x9E3779B97F4A7C15U + (index + 1) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

KernelOperand whole(const TensorType& type, const Layout& layout, std::byte* data) {
  KernelOperand operand;
  operand.data = data;
  operand.local = type;
  operand.layout = &layout;
  for (const std::int64_t extent : type.shape.extents()) operand.box.dims.push_back({0, extent});
  return operand;
}

}  // namespace

TwinTensor::TwinTensor(const TensorType& type, const std::vector<double>& values,
                       std::size_t misalignment)
    : type_(type), misalignment_(misalignment), host_(size()) {
  layout_.global = type;
  layout_.words = {Sbp::broadcast()};
  SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&allocation_), size() + misalignment + 16));
  set(values);
}

TwinTensor::~TwinTensor() { cudaFree(allocation_); }

std::size_t TwinTensor::size() const { return static_cast<std::size_t>(size_of(type_).value); }

KernelOperand TwinTensor::on_host() { return whole(type_, layout_, host_.data()); }

KernelOperand TwinTensor::on_device() const {
  return whole(type_, layout_, allocation_ + misalignment_);
}

std::vector<std::byte> TwinTensor::device_bytes() const {
  std::vector<std::byte> bytes(size());
  SEXTANT_CUDA(cudaDeviceSynchronize());
  SEXTANT_CUDA(
      cudaMemcpy(bytes.data(), allocation_ + misalignment_, size(), cudaMemcpyDeviceToHost));
  return bytes;
}

std::vector<double> TwinTensor::host_values() const {
  std::vector<double> values(static_cast<std::size_t>(type_.shape.elements()));
  load_as_double(type_.dtype, host_.data(), values);
  return values;
}

std::vector<double> TwinTensor::device_values() const {
  std::vector<double> values(static_cast<std::size_t>(type_.shape.elements()));
  load_as_double(type_.dtype, device_bytes().data(), values);
  return values;
}

void TwinTensor::set(const std::vector<double>& values) {
  store_from_double(type_.dtype, values, host_.data());
  SEXTANT_CUDA(
      cudaMemcpy(allocation_ + misalignment_, host_.data(), size(), cudaMemcpyHostToDevice));
}

TwinCall::TwinCall(std::string kind, Attributes attributes, std::vector<TwinTensor*> in,
                   std::vector<TwinTensor*> out, bool accumulate)
    : in_(std::move(in)), out_(std::move(out)), accumulate_(accumulate) {
  actor_.kind = std::move(kind);
  actor_.name = actor_.kind;
  actor_.attributes = std::move(attributes);
}

KernelContext TwinCall::context() const {
  KernelContext context;
  context.actor = &actor_;
  context.accumulate.assign(out_.size(), accumulate_);
  context.hierarchy = {1};
  context.coordinates = {0};
  return context;
}

void TwinCall::run_reference() {
  KernelContext call = context();
  for (TwinTensor* tensor : in_) call.in.push_back(tensor->on_host());
  for (TwinTensor* tensor : out_) call.out.push_back(tensor->on_host());
  const Workspace::Frame frame(workspace_);
  // Kernels are functions: a table of them serves all calls.
  static const KernelTable kernels = reference_kernels();
  kernels.find(actor_.kind, call)(call, workspace_);
}

KernelContext TwinCall::for_device() const {
  KernelContext call = context();
  for (const TwinTensor* tensor : in_) call.in.push_back(tensor->on_device());
  for (const TwinTensor* tensor : out_) call.out.push_back(tensor->on_device());
  return call;
}

std::vector<double> digits(std::int64_t count, std::uint64_t salt, double range) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto high = static_cast<double>(bits_of(salt, static_cast<std::uint64_t>(i)) >> 11);
    values.push_back((high * 0x1p-52 - 1.0) * range);
  }
  return values;
}

std::vector<double> whole_numbers(std::int64_t count, std::uint64_t salt, std::int64_t below) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = bits_of(salt, static_cast<std::uint64_t>(i)) >> 8;
    values.push_back(static_cast<double>(bits % static_cast<std::uint64_t>(below)));
  }
  return values;
}

}  // namespace sextant
