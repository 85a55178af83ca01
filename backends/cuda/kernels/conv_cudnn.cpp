// Plans of convolutions: row-major tensors as they are, sums in f32. A result of another type than
// the operands, or one that is added, is made in their type in scratch and put from there: cuDNN
// gives no f32 gradients of 16-bit operands.
#include "backends/cuda/kernels/conv_cudnn.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cudnn_graph.h"
#include "backends/cuda/row_major.h"
#include "core/check.h"
#include "core/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

#ifdef SEXTANT_HAS_CUDNN

namespace {

using Dims = CudnnGraph::Dims;

// cuDNN asks for more where a layout of its own is faster.
constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;
constexpr std::size_t kMostPlans = 8;
constexpr int kMostCudnnDims = 3;

// What a plan depends on.
struct Problem {
  CudaConvMade made = CudaConvMade::kY;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Dims x, w, y;
  CudnnGraph::Windows windows;
};

std::optional<cudnnDataType_t> cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CUDNN_DATA_FLOAT;
    case DType::kBF16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kF16:
      return CUDNN_DATA_HALF;
    case DType::kF64:
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
      return std::nullopt;
  }
  return std::nullopt;
}

// All windows of all of x: cuDNN knows no parts.
bool is_whole(const CudaWindowDim& dim) {
  const std::int64_t span = dim.dilation * (dim.kernel - 1) + 1;
  const std::int64_t room = dim.x_extent + 2 * dim.padding - span;
  return dim.x_offset == 0 && dim.y_offset == 0 && room >= 0 &&
         dim.y_extent == room / dim.stride + 1;
}

std::optional<Problem> problem_of(const CudaConv& conv, CudaConvMade made) {
  const std::optional<cudnnDataType_t> type = cudnn_type(conv.type);
  const CudaWindows& windows = conv.windows;
  if (!type || windows.rank < 1 || windows.rank > kMostCudnnDims) return std::nullopt;
  Problem problem;
  problem.made = made;
  problem.type = *type;
  problem.x = {conv.n, conv.channels};
  problem.w = {conv.outputs, conv.channels / conv.groups};
  problem.y = {conv.n, conv.outputs};
  const auto add = [&](const CudaWindowDim& dim) {
    problem.x.push_back(dim.x_extent);
    problem.w.push_back(dim.kernel);
    problem.y.push_back(dim.y_extent);
    problem.windows.stride.push_back(dim.stride);
    problem.windows.padding.push_back(dim.padding);
    problem.windows.dilation.push_back(dim.dilation);
  };
  if (windows.rank == 1) add(CudaWindowDim());  // a plane of one row
  for (int dim = 0; dim < windows.rank; ++dim) {
    if (!is_whole(windows.dims[dim])) return std::nullopt;
    add(windows.dims[dim]);
  }
  for (const Dims* dims : {&problem.x, &problem.w, &problem.y})
    if (std::any_of(dims->begin(), dims->end(), [](std::int64_t extent) { return extent < 1; }))
      return std::nullopt;
  return problem;
}

std::string text_of(const Problem& x) {
  return fmt::format("convolution {} of {}: x {}, w {}, y {}, stride {}, padding {}, dilation {}",
                     static_cast<int>(x.made), static_cast<int>(x.type), fmt::join(x.x, "x"),
                     fmt::join(x.w, "x"), fmt::join(x.y, "x"), fmt::join(x.windows.stride, "x"),
                     fmt::join(x.windows.padding, "x"), fmt::join(x.windows.dilation, "x"));
}

// The engine computes products as they are and sums in f32; of f32 operands without TF32.
void refuse_rounding(CudnnGraph& graph, cudnnDataType_t type) {
  for (const cudnnBackendNumericalNote_t note :
       {CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION})
    graph.refuse(note);
  if (type != CUDNN_DATA_FLOAT) return;
  graph.refuse(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  graph.refuse(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
}

CudnnGraph::Made made_of(CudaConvMade made) {
  switch (made) {
    case CudaConvMade::kY:
      return CudnnGraph::Made::kY;
    case CudaConvMade::kX:
      return CudnnGraph::Made::kX;
    case CudaConvMade::kW:
      return CudnnGraph::Made::kW;
  }
  return CudnnGraph::Made::kY;
}

struct Planned {
  CudnnGraph::Tensor x = 0, w = 0, y = 0;
  std::optional<CudnnPlan> plan;
};

void set_plan(Planned& planned, const Problem& problem, CudaContext& device) {
  CudnnGraph graph;
  planned.x = graph.tensor(problem.x, row_major_strides(problem.x), problem.type);
  planned.w = graph.tensor(problem.w, row_major_strides(problem.w), problem.type);
  planned.y = graph.tensor(problem.y, row_major_strides(problem.y), problem.type);
  graph.convolve(made_of(problem.made), problem.windows, planned.x, planned.w, planned.y);
  refuse_rounding(graph, problem.type);
  for (CudnnPlan& plan : graph.plans({device.cudnn(), nullptr}, device.deterministic(), kMostPlans))
    if (!planned.plan && plan.workspace_bytes() <= kMostWorkspace)
      planned.plan.emplace(std::move(plan));
  require(planned.plan.has_value(), ErrorCode::kDevice,
          "all plans want more than {} GiB of scratch", kMostWorkspace >> 30);
}

std::shared_ptr<const Planned> planned(const Problem& problem, CudaContext& device) {
  const std::string name = text_of(problem);
  std::shared_ptr<void>& shared = device.shared(name);
  if (shared != nullptr) return std::static_pointer_cast<const Planned>(shared);
  auto made = std::make_shared<Planned>();
  try {
    set_plan(*made, problem, device);
  } catch (const Error& error) {
    device.note(fmt::format("cuDNN does not run {}: own kernel instead ({})", name, error.what()));
  }
  shared = made;
  return made;
}

std::int64_t elements_of(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) count *= extent;
  return count;
}

class CudnnConv final : public CudaKernel {
 public:
  CudnnConv(std::shared_ptr<const Planned> planned, const CudaConv& conv, const Problem& problem,
            CudaContext& device)
      : planned_(std::move(planned)), conv_(conv), made_(problem.made), device_(device) {
    const Dims& made = made_ == CudaConvMade::kY   ? problem.y
                       : made_ == CudaConvMade::kX ? problem.x
                                                   : problem.w;
    if (conv.to_type != conv.type || conv.accumulate) {
      result_ = {nullptr, conv.type, conv.to, conv.to_type, elements_of(made), conv.accumulate};
      constexpr std::int64_t kAlignment = 256;
      const std::int64_t bytes = result_.elements * size_of(conv.type).value;
      staged_ = static_cast<std::size_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
    }
    device.need_scratch(staged_ + planned_->plan->workspace_bytes());
  }

  void enqueue(cudaStream_t stream) override {
    if (!binding_) bind();
    planned_->plan->run(device_.cudnn(), *binding_, stream);
    if (staged_ > 0) SEXTANT_CUDA(enqueue_conv_result(result_, stream));
  }

 private:
  void bind() {
    auto* const scratch = static_cast<std::byte*>(device_.scratch());
    void* const to = staged_ > 0 ? scratch : conv_.to;
    result_.from = to;
    const auto operand = [&](CudaConvMade which, const void* input) {
      return which == made_ ? to : const_cast<void*>(input);
    };
    const std::array<std::pair<std::int64_t, void*>, 3> addresses = {
        {{planned_->x, operand(CudaConvMade::kX, conv_.x)},
         {planned_->w, operand(CudaConvMade::kW, conv_.w)},
         {planned_->y, operand(CudaConvMade::kY, conv_.y)}}};
    binding_.emplace(planned_->plan->bind(addresses, scratch + staged_));
  }

  std::shared_ptr<const Planned> planned_;
  CudaConv conv_;
  CudaConvMade made_;
  CudaContext& device_;
  CudaConvResult result_;
  std::size_t staged_ = 0;  // bytes of the result in scratch
  std::optional<CudnnDescriptor> binding_;
};

bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

}  // namespace

std::unique_ptr<CudaKernel> make_cudnn_conv(const CudaConv& conv, CudaConvMade made,
                                            CudaContext& device) {
  const std::optional<Problem> problem = problem_of(conv, made);
  if (!problem || !is_aligned(conv.x) || !is_aligned(conv.w) || !is_aligned(conv.y) ||
      !is_aligned(conv.to))
    return nullptr;
  std::shared_ptr<const Planned> plan = planned(*problem, device);
  if (!plan->plan) return nullptr;
  return std::make_unique<CudnnConv>(std::move(plan), conv, *problem, device);
}

#else

std::unique_ptr<CudaKernel> make_cudnn_conv(const CudaConv& /*conv*/, CudaConvMade /*made*/,
                                            CudaContext& /*device*/) {
  return nullptr;
}

#endif

}  // namespace sextant
