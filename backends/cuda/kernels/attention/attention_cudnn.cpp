// Attention through cuDNN where it serves a call: bf16 and f16, sequences that begin together or
// with the keys ahead, heads of up to 256 elements by eights. Plans are made once per shape and
// shared by all layers; what cuDNN refuses is noted once and left to the other kernels.
#include "backends/cuda/kernels/attention/attention_cudnn.h"

#ifdef SEXTANT_HAS_CUDNN

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/kernels/attention/attention_call.h"
#include "backends/cuda/kernels/attention/attention_graphs.h"
#include "backends/cuda/kernels/shared/stopwatch.h"
#include "core/base/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace sextant {
namespace {

// Before, cuDNN stored lse in its own layout only.
constexpr std::size_t kOldestVersion = 91200;
// Up to here gradients read keys beyond the sequence unless it fills tiles.
constexpr std::size_t kLastPaddedVersion = 91500;
constexpr std::int64_t kTile = 128;
// Plans of one shape that are measured.
constexpr std::size_t kMostPlans = 3;
// Gradients of scores of one layer that may lie in memory.
constexpr std::size_t kMostScoreBytes = std::size_t{2} << 30;

// Heads of 64 to 256 elements, by eights.
bool has_size(std::int64_t size) { return size >= 64 && size <= kMostHeadSize && size % 8 == 0; }

std::optional<AttentionProblem> problem_of(const AttentionShape& x, DType dtype) {
  const std::int64_t group = x.kv_heads == 0 ? 0 : x.heads / x.kv_heads;
  if (dtype != DType::kBF16 && dtype != DType::kF16) return std::nullopt;
  if (x.batch == 0 || x.queries == 0 || x.heads == 0 || x.keys <= 1) return std::nullopt;
  if (!has_size(x.size) || !has_size(x.value_size)) return std::nullopt;
  // Every group whole and in its place, or one key/value head for all.
  if (x.heads % x.kv_heads != 0) return std::nullopt;
  for (std::int64_t h = 0; h < x.heads; ++h)
    if (x.kv_head_of(h) != h / group) return std::nullopt;
  if (x.chunk != 0 || (x.causal && x.first_key > x.first_query)) return std::nullopt;
  // The causal mask hides what a last tile of keys has beyond the sequence; without it nothing
  // has been seen to.
  if (!x.causal && x.keys % kTile != 0) return std::nullopt;
  AttentionProblem problem;
  problem.type = dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  problem.batch = x.batch;
  problem.queries = x.queries;
  problem.keys = x.keys;
  problem.heads = x.heads;
  problem.kv_heads = x.kv_heads;
  problem.size = x.size;
  problem.value_size = x.value_size;
  problem.causal = x.causal;
  problem.ahead = x.causal ? x.first_query - x.first_key : 0;
  problem.scale = static_cast<float>(x.scale);
  return problem;
}

std::string text_of(const AttentionProblem& x) {
  return fmt::format("{} {} x {} over {}, {} heads of {} by {} on {}, {}, scale {}",
                     x.type == CUDNN_DATA_BFLOAT16 ? "bf16" : "f16", x.batch, x.queries, x.keys,
                     x.heads, x.size, x.value_size, x.kv_heads,
                     x.causal ? fmt::format("{} ahead", x.ahead) : "all keys", x.scale);
}

// A graph of attention and its plan; without where cuDNN has none.
template <typename Graph>
struct Planned {
  std::optional<Graph> graph;
  std::optional<CudnnPlan> plan;
};

// `choose` takes one of up to `most` plans.
template <typename Graph, typename Choose, typename... Arguments>
std::shared_ptr<const Planned<Graph>> planned(CudaContext& device, const std::string& name,
                                              std::size_t most, const Choose& choose,
                                              Arguments&&... arguments) {
  std::shared_ptr<void>& shared = device.shared(name);
  if (shared != nullptr) return std::static_pointer_cast<const Planned<Graph>>(shared);
  auto made = std::make_shared<Planned<Graph>>();
  try {
    made->graph.emplace(std::forward<Arguments>(arguments)...);
    std::vector<CudnnPlan> plans =
        made->graph->graph.plans({device.cudnn(), nullptr}, device.deterministic(), most);
    made->plan.emplace(std::move(plans[plans.size() == 1 ? 0 : choose(*made->graph, plans)]));
  } catch (const Error& error) {
    made->plan.reset();
    device.note(fmt::format("cuDNN does not run {}: own kernel instead ({})", name, error.what()));
  }
  shared = made;
  return made;
}

using Forward = std::shared_ptr<const Planned<AttentionForward>>;
using Backward = std::shared_ptr<const Planned<AttentionBackward>>;

CudnnDescriptor bind(const AttentionForward& graph, const CudnnPlan& plan,
                     const AttentionArguments& a, void* workspace) {
  const std::pair<std::int64_t, void*> addresses[] = {{graph.q, const_cast<void*>(a.q)},
                                                      {graph.k, const_cast<void*>(a.k)},
                                                      {graph.v, const_cast<void*>(a.v)},
                                                      {graph.o, a.o},
                                                      {graph.lse, a.lse}};
  return plan.bind(addresses, workspace);
}

// Of the plans that fit into the device's workspace, on the operands of the first call: what lies
// there is overwritten before it is read. (Of the gradient the first is twice as fast as others.)
std::size_t fastest(const AttentionForward& graph, const std::vector<CudnnPlan>& plans,
                    const AttentionArguments& arguments, CudaContext& device) {
  constexpr int kRuns = 10;
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  Stopwatch watch;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].workspace_bytes() > CudaContext::kWorkspaceBytes) continue;
    const CudnnDescriptor binding = bind(graph, plans[i], arguments, device.workspace());
    const auto run = [&] { plans[i].run(device.cudnn(), binding, watch.stream()); };
    watch.seconds(2, run);  // warm-up
    const double seconds = watch.seconds(kRuns, run);
    if (seconds >= least) continue;
    least = seconds;
    best = i;
  }
  return best;
}

class CudnnAttention final : public CudaKernel {
 public:
  CudnnAttention(Forward forward, const AttentionArguments& arguments, CudaContext& device)
      : forward_(std::move(forward)), arguments_(arguments), device_(device) {
    device.need_scratch(forward_->plan->workspace_bytes());
  }
  void enqueue(cudaStream_t stream) override {
    const CudnnPlan& plan = *forward_->plan;
    if (!binding_) binding_.emplace(bind(*forward_->graph, plan, arguments_, device_.scratch()));
    plan.run(device_.cudnn(), *binding_, stream);
  }

 private:
  Forward forward_;
  AttentionArguments arguments_;
  CudaContext& device_;
  std::optional<CudnnDescriptor> binding_;
};

class CudnnAttentionGrad final : public CudaKernel {
 public:
  CudnnAttentionGrad(Backward backward, const AttentionGradArguments& arguments,
                     CudaContext& device)
      : backward_(std::move(backward)), arguments_(arguments), device_(device) {
    const AttentionShape& shape = arguments.shape;
    const auto rows = static_cast<std::size_t>(shape.batch * shape.queries * shape.heads);
    at_delta_ = aligned(rows * sizeof(float));
    at_sum_ = at_delta_ + aligned(rows * sizeof(float));
    const std::size_t sums = backward_->graph->sum_dq == 0 ? 0 : rows * sizeof(float);
    at_workspace_ = at_sum_ + aligned(sums * static_cast<std::size_t>(shape.size));
    device.need_scratch(at_workspace_ + backward_->plan->workspace_bytes());
  }
  void enqueue(cudaStream_t stream) override {
    if (!binding_) bind();
    const LseByHeadArguments lse{arguments_.shape, static_cast<const float*>(arguments_.lse),
                                 static_cast<float*>(device_.scratch())};
    SEXTANT_CUDA(enqueue_lse_by_head(lse, stream));
    backward_->plan->run(device_.cudnn(), *binding_, stream);
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  void bind() {
    const AttentionBackward& graph = *backward_->graph;
    std::byte* const scratch = static_cast<std::byte*>(device_.scratch());
    std::vector<std::pair<std::int64_t, void*>> addresses = {
        {graph.q, const_cast<void*>(arguments_.q)},
        {graph.k, const_cast<void*>(arguments_.k)},
        {graph.v, const_cast<void*>(arguments_.v)},
        {graph.o, const_cast<void*>(arguments_.o)},
        {graph.d_o, const_cast<void*>(arguments_.d_o)},
        {graph.dq, arguments_.dq},
        {graph.dk, arguments_.dk},
        {graph.dv, arguments_.dv},
        {graph.lse, scratch},
        {graph.delta, scratch + at_delta_}};
    if (graph.sum_dq != 0) addresses.emplace_back(graph.sum_dq, scratch + at_sum_);
    binding_.emplace(backward_->plan->bind(addresses, scratch + at_workspace_));
  }

  Backward backward_;
  AttentionGradArguments arguments_;
  CudaContext& device_;
  std::size_t at_delta_ = 0, at_sum_ = 0, at_workspace_ = 0;  // in scratch, behind lse
  std::optional<CudnnDescriptor> binding_;
};

}  // namespace

std::unique_ptr<CudaKernel> make_cudnn_attention(const KernelContext& call, CudaContext& device) {
  const AttentionArguments a = attention_arguments(call);
  const std::optional<AttentionProblem> problem = problem_of(a.shape, a.dtype);
  const void* const addresses[] = {a.q, a.k, a.v, a.o};
  if (!problem || a.has_wide_out || a.accumulate_o || a.accumulate_lse ||
      !std::all_of(std::begin(addresses), std::end(addresses), is_aligned) ||
      cudnnGetVersion() < kOldestVersion)
    return nullptr;
  const auto choose = [&](const AttentionForward& graph, const std::vector<CudnnPlan>& plans) {
    return device.fastest_of("attention of " + text_of(*problem), plans.size(),
                             [&] { return fastest(graph, plans, a, device); });
  };
  const Forward forward =
      planned<AttentionForward>(device, "attention of " + text_of(*problem),
                                device.tunes() ? kMostPlans : 1, choose, *problem);
  if (!forward->plan) return nullptr;
  return std::make_unique<CudnnAttention>(forward, a, device);
}

std::unique_ptr<CudaKernel> make_cudnn_attention_grad(const KernelContext& call,
                                                      CudaContext& device) {
  const AttentionGradArguments a = attention_grad_arguments(call);
  const std::optional<AttentionProblem> problem = problem_of(a.shape, a.dtype);
  const void* const addresses[] = {a.q, a.k, a.v, a.o, a.d_o, a.dq, a.dk, a.dv};
  if (!problem || a.has_wide_out || a.accumulate_dq || a.accumulate_dk || a.accumulate_dv ||
      !std::all_of(std::begin(addresses), std::end(addresses), is_aligned) ||
      cudnnGetVersion() < kOldestVersion ||
      (cudnnGetVersion() <= kLastPaddedVersion && problem->keys % kTile != 0))
    return nullptr;
  const auto first = [](const AttentionBackward&, const std::vector<CudnnPlan>&) { return 0; };
  const Backward backward =
      planned<AttentionBackward>(device, "the gradient of attention of " + text_of(*problem), 1,
                                 first, *problem, device.deterministic());
  if (!backward->plan || backward->plan->workspace_bytes() > kMostScoreBytes) return nullptr;
  return std::make_unique<CudnnAttentionGrad>(backward, a, device);
}

}  // namespace sextant

#endif
