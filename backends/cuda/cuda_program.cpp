// Resolution of a program to device addresses and kernels.
#include "backends/cuda/cuda_program.h"

#include "backends/cuda/cuda_check.h"
#include "core/check.h"
#include "core/initial_contents.h"

#include <cuda_bf16.h>

#include <algorithm>

namespace sextant {
namespace {

template <typename Element>
void upload(const std::vector<double>& values, void* destination) {
  std::vector<Element> elements;
  elements.reserve(values.size());
  for (const double value : values) elements.push_back(Element(static_cast<float>(value)));
  SEXTANT_CUDA(cudaMemcpy(destination, elements.data(), elements.size() * sizeof(Element),
                          cudaMemcpyHostToDevice));
}

}  // namespace

CudaProgram::CudaProgram(const PhysicalGraph& graph, Rank rank, CudaContext& device,
                         const CudaOptions& options)
    : graph_(graph),
      rank_(rank),
      program_(graph.program_of(rank)),
      resolver_(graph, graph.ranks[rank.index()].program),
      contexts_(graph, rank, options.seed,
                [this](const BufferRef& buffer) { return address(buffer); }),
      host_visible_(options.host_visible) {
  find_host_frames();
  allocate();
  allocate_inner();
  resolve(device);
  fill_state(options.seed);
}

CudaProgram::~CudaProgram() {
  if (host_visible_)
    cudaFreeHost(arena_);
  else
    cudaFree(arena_);
  cudaFree(inner_);
  cudaFreeHost(pinned_);
}

void CudaProgram::find_host_frames() {
  for (std::size_t i = 0; i < program_.instances.size(); ++i) {
    const Block& block = graph_.block_of(program_.instances[i]);
    for (std::size_t a = 0; a < block.actors.size(); ++a) {
      if (block.actors[a].queue != QueueRole::kHost) continue;
      const ActorCall call = resolver_.call(InstanceId(i), static_cast<std::int32_t>(a), 0);
      for (const auto* operands : {&call.in, &call.out})
        for (const BufferRef& buffer : *operands)
          host_frames_.emplace(FrameKey{buffer.instance, buffer.info->frame}, 0);
    }
  }
  for (auto& [key, offset] : host_frames_) {
    const Instance& instance = program_.instances[key.first.index()];
    const auto frame = static_cast<std::size_t>(key.second);
    offset = pinned_size_;
    pinned_size_ += aligned(graph_.block_of(instance).frames[frame].size.value) *
                    static_cast<std::int64_t>(instance.frames[frame].slot_offsets.size());
  }
}

void CudaProgram::allocate() {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(program_.arena.size.value, 1));
  void** arena = reinterpret_cast<void**>(&arena_);
  SEXTANT_CUDA(host_visible_ ? cudaHostAlloc(arena, size, cudaHostAllocMapped)
                             : cudaMalloc(arena, size));
  // Poison: reading what nothing wrote gives NaN, not a lucky zero.
  SEXTANT_CUDA(cudaMemset(arena_, 0xFF, size));
  if (pinned_size_ > 0)
    SEXTANT_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&pinned_),
                               static_cast<std::size_t>(pinned_size_), cudaHostAllocMapped));
}

std::byte* CudaProgram::address(const BufferRef& buffer) const {
  const auto found = host_frames_.find({buffer.instance, buffer.info->frame});
  if (found == host_frames_.end()) return arena_ + buffer.offset.value;
  const Instance& instance = program_.instances[buffer.instance.index()];
  const auto frame = static_cast<std::size_t>(buffer.info->frame);
  const std::int32_t slot =
      instance.frames[frame].slot_of_content[static_cast<std::size_t>(buffer.content)];
  return pinned_ + found->second +
         slot * aligned(graph_.block_of(instance).frames[frame].size.value) +
         buffer.info->offset.value;
}

void CudaProgram::allocate_inner() {
  const auto size = static_cast<std::size_t>(contexts_.inner_bytes());
  if (size == 0) return;
  SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&inner_), size));
  SEXTANT_CUDA(cudaMemset(inner_, 0xFF, size));
}

std::vector<KernelContext> CudaProgram::contexts_of(RunId run) {
  std::vector<KernelContext> contexts;
  for (const ActorCall& call : resolver_.calls(run)) {
    require(!call.actor->communication, ErrorCode::kDevice,
            "'{}' ({}): this version runs communications on CPUs only", call.actor->name,
            call.actor->kind);
    contexts.push_back(contexts_.of_call(call, program_.order[run.index()]));
  }
  return contexts;
}

void CudaProgram::resolve(CudaContext& device) {
  const CudaKernelTable table = cuda_kernels();
  for (std::size_t i = 0; i < program_.order.size(); ++i) {
    CudaRun& run = runs_.emplace_back();
    std::vector<KernelContext> pending;  // calls whose kernels may be one
    const auto make_pending = [&] {
      for (auto& kernel : table.make_all(pending, device)) run.kernels.push_back(std::move(kernel));
      pending.clear();
    };
    for (KernelContext& context : contexts_of(RunId(i))) {
      run.queue = context.actor->queue;
      if (context.actor->members.empty()) {
        pending.push_back(std::move(context));
        continue;
      }
      make_pending();
      if (auto kernel = table.make(context, device))
        run.kernels.push_back(std::move(kernel));
      else
        pending = contexts_.of_members(context, inner_);
      make_pending();
    }
    make_pending();
  }
  device.allocate_scratch();
}

bool CudaProgram::uses(QueueRole role) const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [role](const CudaRun& run) { return run.queue == role; });
}

std::span<std::byte> CudaProgram::host_bytes(InstanceId instance, std::int32_t reg,
                                             std::int32_t content) const {
  const BufferRef buffer = resolver_.buffer(instance, reg, content);
  require(host_visible_ || host_frames_.contains({buffer.instance, buffer.info->frame}),
          ErrorCode::kInternal, "register '{}' is not visible to the host", buffer.info->name);
  const Shape shape = shard_of(graph_, buffer.info->layout, rank_).local_shape();
  const Bytes size = size_of(TensorType{shape, buffer.info->local.dtype});
  return {static_cast<std::byte*>(address(buffer)), static_cast<std::size_t>(size.value)};
}

const std::string& CudaProgram::actor_name(RunId id) const {
  const Run& run = program_.order[id.index()];
  return graph_.block_of(program_.instances[run.instance.index()])
      .actors[static_cast<std::size_t>(run.first_actor)]
      .name;
}

void CudaProgram::fill_state(std::uint64_t seed) {
  for (std::size_t i = 0; i < program_.instances.size(); ++i) {
    const Block& block = graph_.block_of(program_.instances[i]);
    for (const Actor& actor : block.actors) {
      for (std::size_t output = 0; output < actor.out.size(); ++output) {
        const Register& reg = block.registers[static_cast<std::size_t>(actor.out[output])];
        if (!block.frames[static_cast<std::size_t>(reg.frame)].initially_full) continue;
        const std::vector<double> values =
            initial_contents(graph_, rank_, reg, actor, output, seed);
        void* destination = address(resolver_.buffer(InstanceId(i), actor.out[output], 0));
        if (reg.local.dtype == DType::kF32)
          upload<float>(values, destination);
        else if (reg.local.dtype == DType::kBF16)
          upload<__nv_bfloat16>(values, destination);
        else
          fail(ErrorCode::kDevice, "state '{}': CUDA keeps state in f32 and bf16, not {}", reg.name,
               to_string(reg.local.dtype));
      }
    }
  }
}

}  // namespace sextant
