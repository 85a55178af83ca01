// Graphs of cuDNN operations: built from tensors and operations, planned once for a device, run
// with any addresses. Empty where the build has no cuDNN.
#pragma once

#ifdef SEXTANT_HAS_CUDNN

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// Throws Error(kDevice) naming the expression and what cuDNN says about it.
void check_cudnn(cudnnStatus_t status, const char* expression, const char* file, int line);
#define SEXTANT_CUDNN(expression) \
  ::sextant::check_cudnn((expression), #expression, __FILE__, __LINE__)

// What graphs are planned for: addresses at multiples of 16 bytes.
inline bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
}

// One descriptor of the backend interface.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  cudnnBackendDescriptor_t raw() const { return raw_; }
  // Sets an attribute to `count` values. Throws Error(kDevice) where cuDNN refuses it.
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  template <typename T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.raw_);
  }
  // Returns how many values there are; writes at most `count`.
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   std::int64_t count, void* values) const;
  void finalize();

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

// For which device plans are made: that of the handle, or one that is only described (a JSON text
// of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION); such plans do not run.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* properties = nullptr;
};
// The device that cuDNN described so. Throws Error(kDevice) where it does not know the text.
CudnnDescriptor describe_cudnn_device(const std::string& json);

// A graph that can run. Const members may be called by any number of kernels.
class CudnnPlan {
 public:
  union Scalar {
    float real;
    std::int32_t integer;
  };

  CudnnPlan(CudnnDescriptor plan, std::vector<std::int64_t> scalar_ids, std::deque<Scalar> scalars);
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Addresses by tensor id for `run`; host memory only.
  CudnnDescriptor bind(std::span<const std::pair<std::int64_t, void*>> addresses,
                       void* workspace) const;
  void run(cudnnHandle_t handle, const CudnnDescriptor& binding, cudaStream_t stream) const;

 private:
  CudnnDescriptor plan_;
  std::vector<std::int64_t> scalar_ids_;
  std::deque<Scalar> scalars_;  // stay where they are: bindings point to them
  std::size_t workspace_bytes_ = 0;
};

class CudnnGraph {
 public:
  using Dims = std::vector<std::int64_t>;
  using Tensor = std::int64_t;  // its id, to bind an address to it

  // A tensor in memory.
  Tensor tensor(const Dims& dims, const Dims& strides, cudnnDataType_t type);
  // A value between operations, row-major.
  Tensor between(const Dims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  Tensor between(const Dims& dims, const Dims& strides, cudnnDataType_t type);
  Tensor scalar(float value, std::size_t rank);

  // All in f32, indices in i32 and comparisons in bool.
  void matmul(Tensor a, Tensor b, Tensor c);
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y);
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y);
  void select(Tensor where, Tensor x, Tensor otherwise, Tensor y);
  void compare(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y);
  void index(Tensor like, std::int64_t axis, Tensor y);
  void add_index(Tensor x, std::int32_t value, Tensor y);
  void reduce(cudnnReduceTensorOp_t how, Tensor x, Tensor y);
  void reshape(Tensor x, Tensor y);
  // Products over windows: x [N, C, spatial ...], w [O, C / groups, kernel ...], y [N, O, ...]; one
  // of the three is made of the others.
  enum class Made : std::uint8_t { kY, kX, kW };
  struct Windows {
    Dims stride, padding, dilation;
  };
  void convolve(Made made, const Windows& windows, Tensor x, Tensor w, Tensor y);

  // No plan uses an engine of which cuDNN notes this about its numbers.
  void refuse(cudnnBackendNumericalNote_t note) { refused_.push_back(note); }

  // Throws Error(kDevice) if the operations are no graph.
  void check() const { whole({}); }

  // The first plan that cuDNN proposes and can make; with `deterministic` of those alone that give
  // the same bits in every run. Throws Error(kDevice) saying why there is none.
  CudnnPlan plan(const CudnnTarget& target, bool deterministic) const;
  // Up to `most` of them, in the order that cuDNN proposes; at least one.
  std::vector<CudnnPlan> plans(const CudnnTarget& target, bool deterministic,
                               std::size_t most) const;

 private:
  Tensor add_tensor(const Dims& dims, const Dims& strides, cudnnDataType_t type, bool is_virtual,
                    bool is_value);
  Tensor add_scalar(CudnnPlan::Scalar value, cudnnDataType_t type, std::size_t rank);
  CudnnDescriptor whole(const CudnnTarget& target) const;
  const CudnnDescriptor& of(Tensor tensor) const {
    return tensors_[static_cast<std::size_t>(tensor - kFirstTensor)];
  }
  CudnnDescriptor pointwise_kind(cudnnPointwiseMode_t mode, cudnnDataType_t type) const;
  CudnnDescriptor& pointwise_operation(const CudnnDescriptor& kind, Tensor x, Tensor y);

  static constexpr Tensor kFirstTensor = 1;
  std::vector<CudnnDescriptor> tensors_, operations_;
  std::vector<cudnnBackendNumericalNote_t> refused_;
  std::vector<std::int64_t> scalar_ids_;
  std::deque<CudnnPlan::Scalar> scalars_;
};

}  // namespace sextant

#endif
