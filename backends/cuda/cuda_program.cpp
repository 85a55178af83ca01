// Resolution of a program to device addresses and kernels.
#include "backends/cuda/cuda_program.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_memory.h"
#include "backends/cuda/cuda_state.h"
#include "core/check.h"
#include "core/initial_contents.h"

#include <algorithm>
#include <array>

namespace sextant {

CudaProgram::CudaProgram(const PhysicalGraph& graph, Rank rank, const CudaOptions& options,
                         const std::string& device_name)
    : graph_(graph),
      rank_(rank),
      program_(graph.program_of(rank)),
      resolver_(graph, graph.ranks[rank.index()].program),
      // Who reads an arena from outside expects row-major tensors.
      channels_last_(options.host_visible ? ChannelsLast()
                                          : ChannelsLast(graph, graph.ranks[rank.index()].program)),
      contexts_(graph, rank, options.seed,
                [this](const BufferRef& buffer) { return address(buffer); }),
      copies_(host_copies(graph, rank)),
      host_visible_(options.host_visible) {
  require_room(options, device_name);
  allocate();
}

CudaProgram::~CudaProgram() {
  if (host_visible_)
    cudaFreeHost(arena_);
  else
    cudaFree(arena_);
  cudaFree(inner_);
  cudaFreeHost(host_);
}

void CudaProgram::require_room(const CudaOptions& options, const std::string& device_name) const {
  if (options.host_visible) return;  // not on the card
  std::size_t free = 0, total = 0;
  SEXTANT_CUDA(cudaMemGetInfo(&free, &total));
  const CudaExtraMemory extra{
      .inner = Bytes(contexts_.inner_bytes()),
      .workspace = Bytes(static_cast<std::int64_t>(CudaContext::kWorkspaceBytes))};
  sextant::require_room(program_, rank_, extra, device_name, Bytes(static_cast<std::int64_t>(free)),
                        Bytes(static_cast<std::int64_t>(total)));
}

// Poison: reading what nothing wrote gives NaN, not a lucky zero.
void CudaProgram::allocate() {
  constexpr int kPoison = 0xFF;
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(program_.arena.size.value, 1));
  void** arena = reinterpret_cast<void**>(&arena_);
  SEXTANT_CUDA(host_visible_ ? cudaHostAlloc(arena, size, cudaHostAllocMapped)
                             : cudaMalloc(arena, size));
  SEXTANT_CUDA(cudaMemset(arena_, kPoison, size));
  if (const auto inner = static_cast<std::size_t>(contexts_.inner_bytes()); inner > 0) {
    SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&inner_), inner));
    SEXTANT_CUDA(cudaMemset(inner_, kPoison, inner));
  }
  const auto host = static_cast<std::size_t>(copies_.host_size.value * kHostSteps);
  if (host > 0)
    SEXTANT_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&host_), host, cudaHostAllocMapped));
}

HostCopyArguments CudaProgram::copy_arguments(std::int32_t index, const CudaContext& device,
                                              bool to_host) const {
  const HostBuffer& buffer = copies_.buffers[static_cast<std::size_t>(index)];
  return {.step = device.step(),
          .turns = kHostSteps,
          .stride = copies_.host_size.value,
          .host = host_ + buffer.on_host.value,
          .device = arena_ + buffer.in_arena.value,
          .bytes = buffer.size.value,
          .to_host = to_host};
}

void CudaProgram::make_kernels(CudaContext& device) {
  const CudaKernelTable table = cuda_kernels();
  std::array<std::int32_t, kNumQueueRoles> positions{};
  for (std::size_t i = 0; i < program_.order.size(); ++i) {
    const Run& entry = program_.order[i];
    CudaRun& run = runs_.emplace_back();
    run.queue = graph_.block_of(program_.instances[entry.instance.index()])
                    .actors[static_cast<std::size_t>(entry.first_actor)]
                    .queue;
    run.position = positions[static_cast<std::size_t>(run.queue)]++;
    make_kernels_of(RunId(i), table, device);
    const HostCopiesOfRun& copies = copies_.runs[i];
    for (const std::int32_t buffer : copies.in)
      run.copies_in.push_back(copy_arguments(buffer, device, false));
    for (const std::int32_t buffer : copies.out)
      run.copies_out.push_back(copy_arguments(buffer, device, true));
    run.after = copies.after;
  }
  device.allocate_scratch();
}

KernelContext CudaProgram::context_of(const ActorCall& call, const Run& run) {
  KernelContext context = contexts_.of_call(call, run);
  for (std::size_t i = 0; i < call.in.size(); ++i)
    context.in[i].channels_last = channels_last_.contains(call.in[i].info);
  for (std::size_t i = 0; i < call.out.size(); ++i)
    context.out[i].channels_last = channels_last_.contains(call.out[i].info);
  return context;
}

// What members hand to each other lies as the operands of the whole: all images of a fused operator
// do, or none.
std::vector<KernelContext> CudaProgram::contexts_of_members(const KernelContext& fused) {
  const KernelOperand* image = nullptr;
  for (const auto* operands : {&fused.in, &fused.out})
    for (const KernelOperand& operand : *operands)
      if (operand.channels_last) image = &operand;
  std::vector<KernelContext> members = contexts_.of_members(fused, inner_);
  if (image == nullptr) return members;
  for (KernelContext& member : members)
    for (auto* operands : {&member.in, &member.out})
      for (KernelOperand& operand : *operands)
        operand.channels_last = operand.local.shape.rank() == image->local.shape.rank();
  return members;
}

// Neighbours that are not fused may share a kernel; a fused actor has one, or its members' own.
void CudaProgram::make_kernels_of(RunId id, const CudaKernelTable& table, CudaContext& device) {
  const Run& entry = program_.order[id.index()];
  CudaRun& run = runs_[id.index()];
  std::vector<KernelContext> pending;
  std::int32_t actor = entry.first_actor;
  const auto make_pending = [&] {
    std::int32_t first = actor - static_cast<std::int32_t>(pending.size());
    for (std::span<const KernelContext> calls = pending; !calls.empty();) {
      CudaKernelOfCalls made = table.make_first(calls, device);
      calls = calls.subspan(made.num_calls);
      const auto num_calls = static_cast<std::int32_t>(made.num_calls);
      run.kernels.push_back({std::move(made.kernel), first, num_calls});
      first += num_calls;
    }
    pending.clear();
  };
  for (const ActorCall& call : resolver_.calls(id)) {
    require(!call.actor->communication, ErrorCode::kDevice,
            "'{}' ({}): this version runs communications on CPUs only",
            graph_.actor_name(program_.instances[entry.instance.index()], actor), call.actor->kind);
    KernelContext context = context_of(call, entry);
    if (context.actor->members.empty()) {
      pending.push_back(std::move(context));
      ++actor;
      continue;
    }
    make_pending();
    if (auto kernel = table.make(context, device))
      run.kernels.push_back({std::move(kernel), actor, 1});
    else
      for (auto& member : table.make_all(contexts_of_members(context), device))
        run.kernels.push_back({std::move(member), actor, 1});
    ++actor;
  }
  make_pending();
}

std::int64_t CudaProgram::runs_per_step(QueueRole role) const {
  return std::count_if(runs_.begin(), runs_.end(),
                       [role](const CudaRun& run) { return run.queue == role; });
}

std::span<std::byte> CudaProgram::arena_bytes(InstanceId instance, std::int32_t reg,
                                              std::int32_t content) const {
  const BufferRef buffer = resolver_.buffer(instance, reg, content);
  require(host_visible_, ErrorCode::kInternal, "register '{}' is not visible to the host",
          buffer.info->name);
  const Shape shape = shard_of(graph_, buffer.info->layout, rank_).local_shape();
  const Bytes size = size_of(TensorType{shape, buffer.info->local.dtype});
  return {address(buffer), static_cast<std::size_t>(size.value)};
}

std::span<std::byte> CudaProgram::host_bytes(InstanceId instance, std::int32_t reg,
                                             std::int32_t content, std::int64_t step) const {
  const std::optional<std::int32_t> index = copies_.find(instance, reg, content);
  require(index.has_value(), ErrorCode::kInternal, "no host actor touches content {} of '{}'",
          content, resolver_.buffer(instance, reg, content).info->name);
  const HostBuffer& buffer = copies_.buffers[static_cast<std::size_t>(*index)];
  return {host_ + step % kHostSteps * copies_.host_size.value + buffer.on_host.value,
          static_cast<std::size_t>(buffer.size.value)};
}

const std::string& CudaProgram::actor_name(RunId id) const {
  const Run& run = program_.order[id.index()];
  return graph_.actor_name(program_.instances[run.instance.index()], run.first_actor);
}

void CudaProgram::fill_state(std::uint64_t seed) {
  for (std::size_t i = 0; i < program_.instances.size(); ++i) {
    const Block& block = graph_.block_of(program_.instances[i]);
    for (std::size_t a = 0; a < block.actors.size(); ++a) {
      const Actor& actor = block.actors[a];
      const StateWriter writer{program_.instances[i], static_cast<std::int32_t>(a)};
      for (std::size_t output = 0; output < actor.out.size(); ++output) {
        const Register& reg = block.registers[static_cast<std::size_t>(actor.out[output])];
        if (!block.frames[static_cast<std::size_t>(reg.frame)].initially_full) continue;
        fill_on_device(InitialContents(graph_, rank_, writer, output, seed), reg.local.dtype,
                       address(resolver_.buffer(InstanceId(i), actor.out[output], 0)));
      }
    }
  }
}

}  // namespace sextant
