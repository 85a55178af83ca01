// Plans of convolutions, sums in f32; where x or y lies channels-last, on tensors that all do: what
// is row-major then, weights mostly, is copied to scratch and back. A result of another type than
// the operands, or one that is added, is made in their type in scratch and put from there: cuDNN
// gives no f32 gradients of 16-bit operands.
#include "backends/cuda/kernels/convolution/conv_cudnn.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cudnn_graph.h"
#include "backends/cuda/kernels/movement/moves.h"
#include "backends/cuda/kernels/shared/noise.h"
#include "backends/cuda/kernels/shared/stopwatch.h"
#include "backends/cuda/row_major.h"
#include "core/base/check.h"
#include "core/base/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
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
constexpr std::size_t kMostConvPlans = 8;
constexpr int kMostCudnnDims = 3;

// What a plan depends on.
struct Problem {
  CudaConvMade made = CudaConvMade::kY;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Dims x, w, y;
  CudnnGraph::Windows windows;
  bool channels_last = false;

  const Dims& dims(CudaConvMade which) const {
    return which == CudaConvMade::kX ? x : which == CudaConvMade::kY ? y : w;
  }
  Dims strides(CudaConvMade which) const {
    return channels_last ? channels_last_strides(dims(which)) : row_major_strides(dims(which));
  }
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
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kU8:
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
  problem.channels_last = conv.x_channels_last || conv.y_channels_last;
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
  return fmt::format("convolution {} of {}: x {}, w {}, y {}, stride {}, padding {}, dilation {}{}",
                     static_cast<int>(x.made), static_cast<int>(x.type), fmt::join(x.x, "x"),
                     fmt::join(x.w, "x"), fmt::join(x.y, "x"), fmt::join(x.windows.stride, "x"),
                     fmt::join(x.windows.padding, "x"), fmt::join(x.windows.dilation, "x"),
                     x.channels_last ? ", channels last" : "");
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

std::int64_t elements_of(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) count *= extent;
  return count;
}

struct PlannedConv {
  CudnnGraph::Tensor x = 0, w = 0, y = 0;
  std::optional<CudnnPlan> plan;
};

// Memory for measuring that may be refused.
class Trial {
 public:
  explicit Trial(const Problem& problem, std::size_t workspace) {
    for (const CudaConvMade which : {CudaConvMade::kX, CudaConvMade::kW, CudaConvMade::kY})
      take(static_cast<std::size_t>(elements_of(problem.dims(which))) * sizeof(float));
    take(std::max<std::size_t>(workspace, 1));
  }
  ~Trial() {
    for (void* data : memory_) cudaFree(data);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  bool has_memory() const { return memory_.size() == 4; }
  void* at(std::size_t index) const { return memory_[index]; }

 private:
  void take(std::size_t bytes) {
    void* data = nullptr;
    if (cudaMalloc(&data, bytes) == cudaSuccess)
      memory_.push_back(data);
    else
      cudaGetLastError();  // an error that is answered here and nowhere else
  }
  std::vector<void*> memory_;
};

// The fastest of several on noise, or the first where there is no memory to try them.
std::size_t fastest(const PlannedConv& planned, const std::vector<CudnnPlan>& plans,
                    const Problem& problem, CudaContext& device) {
  constexpr int kRuns = 4;
  std::size_t most = 0;
  for (const CudnnPlan& plan : plans) most = std::max(most, plan.workspace_bytes());
  const Trial trial(problem, most);
  if (!trial.has_memory()) return 0;
  Stopwatch watch;
  const DType dtype = problem.type == CUDNN_DATA_FLOAT      ? DType::kF32
                      : problem.type == CUDNN_DATA_BFLOAT16 ? DType::kBF16
                                                            : DType::kF16;
  const CudaConvMade all[] = {CudaConvMade::kX, CudaConvMade::kW, CudaConvMade::kY};
  for (std::size_t i = 0; i < 3; ++i)
    SEXTANT_CUDA(
        enqueue_noise({trial.at(i), dtype, elements_of(problem.dims(all[i]))}, watch.stream()));
  const std::array<std::pair<std::int64_t, void*>, 3> addresses = {
      {{planned.x, trial.at(0)}, {planned.w, trial.at(1)}, {planned.y, trial.at(2)}}};
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const CudnnDescriptor binding = plans[i].bind(addresses, trial.at(3));
    const auto run = [&] { plans[i].run(device.cudnn(), binding, watch.stream()); };
    watch.seconds(1, run);  // warm-up
    const double seconds = watch.seconds(kRuns, run);
    if (seconds >= least) continue;
    least = seconds;
    best = i;
  }
  return best;
}

void set_plan(PlannedConv& planned, const Problem& problem, CudaContext& device) {
  CudnnGraph graph;
  const auto tensor = [&](CudaConvMade which) {
    return graph.tensor(problem.dims(which), problem.strides(which), problem.type);
  };
  planned.x = tensor(CudaConvMade::kX);
  planned.w = tensor(CudaConvMade::kW);
  planned.y = tensor(CudaConvMade::kY);
  graph.convolve(made_of(problem.made), problem.windows, planned.x, planned.w, planned.y);
  refuse_rounding(graph, problem.type);
  std::vector<CudnnPlan> plans;
  for (CudnnPlan& plan :
       graph.plans({device.cudnn(), nullptr}, device.deterministic(), kMostConvPlans))
    if (plan.workspace_bytes() <= kMostWorkspace) plans.push_back(std::move(plan));
  require(!plans.empty(), ErrorCode::kDevice, "all plans want more than {} GiB of scratch",
          kMostWorkspace >> 30);
  const bool may_choose = device.tunes() && plans.size() > 1;
  const auto measure = [&] { return fastest(planned, plans, problem, device); };
  planned.plan.emplace(std::move(
      plans[may_choose ? device.fastest_of(text_of(problem), plans.size(), measure) : 0]));
}

std::shared_ptr<const PlannedConv> planned(const Problem& problem, CudaContext& device) {
  const std::string name = text_of(problem);
  std::shared_ptr<void>& shared = device.shared(name);
  if (shared != nullptr) return std::static_pointer_cast<const PlannedConv>(shared);
  auto made = std::make_shared<PlannedConv>();
  try {
    set_plan(*made, problem, device);
  } catch (const Error& error) {
    device.note(fmt::format("cuDNN does not run {}: own kernel instead ({})", name, error.what()));
  }
  shared = made;
  return made;
}

class CudnnConv final : public CudaKernel {
 public:
  CudnnConv(std::shared_ptr<const PlannedConv> planned, const CudaConv& conv, Problem problem,
            CudaContext& device)
      : planned_(std::move(planned)), conv_(conv), problem_(std::move(problem)), device_(device) {
    device.need_scratch(lay_out(nullptr) + planned_->plan->workspace_bytes());
  }

  void enqueue(cudaStream_t stream) override {
    if (!binding_) bind();
    before_.enqueue(stream);
    planned_->plan->run(device_.cudnn(), *binding_, stream);
    after_.enqueue(stream);
    if (result_.from != nullptr) SEXTANT_CUDA(enqueue_conv_result(result_, stream));
  }

 private:
  static constexpr std::array<CudaConvMade, 3> kAll = {CudaConvMade::kX, CudaConvMade::kW,
                                                       CudaConvMade::kY};

  void* given(CudaConvMade which) const {
    if (which == problem_.made) return conv_.to;
    return const_cast<void*>(which == CudaConvMade::kX   ? conv_.x
                             : which == CudaConvMade::kW ? conv_.w
                                                         : conv_.y);
  }
  // Whether the tensor lies in another order than the plan's, and the orders differ.
  bool is_reordered(CudaConvMade which) const {
    const bool lies_last = which == CudaConvMade::kX   ? conv_.x_channels_last
                           : which == CudaConvMade::kY ? conv_.y_channels_last
                                                       : false;
    const Dims& dims = problem_.dims(which);
    const std::int64_t behind = elements_of(dims) / (dims[0] * dims[1]);
    return problem_.channels_last != lies_last && dims[1] > 1 && behind > 1;
  }
  std::size_t bytes_of(CudaConvMade which) const {
    constexpr std::int64_t kAlignment = 256;
    const std::int64_t bytes = elements_of(problem_.dims(which)) * size_of(conv_.type).value;
    return static_cast<std::size_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
  }

  // Between row-major and channels-last, in the order of the result.
  CudaMove reordering(CudaConvMade which, const void* from, void* to, bool to_channels_last) const {
    const Dims &dims = problem_.dims(which), rows = row_major_strides(dims),
               last = channels_last_strides(dims);
    std::vector<MoveDim> made;
    for (std::size_t dim = 0; dim < dims.size(); ++dim)
      made.push_back(to_channels_last ? MoveDim{dims[dim], rows[dim], last[dim]}
                                      : MoveDim{dims[dim], last[dim], rows[dim]});
    if (to_channels_last) std::rotate(made.begin() + 1, made.begin() + 2, made.end());
    return make_move(conv_.type, from, to, std::move(made), false);
  }

  // Says where the plan finds its tensors and what is copied before and after it; returns the bytes
  // of scratch that this takes.
  std::size_t lay_out(std::byte* scratch) {
    before_ = after_ = Movement();
    result_ = {};
    std::size_t used = 0;
    const auto take = [&](CudaConvMade which) {
      std::byte* const at = scratch == nullptr ? nullptr : scratch + used;
      used += bytes_of(which);
      return static_cast<void*>(at);
    };
    for (const CudaConvMade which : kAll) {
      void*& at = addresses_[static_cast<std::size_t>(which)];
      at = given(which);
      if (which == problem_.made) {
        at = lay_out_result(at, take);
      } else if (is_reordered(which)) {
        at = take(which);
        if (scratch != nullptr)
          before_.add(reordering(which, given(which), at, problem_.channels_last));
      }
    }
    return used;
  }

  // From the plan's result over a copy in the other order to that of another type or sum; returns
  // where the plan writes.
  template <typename Take>
  void* lay_out_result(void* to, const Take& take) {
    const CudaConvMade made = problem_.made;
    void* at = to;
    if (conv_.to_type != conv_.type || conv_.accumulate) {
      at = take(made);
      result_ = {
          at, conv_.type, to, conv_.to_type, elements_of(problem_.dims(made)), conv_.accumulate};
    }
    if (!is_reordered(made)) return at;
    void* const reordered = at;
    at = take(made);
    if (at != nullptr) after_.add(reordering(made, at, reordered, !problem_.channels_last));
    return at;
  }

  void bind() {
    auto* const scratch = static_cast<std::byte*>(device_.scratch());
    const std::size_t used = lay_out(scratch);
    const auto at = [&](CudaConvMade which) { return addresses_[static_cast<std::size_t>(which)]; };
    const std::array<std::pair<std::int64_t, void*>, 3> addresses = {
        {{planned_->x, at(CudaConvMade::kX)},
         {planned_->w, at(CudaConvMade::kW)},
         {planned_->y, at(CudaConvMade::kY)}}};
    binding_.emplace(planned_->plan->bind(addresses, scratch + used));
  }

  std::shared_ptr<const PlannedConv> planned_;
  CudaConv conv_;
  Problem problem_;
  CudaContext& device_;
  std::array<void*, 3> addresses_ = {};  // by CudaConvMade
  Movement before_, after_;
  CudaConvResult result_;
  std::optional<CudnnDescriptor> binding_;
};

}  // namespace

std::unique_ptr<CudaKernel> make_cudnn_conv(const CudaConv& conv, CudaConvMade made,
                                            CudaContext& device) {
  std::optional<Problem> problem = problem_of(conv, made);
  if (!problem || !is_aligned(conv.x) || !is_aligned(conv.w) || !is_aligned(conv.y) ||
      !is_aligned(conv.to))
    return nullptr;
  std::shared_ptr<const PlannedConv> plan = planned(*problem, device);
  if (!plan->plan && problem->channels_last) {
    problem->channels_last = false;
    plan = planned(*problem, device);
  }
  if (!plan->plan) return nullptr;
  return std::make_unique<CudnnConv>(std::move(plan), conv, *std::move(problem), device);
}

#else

std::unique_ptr<CudaKernel> make_cudnn_conv(const CudaConv& /*conv*/, CudaConvMade /*made*/,
                                            CudaContext& /*device*/) {
  return nullptr;
}

#endif

}  // namespace sextant
