// Which norms the passes per channel serve: pieces of a norm
// (core/operators/layers/norm_pieces.cpp) whose weights are per statistic, on whole channels, and
// the chains around them. What they do not cover runs in the general kernels, or member by member.
#include "backends/cuda/kernels/convolution/channels.h"

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/device_table.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/kernels/shared/member_calls.h"
#include "core/operators/reductions/reduced_dims.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant {
namespace {

using Made = std::unique_ptr<CudaKernel>;

// Fewer rows leave too little to do beside what is read per column.
constexpr std::int64_t kFewestRows = 4;

// Extents of the dims in front of the channels, of the channels, and behind them.
struct Extents {
  std::int64_t before = 1, channels = 1, behind = 1;
};

// Nothing where the kept dims are not neighbours.
std::optional<Extents> extents_of(const Shape& shape, const std::vector<bool>& reduced) {
  Extents extents;
  int place = 0;  // 0 before, 1 channels, 2 behind
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    if (!reduced[dim] && place == 0) place = 1;
    if (reduced[dim] && place == 1) place = 2;
    if (!reduced[dim] && place == 2) return std::nullopt;
    (place == 0 ? extents.before : place == 1 ? extents.channels : extents.behind) *= shape[dim];
  }
  return extents;
}

bool are_typed(DType dtype, std::initializer_list<const KernelOperand*> operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [&](const auto* operand) { return operand->local.dtype == dtype; });
}
bool lie_in_packs(std::initializer_list<const KernelOperand*> operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [](const auto* operand) { return has_aligned_data(*operand); });
}

// How many elements a statistic is of, on all ranks together.
std::int64_t elements_per_statistic(const KernelContext& call, const KernelOperand& x) {
  const ReducedDims dims(call.actor->kind, call.attributes(), x.local.shape.rank());
  return dims.count(x.layout->global.shape);
}

// Of what of each channel is here: a rank may have some of the batch.
std::optional<ChannelMap> map_of_channels(const KernelContext& call, const KernelOperand& x) {
  const Shape& shape = x.local.shape;
  const DType dtype = x.local.dtype;
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) return std::nullopt;
  const ReducedDims dims(call.actor->kind, call.attributes(), shape.rank());
  std::optional<Extents> extents = extents_of(shape, dims.reduced());
  if (!extents || shape.elements() == 0 || x.layout == nullptr) return std::nullopt;
  if (x.channels_last) *extents = Extents{extents->before * extents->behind, extents->channels, 1};
  const std::int64_t columns = extents->channels * extents->behind;
  const std::int64_t pack = 16 / size_of(dtype).value;
  if (extents->before < kFewestRows || columns % pack != 0 ||
      columns > std::numeric_limits<std::int32_t>::max() || !has_aligned_data(x))
    return std::nullopt;
  const ChannelMap map(extents->before, columns, extents->behind, pack);
  if (map.partial_bytes() > CudaContext::kWorkspaceBytes) return std::nullopt;
  return map;
}

// Of a call with `weight_dims`: nothing where weights are not per statistic.
std::optional<ChannelMap> map_of_norm(const KernelContext& call, const KernelOperand& x) {
  const std::size_t rank = x.local.shape.rank();
  const ReducedDims statistics(call.actor->kind, call.attributes(), rank);
  const ReducedDims weights =
      ReducedDims::all_but(call.actor->kind, call.attributes().integers("weight_dims"), rank);
  if (statistics.reduced() != weights.reduced()) return std::nullopt;
  return map_of_channels(call, x);
}

bool accumulates(const KernelContext& call) {
  return std::any_of(call.accumulate.begin(), call.accumulate.end(),
                     [](bool adds) { return adds; });
}

// reduce_mean, reduce_squares, scale, add_scalar, rsqrt.
Made make_statistics(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  const KernelContext &mean = members[0], &squares = members[1];
  const KernelOperand& x = mean.in[0];
  if (accumulates(call) || squares.in[0].data != x.data) return nullptr;
  for (std::size_t member = 0; member < 5; ++member)
    if (!are_typed(DType::kF32, {&members[member].out[0]})) return nullptr;
  const ReducedDims of_squares("reduce_squares", squares.attributes(), x.local.shape.rank());
  const std::optional<ChannelMap> map = map_of_channels(mean, x);
  // What follows sums is of the whole channel.
  if (!map || elements_per_statistic(mean, x) != map->rows * map->run) return nullptr;
  if (of_squares.reduced() !=
      ReducedDims("reduce_mean", mean.attributes(), x.local.shape.rank()).reduced())
    return nullptr;
  ChannelStatistics arguments;
  arguments.map = *map;
  arguments.dtype = x.local.dtype;
  arguments.x = x.data;
  arguments.mean = data_of<float>(mean.out[0]);
  arguments.squares = data_of<float>(squares.out[0]);
  arguments.variance = data_of<float>(members[2].out[0]);
  arguments.shifted = data_of<float>(members[3].out[0]);
  arguments.rstd = data_of<float>(members[4].out[0]);
  arguments.scale = members[2].attributes().real("factor");
  arguments.epsilon = members[3].attributes().real("value");
  arguments.partial = device.workspace();
  return cuda_launch(enqueue_channel_statistics, arguments);
}

// One statistic of every channel of images by itself, where other ranks have some of the batch and
// what they have is added in between. Of any other dims a mean is no business of ours.
std::optional<ChannelStatistics> one_statistic(const KernelContext& call, CudaContext& device) {
  const KernelOperand& x = call.in[0];
  const std::string& kind = call.actor->kind;
  const std::size_t rank = x.local.shape.rank();
  if (rank < 2 || accumulates(call) || !are_typed(DType::kF32, {&call.out[0]}) ||
      ReducedDims(kind, call.attributes(), rank).reduced() !=
          ReducedDims::all_but(kind, {1}, rank).reduced())
    return std::nullopt;
  const std::optional<ChannelMap> map = map_of_channels(call, x);
  if (!map) return std::nullopt;
  ChannelStatistics arguments;
  arguments.map = *map;
  arguments.dtype = x.local.dtype;
  arguments.x = x.data;
  arguments.partial = device.workspace();
  return arguments;
}

// Moments of what a rank has of a tensor, kept by the pass that makes its mean.
struct OwnMoments {
  explicit OwnMoments(std::int64_t channels)
      : numbers(std::vector<float>(static_cast<std::size_t>(2 * channels))) {}
  DeviceTable<float> numbers;  // means, then squares about them
};

// Null where the content has no number, or until its mean is made.
std::shared_ptr<void>* own_moments(const KernelOperand& x, CudaContext& device) {
  return x.content ? &device.shared(fmt::format("moments of content {}", *x.content)) : nullptr;
}

// Its share of the mean of all. Squares cost the pass nothing, and save another one over x.
Made make_channel_mean(const KernelContext& call, CudaContext& device) {
  std::optional<ChannelStatistics> arguments = one_statistic(call, device);
  if (!arguments) return nullptr;
  arguments->mean = data_of<float>(call.out[0]);
  if (std::shared_ptr<void>* kept = own_moments(call.in[0], device)) {
    const std::int64_t channels = arguments->map.channels();
    if (!*kept) *kept = std::make_shared<OwnMoments>(channels);
    arguments->own_mean = static_cast<const OwnMoments*>(kept->get())->numbers.rows();
    arguments->own_squares = arguments->own_mean + channels;
  }
  arguments->share = static_cast<double>(arguments->map.rows * arguments->map.run) /
                     static_cast<double>(elements_per_statistic(call, call.in[0]));
  return cuda_launch(enqueue_channel_statistics, *arguments);
}

// x, mean of all -> the sum of squares about it, of what is here. Kernels are made in the order in
// which they run.
Made make_channel_squares(const KernelContext& call, CudaContext& device) {
  if (call.in.size() != 2 || !are_typed(DType::kF32, {&call.in[1]})) return nullptr;
  std::optional<ChannelStatistics> arguments = one_statistic(call, device);
  if (!arguments) return nullptr;
  if (std::shared_ptr<void>* kept = own_moments(call.in[0], device); kept && *kept) {
    const auto& moments = *static_cast<const OwnMoments*>(kept->get());
    const std::int64_t channels = arguments->map.channels();
    return cuda_launch(
        enqueue_channel_squares,
        ChannelSquares{.channels = channels,
                       .elements = static_cast<double>(arguments->map.rows * arguments->map.run),
                       .own_mean = moments.numbers.rows(),
                       .own_squares = moments.numbers.rows() + channels,
                       .about = data_of<const float>(call.in[1]),
                       .squares = data_of<float>(call.out[0])});
  }
  arguments->about = data_of<const float>(call.in[1]);
  arguments->squares = data_of<float>(call.out[0]);
  return cuda_launch(enqueue_channel_statistics, *arguments);
}

// x, mean, rstd, gamma, beta -> y.
std::optional<ChannelNorm> channel_norm_arguments(const KernelContext& call) {
  if (call.in.size() != 5) return std::nullopt;
  const std::optional<ChannelMap> map = map_of_norm(call, call.in[0]);
  if (!map || !are_typed(DType::kF32, {&call.in[1], &call.in[2]})) return std::nullopt;
  ChannelNorm arguments;
  arguments.map = *map;
  arguments.dtype = call.in[0].local.dtype;
  arguments.x = call.in[0].data;
  arguments.mean = data_of<const float>(call.in[1]);
  arguments.rstd = data_of<const float>(call.in[2]);
  arguments.gamma = call.in[3].data;
  arguments.beta = call.in[4].data;
  return arguments;
}

Made make_channel_norm(const KernelContext& call, const KernelContext& norm,
                       const KernelOperand* other, bool has_relu) {
  const KernelOperand &x = norm.in[0], &y = call.out[0];
  std::optional<ChannelNorm> arguments = channel_norm_arguments(norm);
  if (!arguments || call.out.size() != 1 || accumulates(call) || y.local != x.local ||
      !lie_in_packs({&y}))
    return nullptr;
  if (other != nullptr) {
    if (other->data == nullptr || other->local != x.local || !lie_in_packs({other})) return nullptr;
    arguments->other = other->data;
  }
  arguments->y = y.data;
  arguments->has_relu = has_relu;
  return cuda_launch(enqueue_channel_norm, *arguments);
}

Made make_plain_norm(const KernelContext& call, CudaContext& /*device*/) {
  return make_channel_norm(call, call, nullptr, false);
}
Made make_norm_relu(const KernelContext& call, CudaContext& /*device*/) {
  MemberCalls members(call);
  return make_channel_norm(call, members[0], nullptr, true);
}
Made make_norm_add_relu(const KernelContext& call, CudaContext& /*device*/) {
  MemberCalls members(call);
  const KernelContext& add = members[1];
  return make_channel_norm(call, members[0], &add.in[add.in[0].data == nullptr ? 1 : 0], true);
}

// x, mean, rstd, dy -> dgamma, dbeta; dy may come from outside or be masked.
std::optional<ChannelGradSums> sums_arguments(const KernelContext& call, CudaContext& device) {
  if (call.in.size() != 4) return std::nullopt;
  const std::optional<ChannelMap> map = map_of_norm(call, call.in[0]);
  if (!map || !are_typed(DType::kF32, {&call.in[1], &call.in[2], &call.out[0], &call.out[1]}))
    return std::nullopt;
  ChannelGradSums arguments;
  arguments.map = *map;
  arguments.dtype = call.in[0].local.dtype;
  arguments.x = call.in[0].data;
  arguments.dy = call.in[3].data;
  arguments.mean = data_of<const float>(call.in[1]);
  arguments.rstd = data_of<const float>(call.in[2]);
  arguments.dgamma = data_of<float>(call.out[0]);
  arguments.dbeta = data_of<float>(call.out[1]);
  arguments.adds_dgamma = call.accumulate[0];
  arguments.adds_dbeta = call.accumulate[1];
  arguments.partial = device.workspace();
  return arguments;
}

// Takes dy of the relu; what masks it, and where the masked dy goes if somebody else wants it.
bool mask_by(const KernelContext& relu, const KernelOperand& like, ChannelGradSums& sums) {
  const KernelOperand &activated = relu.in[0], &dy = relu.in[1], &g = relu.out[0];
  if (activated.local != like.local || dy.local != like.local || g.local != like.local ||
      !lie_in_packs({&activated, &dy, &g}) || relu.accumulate[0])
    return false;
  sums.dy = dy.data;
  sums.activated = activated.data;
  sums.g = g.data;
  return true;
}

// relu_grad, normalize_grad_weight: where dx waits for the sums of other ranks.
Made make_relu_grad_weight(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  std::optional<ChannelGradSums> sums = sums_arguments(members[1], device);
  if (!sums || !mask_by(members[0], members[1].in[0], *sums)) return nullptr;
  return cuda_launch(enqueue_channel_grad_sums, *sums);
}

Made make_channel_grad_weight(const KernelContext& call, CudaContext& device) {
  const std::optional<ChannelGradSums> arguments = sums_arguments(call, device);
  if (!arguments || call.in[3].local != call.in[0].local || !lie_in_packs({&call.in[3]}))
    return nullptr;
  return cuda_launch(enqueue_channel_grad_sums, *arguments);
}

// x, mean, rstd, gamma, dbeta, dgamma, dy -> dx.
std::optional<ChannelGradInput> input_arguments(const KernelContext& call) {
  const bool of_weights =
      call.attributes().contains("sums") && call.attributes().text("sums") == "of_weights";
  if (call.in.size() != 7 || !of_weights || call.accumulate[0]) return std::nullopt;
  const KernelOperand &x = call.in[0], &dx = call.out[0];
  const std::optional<ChannelMap> map = map_of_norm(call, x);
  if (!map || dx.local != x.local || !lie_in_packs({&dx}) ||
      !are_typed(DType::kF32, {&call.in[1], &call.in[2], &call.in[4], &call.in[5]}))
    return std::nullopt;
  ChannelGradInput arguments;
  arguments.map = *map;
  arguments.dtype = x.local.dtype;
  arguments.x = x.data;
  arguments.mean = data_of<const float>(call.in[1]);
  arguments.rstd = data_of<const float>(call.in[2]);
  arguments.gamma = call.in[3].data;
  arguments.dbeta = data_of<const float>(call.in[4]);
  arguments.dgamma = data_of<const float>(call.in[5]);
  arguments.dy = call.in[6].data;
  arguments.dx = dx.data;
  arguments.count = static_cast<double>(elements_per_statistic(call, x));
  return arguments;
}

Made make_channel_grad_input(const KernelContext& call, CudaContext& /*device*/) {
  const std::optional<ChannelGradInput> arguments = input_arguments(call);
  if (!arguments || call.in[6].local != call.in[0].local || !lie_in_packs({&call.in[6]}))
    return nullptr;
  return cuda_launch(enqueue_channel_grad_input, *arguments);
}

// Sums over channels, then what reads them.
class ChannelGrad final : public CudaKernel {
 public:
  ChannelGrad(const ChannelGradSums& sums, const ChannelGradInput& input)
      : sums_(sums), input_(input) {}
  void enqueue(cudaStream_t stream) override {
    SEXTANT_CUDA(enqueue_channel_grad_sums(sums_, stream));
    SEXTANT_CUDA(enqueue_channel_grad_input(input_, stream));
  }

 private:
  ChannelGradSums sums_;
  ChannelGradInput input_;
};

// Of dy, or of `activated` and dy. Where somebody else wants the masked dy, the first pass writes
// it and the second reads it.
Made make_channel_grad(const KernelContext& weights, const KernelContext& input,
                       CudaContext& device, const KernelContext* relu) {
  std::optional<ChannelGradSums> sums = sums_arguments(weights, device);
  std::optional<ChannelGradInput> dx = input_arguments(input);
  if (!sums || !dx || sums->adds_dgamma || sums->adds_dbeta || sums->dgamma == nullptr ||
      sums->dbeta == nullptr || sums->x != dx->x)
    return nullptr;
  const KernelOperand& like = weights.in[0];
  if (relu == nullptr) {
    if (weights.in[3].local != like.local || !lie_in_packs({&weights.in[3]})) return nullptr;
    sums->dy = dx->dy = weights.in[3].data;
  } else {
    if (!mask_by(*relu, like, *sums)) return nullptr;
    dx->dy = sums->g != nullptr ? sums->g : sums->dy;
    dx->activated = sums->g != nullptr ? nullptr : sums->activated;
  }
  return std::make_unique<ChannelGrad>(*sums, *dx);
}

Made make_norm_grad(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  return make_channel_grad(members[0], members[1], device, nullptr);
}
Made make_relu_norm_grad(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  return make_channel_grad(members[1], members[2], device, &members[0]);
}

}  // namespace

void add_cuda_channels(CudaKernelTable& table) {
  constexpr auto kTakes = CudaKernelTable::Takes::kChannelsLast;
  table.add("reduce_mean", make_channel_mean, kTakes);
  table.add("reduce_squares", make_channel_squares, kTakes);
  table.add("normalize", make_plain_norm, kTakes);
  table.add("normalize_grad_weight", make_channel_grad_weight, kTakes);
  table.add("normalize_grad_input", make_channel_grad_input, kTakes);
  table.add("norm_statistics", make_statistics, kTakes);
  table.add("normalize_relu", make_norm_relu, kTakes);
  table.add("normalize_add_relu", make_norm_add_relu, kTakes);
  table.add("normalize_grad", make_norm_grad, kTakes);
  table.add("relu_grad_normalize_grad", make_relu_norm_grad, kTakes);
  table.add("relu_grad_normalize_grad_weight", make_relu_grad_weight, kTakes);
}

}  // namespace sextant
