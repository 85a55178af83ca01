// Descriptors, operation graphs and plans of cuDNN's backend interface.
#include "backends/cuda/cudnn_graph.h"

#ifdef SEXTANT_HAS_CUDNN

#include "backends/cuda/row_major.h"
#include "core/base/check.h"

#include <algorithm>
#include <array>

namespace sextant {

void check_cudnn(cudnnStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> detail{};
  cudnnGetLastErrorString(detail.data(), detail.size());
  fail(ErrorCode::kDevice, "{}:{}: {}: {} ({})", file, line, expression,
       cudnnGetErrorString(status), detail.data());
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  SEXTANT_CUDNN(cudnnBackendCreateDescriptor(type, &raw_));
}

CudnnDescriptor::~CudnnDescriptor() {
  if (raw_ != nullptr) cudnnBackendDestroyDescriptor(raw_);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* values) {
  SEXTANT_CUDNN(cudnnBackendSetAttribute(raw_, name, type, count, values));
}

std::int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, std::int64_t count,
                                  void* values) const {
  std::int64_t found = 0;
  SEXTANT_CUDNN(cudnnBackendGetAttribute(raw_, name, type, count, &found, values));
  return found;
}

void CudnnDescriptor::finalize() { SEXTANT_CUDNN(cudnnBackendFinalize(raw_)); }

CudnnDescriptor describe_cudnn_device(const std::string& json) {
  CudnnDescriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 static_cast<std::int64_t>(json.size()), json.data());
  properties.finalize();
  return properties;
}

CudnnPlan::CudnnPlan(CudnnDescriptor plan, std::vector<std::int64_t> scalar_ids,
                     std::deque<Scalar> scalars)
    : plan_(std::move(plan)), scalar_ids_(std::move(scalar_ids)), scalars_(std::move(scalars)) {
  std::int64_t bytes = 0;
  plan_.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  workspace_bytes_ = static_cast<std::size_t>(bytes);
}

CudnnDescriptor CudnnPlan::bind(std::span<const std::pair<std::int64_t, void*>> addresses,
                                void* workspace) const {
  std::vector<std::int64_t> ids = scalar_ids_;
  std::vector<void*> pointers;
  for (const Scalar& value : scalars_) pointers.push_back(const_cast<Scalar*>(&value));
  for (const auto& [id, address] : addresses) {
    ids.push_back(id);
    pointers.push_back(address);
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  CudnnDescriptor binding(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  binding.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  binding.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
  binding.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  binding.finalize();
  return binding;
}

void CudnnPlan::run(cudnnHandle_t handle, const CudnnDescriptor& binding,
                    cudaStream_t stream) const {
  SEXTANT_CUDNN(cudnnSetStream(handle, stream));
  SEXTANT_CUDNN(cudnnBackendExecute(handle, plan_.raw(), binding.raw()));
}

CudnnGraph::Tensor CudnnGraph::add_tensor(const Dims& dims, const Dims& strides,
                                          cudnnDataType_t type, bool is_virtual, bool is_value) {
  const Tensor id = kFirstTensor + static_cast<Tensor>(tensors_.size());
  CudnnDescriptor& tensor = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto rank = static_cast<std::int64_t>(dims.size());
  constexpr std::int64_t kAlignment = 16;
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dims.data());
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides.data());
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  if (is_virtual) tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  if (is_value) tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, is_value);
  tensor.finalize();
  return id;
}

CudnnGraph::Tensor CudnnGraph::tensor(const Dims& dims, const Dims& strides, cudnnDataType_t type) {
  return add_tensor(dims, strides, type, false, false);
}

CudnnGraph::Tensor CudnnGraph::between(const Dims& dims, cudnnDataType_t type) {
  return add_tensor(dims, row_major_strides(dims), type, true, false);
}

CudnnGraph::Tensor CudnnGraph::between(const Dims& dims, const Dims& strides,
                                       cudnnDataType_t type) {
  return add_tensor(dims, strides, type, true, false);
}

CudnnGraph::Tensor CudnnGraph::add_scalar(CudnnPlan::Scalar value, cudnnDataType_t type,
                                          std::size_t rank) {
  const Dims ones(rank, 1);
  scalar_ids_.push_back(add_tensor(ones, ones, type, false, true));
  scalars_.push_back(value);
  return scalar_ids_.back();
}

CudnnGraph::Tensor CudnnGraph::scalar(float value, std::size_t rank) {
  return add_scalar({.real = value}, CUDNN_DATA_FLOAT, rank);
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor c) {
  CudnnDescriptor kind(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.finalize();
  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(c));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  operation.finalize();
}

CudnnDescriptor CudnnGraph::pointwise_kind(cudnnPointwiseMode_t mode, cudnnDataType_t type) const {
  CudnnDescriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type);
  return kind;
}

CudnnDescriptor& CudnnGraph::pointwise_operation(const CudnnDescriptor& kind, Tensor x, Tensor y) {
  CudnnDescriptor& operation =
      operations_.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
  return operation;
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y) {
  CudnnDescriptor kind = pointwise_kind(mode, CUDNN_DATA_FLOAT);
  kind.finalize();
  pointwise_operation(kind, x, y).finalize();
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y) {
  CudnnDescriptor kind = pointwise_kind(mode, CUDNN_DATA_FLOAT);
  kind.finalize();
  CudnnDescriptor& operation = pointwise_operation(kind, x, y);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(b));
  operation.finalize();
}

void CudnnGraph::select(Tensor where, Tensor x, Tensor otherwise, Tensor y) {
  CudnnDescriptor kind = pointwise_kind(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT);
  kind.finalize();
  CudnnDescriptor& operation = pointwise_operation(kind, x, y);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(otherwise));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(where));
  operation.finalize();
}

void CudnnGraph::compare(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y) {
  CudnnDescriptor kind = pointwise_kind(mode, CUDNN_DATA_BOOLEAN);
  kind.finalize();
  CudnnDescriptor& operation = pointwise_operation(kind, x, y);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(b));
  operation.finalize();
}

void CudnnGraph::index(Tensor like, std::int64_t axis, Tensor y) {
  CudnnDescriptor kind = pointwise_kind(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT);
  kind.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  kind.finalize();
  pointwise_operation(kind, like, y).finalize();
}

void CudnnGraph::add_index(Tensor x, std::int32_t value, Tensor y) {
  const Tensor added = add_scalar({.integer = value}, CUDNN_DATA_INT32, 4);
  CudnnDescriptor kind = pointwise_kind(CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32);
  kind.finalize();
  CudnnDescriptor& operation = pointwise_operation(kind, x, y);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(added));
  operation.finalize();
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t how, Tensor x, Tensor y) {
  CudnnDescriptor kind(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, how);
  kind.finalize();
  CudnnDescriptor& operation =
      operations_.emplace_back(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(y));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  operation.finalize();
}

void CudnnGraph::reshape(Tensor x, Tensor y) {
  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(y));
  operation.finalize();
}

namespace {

// Names of the same thing in the three operations.
struct ConvolutionNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t windows, x, w, y, alpha, beta;
};
constexpr ConvolutionNames kMakesY = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr ConvolutionNames kMakesX = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr ConvolutionNames kMakesW = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

CudnnDescriptor describe(const CudnnGraph::Windows& windows) {
  const auto rank = static_cast<std::int64_t>(windows.stride.size());
  CudnnDescriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  made.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  made.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, rank);
  made.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, rank, windows.stride.data());
  made.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, rank, windows.dilation.data());
  for (const auto side :
       {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
    made.set(side, CUDNN_TYPE_INT64, rank, windows.padding.data());
  made.finalize();
  return made;
}

}  // namespace

void CudnnGraph::convolve(Made made, const Windows& windows, Tensor x, Tensor w, Tensor y) {
  const ConvolutionNames& names = made == Made::kY ? kMakesY : made == Made::kX ? kMakesX : kMakesW;
  const float one = 1.0F, zero = 0.0F;
  const CudnnDescriptor described = describe(windows);
  CudnnDescriptor& operation = operations_.emplace_back(names.operation);
  operation.set(names.windows, described);
  operation.set(names.x, of(x));
  operation.set(names.w, of(w));
  operation.set(names.y, of(y));
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, one);
  operation.set(names.beta, CUDNN_TYPE_FLOAT, zero);
  operation.finalize();
}

namespace {

// Engine configurations that the heuristics propose, best first.
std::vector<CudnnDescriptor> proposals(const CudnnDescriptor& graph, const CudnnTarget& target,
                                       cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (target.properties != nullptr)
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  heuristics.finalize();
  const std::int64_t count =
      heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<CudnnDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i)
    raw.push_back(found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
  const std::int64_t got = count == 0
                               ? 0
                               : heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raw.data());
  while (found.size() > static_cast<std::size_t>(got)) found.pop_back();
  return found;
}

bool has_note(const CudnnDescriptor& config, std::span<const cudnnBackendNumericalNote_t> refused) {
  const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                        notes.size(), notes.data());
  return std::any_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    return std::find(refused.begin(), refused.end(), note) != refused.end();
  });
}

CudnnDescriptor make_plan(const CudnnDescriptor& config, const CudnnTarget& target) {
  CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (target.handle != nullptr)
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  if (target.properties != nullptr)
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  plan.finalize();
  return plan;
}

}  // namespace

CudnnDescriptor CudnnGraph::whole(const CudnnTarget& target) const {
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(operation.raw());
  if (target.handle != nullptr)
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(operations.size()), operations.data());
  graph.finalize();
  return graph;
}

CudnnPlan CudnnGraph::plan(const CudnnTarget& target, bool deterministic) const {
  std::vector<CudnnPlan> first = plans(target, deterministic, 1);
  return std::move(first.front());
}

std::vector<CudnnPlan> CudnnGraph::plans(const CudnnTarget& target, bool deterministic,
                                         std::size_t most) const {
  const CudnnDescriptor graph = whole(target);
  std::string reason = "cuDNN proposes no engine";
  std::vector<CudnnPlan> plans;
  const auto try_config = [&](const CudnnDescriptor& config) {
    constexpr cudnnBackendNumericalNote_t kRandom[] = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    if (deterministic && has_note(config, kRandom)) {
      reason = "cuDNN proposes no engine that is deterministic";
      return;
    }
    if (has_note(config, refused_)) {
      reason = "cuDNN proposes no engine that rounds as wanted";
      return;
    }
    try {
      plans.emplace_back(make_plan(config, target), scalar_ids_, scalars_);
    } catch (const Error& error) {
      reason = error.what();
    }
  };
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!plans.empty()) break;
    try {
      for (const CudnnDescriptor& config : proposals(graph, target, mode))
        if (plans.size() < most) try_config(config);
    } catch (const Error& error) {
      reason = error.what();
    }
  }
  require(!plans.empty(), ErrorCode::kDevice, "{}", reason);
  return plans;
}

}  // namespace sextant

#endif
