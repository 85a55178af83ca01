// Resolution of a program to device addresses and kernels.
#include "backends/cuda/cuda_program.h"

#include "actor/calls/call_groups.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_state.h"
#include "backends/cuda/ranks/communicator_key.h"
#include "core/base/check.h"
#include "core/graphs/initial_contents.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

namespace sextant {
namespace {

// What the exchanges of a run hand over.
double link_bytes(const CudaRun& run) {
  double bytes = 0;
  for (const auto& communication : run.communications)
    bytes += link_bytes(communication->script(), communication->num_members());
  return bytes;
}

}  // namespace

CudaProgram::CudaProgram(const PhysicalGraph& graph, Rank rank, const CudaOptions& options,
                         const CudaExchange* exchange)
    : graph_(graph),
      rank_(rank),
      program_(graph.program_of(rank)),
      resolver_(graph, graph.ranks[rank].program),
      // Who reads an arena from outside expects row-major tensors.
      channels_last_(options.host_visible ? ChannelsLast()
                                          : ChannelsLast(graph, graph.ranks[rank].program)),
      contexts_(graph, rank, options.seed,
                [this](const BufferRef& buffer) { return address(buffer); }),
      copies_(host_copies(graph, rank)),
      host_visible_(options.host_visible) {
  std::array<std::int32_t, kNumQueueRoles> positions{};
  for (const Run& entry : program_.order) {
    CudaRun& run = runs_.emplace_back();
    run.queue = graph_.block_of(program_.instances[entry.instance])
                    .actors[static_cast<std::size_t>(entry.first_actor)]
                    .queue;
    run.position = positions[static_cast<std::size_t>(run.queue)]++;
  }
  find_first_changes();
  if (!host_visible_) find_early();
  make_communications(exchange);
}

CudaProgram::~CudaProgram() {
  cudaFree(staging_);
  cudaFree(near_);
  if (host_visible_)
    cudaFreeHost(arena_);
  else
    cudaFree(arena_);
  cudaFree(inner_);
  cudaFreeHost(host_);
}

bool CudaProgram::changes_state(RunId id) const {
  for (const ActorCall& call : resolver_.calls(id))
    for (const BufferRef& out : call.out) {
      const Block& block = graph_.block_of(program_.instances[out.instance]);
      if (block.frames[static_cast<std::size_t>(out.info->frame)].initially_full) return true;
    }
  return false;
}

void CudaProgram::find_first_changes() {
  std::array<bool, kNumQueueRoles> found{};
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    bool& of_queue = found[static_cast<std::size_t>(runs_[i].queue)];
    if (of_queue || !changes_state(RunId(i))) continue;
    runs_[i].is_first_to_change_state = of_queue = true;
  }
}

void CudaProgram::make_communications(const CudaExchange* exchange) {
  std::map<GroupId, std::int64_t> in_step;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const Run& entry = program_.order[RunId(i)];
    std::int32_t number = entry.first_actor;
    for (const ActorCall& call : resolver_.calls(RunId(i))) {
      const Actor& actor = *call.actor;
      const std::string& name = graph_.actor_name(program_.instances[entry.instance], number++);
      if (!actor.communication) continue;
      require(exchange != nullptr, ErrorCode::kDevice,
              "'{}' ({}): a device alone has nobody to communicate with", name, actor.kind);
      const auto role = static_cast<std::size_t>(actor.communication->group);
      const GroupId group = graph_.ranks[rank_].groups[role];
      const bool has_out = actor.communication->side != Side::kSend;
      auto made = std::make_unique<CudaCommunication>(
          graph_, rank_, group, *actor.communication,
          has_out && contexts_.of_call(call, entry).accumulate[0]);
      made->index_in_step = in_step[group]++;
      made->name = name;
      runs_[i].communications.push_back(std::move(made));
    }
    require(runs_[i].communications.empty() ||
                runs_[i].communications.size() == static_cast<std::size_t>(entry.num_actors),
            ErrorCode::kInternal, "run {} of '{}' computes and communicates", i, program_.name);
  }
  for (CudaRun& run : runs_)
    for (const auto& communication : run.communications)
      communication->per_step = in_step[communication->group];
  if (exchange == nullptr) return;
  find_company(*exchange);
  lay_out_staging(*exchange);
  std::vector<const CudaCommunication*> all;
  for (const auto& launch : communications_) all.insert(all.end(), launch.begin(), launch.end());
  communicators_size_ = exchange->communicator_bytes(all);
}

// Coarsely: arithmetic or memory, whichever is longer.
double CudaProgram::modelled_seconds(RunId id) const {
  const Run& run = program_.order[id];
  const Block& block = graph_.block_of(program_.instances[run.instance]);
  double seconds = 0;
  for (std::int32_t a = run.first_actor; a < run.first_actor + run.num_actors; ++a) {
    const Work& work = block.actors[static_cast<std::size_t>(a)].work;
    const auto bytes = static_cast<double>((work.read + work.written).value);
    seconds += std::max(work.flops / kProductFlopsPerSecond, bytes / kMemoryBytesPerSecond);
  }
  return seconds;
}

void CudaProgram::find_company(const CudaExchange& exchange) {
  const ProgramTables tables(graph_, graph_.ranks[rank_].program);
  const std::optional<ProgramWaits> direct = direct_waits(tables);
  std::vector<double> seconds(runs_.size()), bytes(runs_.size());
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    seconds[i] = modelled_seconds(RunId(i));
    bytes[i] = link_bytes(runs_[i]);
  }
  company_ = company_of(tables.runs, direct ? *direct : stepped_waits(tables), seconds, bytes,
                        exchange.processors_of_slow());
  for (std::size_t i = 0; i < runs_.size(); ++i)
    for (const auto& communication : runs_[i].communications)
      communication->goes_slowly = company_.goes_slowly && company_.beside[i];
}

// 0: all.
std::int32_t CudaProgram::processors_for(RunId id) const {
  const bool computes = runs_[id.index()].queue == QueueRole::kCompute;
  if (company_.taken == 0 || !computes || !company_.beside[id.index()]) return 0;
  int device = 0, all = 0;
  SEXTANT_CUDA(cudaGetDevice(&device));
  SEXTANT_CUDA(cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, device));
  return std::max(1, all - company_.taken);
}

// A launch has the staging of its queues to itself: launches of a queue follow each other, and none
// is over before peers have what they take. So the largest launch of each queue says how much.
void CudaProgram::lay_out_staging(const CudaExchange& exchange) {
  std::array<Bytes, kNumQueueRoles> most{};
  std::vector<std::vector<StagingPlace>> places(runs_.size());
  for (std::size_t first = 0; first < runs_.size();) {
    std::size_t end = first + 1;
    const LaunchGroupId group = program_.order[RunId(first)].launch_group;
    while (group.is_valid() && end < runs_.size() &&
           program_.order[RunId(end)].launch_group == group)
      ++end;
    std::array<Bytes, kNumQueueRoles> used{};
    std::vector<CudaCommunication*> together;
    for (std::size_t i = first; i < end; ++i) {
      for (const auto& communication : runs_[i].communications)
        together.push_back(communication.get());
      const auto queue = static_cast<std::size_t>(runs_[i].queue);
      for (const auto& communication : runs_[i].communications) {
        const Bytes staging = communication->script().staging;
        const Bytes aside(aligned(exchange.beside_staging(communication->script()).value));
        places[i].push_back({used[queue], used[queue] + staging});
        used[queue] += staging + aside;
      }
    }
    for (std::size_t queue = 0; queue < kNumQueueRoles; ++queue)
      most[queue] = std::max(most[queue], used[queue]);
    if (!together.empty()) communications_.push_back(std::move(together));
    first = end;
  }
  std::array<Bytes, kNumQueueRoles> begins{};
  for (std::size_t queue = 0; queue < kNumQueueRoles; ++queue) {
    begins[queue] = staging_size_;
    staging_size_ += most[queue];
  }
  for (std::size_t i = 0; i < runs_.size(); ++i)
    for (StagingPlace& place : places[i]) {
      const Bytes begin = begins[static_cast<std::size_t>(runs_[i].queue)];
      place.staging += begin;
      place.aside += begin;
    }
  staging_places_ = std::move(places);
}

CudaRankMemory CudaProgram::memory_needed() const {
  return {.program = &program_,
          .rank = rank_,
          .extra = {.inner = Bytes(contexts_.inner_bytes()),
                    .workspace = Bytes(static_cast<std::int64_t>(CudaContext::kWorkspaceBytes)),
                    .staging = staging_size_,
                    .communicators = communicators_size_,
                    .loading = near_size_ * kHostSteps}};
}

void CudaProgram::poison() {
  constexpr int kPoison = 0xFF;
  SEXTANT_CUDA(cudaMemset(arena_, kPoison, arena_size()));
  if (inner_ != nullptr)
    SEXTANT_CUDA(cudaMemset(inner_, kPoison, static_cast<std::size_t>(contexts_.inner_bytes())));
}

std::size_t CudaProgram::arena_size() const {
  return static_cast<std::size_t>(std::max<std::int64_t>(program_.arena.size.value, 1));
}

void CudaProgram::allocate() {
  const std::size_t size = arena_size();
  void** arena = reinterpret_cast<void**>(&arena_);
  SEXTANT_CUDA(host_visible_ ? cudaHostAlloc(arena, size, cudaHostAllocMapped)
                             : cudaMalloc(arena, size));
  if (const auto inner = static_cast<std::size_t>(contexts_.inner_bytes()); inner > 0)
    SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&inner_), inner));
  poison();
  if (staging_size_ > Bytes(0))
    SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&staging_),
                            static_cast<std::size_t>(staging_size_.value)));
  if (near_size_ > Bytes(0))
    SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&near_),
                            static_cast<std::size_t>((near_size_ * kHostSteps).value)));
  const auto host = static_cast<std::size_t>(copies_.host_size.value * kHostSteps);
  if (host > 0)
    SEXTANT_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&host_), host, cudaHostAllocMapped));
}

// The bus takes 20 us for a MiB; smaller ones are not worth an event.
void CudaProgram::find_early() {
  constexpr Bytes kWorthIt{std::int64_t{1} << 20};
  for (const HostCopiesOfRun& run : copies_.runs)
    for (const std::int32_t index : run.in) {
      const HostBuffer& buffer = copies_.buffers[static_cast<std::size_t>(index)];
      if (buffer.size < kWorthIt || !early_.emplace(index, near_size_).second) continue;
      near_size_ += Bytes(aligned(buffer.size.value));
    }
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
  for (const RunId i : program_.order.keys()) {
    CudaRun& run = runs_[i.index()];
    device.set_processors(processors_for(i));
    device.set_in_company(!company_.beside.empty() && company_.beside[i.index()]);
    if (run.communications.empty())
      make_kernels_of(i, table, device);
    else
      place_communications(i);
    make_copies(i, device);
  }
  device.set_processors(0);
  device.set_in_company(false);
  device.allocate_scratch();
}

void CudaProgram::make_copies(RunId id, const CudaContext& device) {
  CudaRun& run = runs_[id.index()];
  const HostCopiesOfRun& copies = copies_.runs[id.index()];
  for (const std::int32_t buffer : copies.in) {
    HostCopyArguments copy = copy_arguments(buffer, device, false);
    if (const auto early = early_.find(buffer); early != early_.end()) {
      std::byte* near = near_ + early->second.value;
      run.early.push_back({copy.host, near, copy.stride, near_size_.value, copy.bytes});
      copy.host = near;
      copy.stride = near_size_.value;
    }
    run.copies_in.push_back(copy);
  }
  for (const std::int32_t buffer : copies.out)
    run.copies_out.push_back(copy_arguments(buffer, device, true));
  run.after = copies.after;
}

void CudaProgram::place_communications(RunId id) {
  const std::vector<ActorCall> calls = resolver_.calls(id);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CudaCommunication& communication = *runs_[id.index()].communications[i];
    const KernelContext context = contexts_.of_call(calls[i], program_.order[id]);
    const Side side = communication.communication().side;
    const bool has_in = side != Side::kReceive, has_out = side != Side::kSend;
    require(context.in.size() == (has_in ? 1 : 0) && context.out.size() == (has_out ? 1 : 0),
            ErrorCode::kInternal, "'{}' has {} inputs and {} outputs", communication.name,
            context.in.size(), context.out.size());
    for (const auto* operands : {&context.in, &context.out})
      for (const KernelOperand& operand : *operands)
        require(operand.local.dtype == communication.communication().dtype, ErrorCode::kInternal,
                "'{}' communicates {} but its register holds {}", communication.name,
                to_string(communication.communication().dtype), to_string(operand.local.dtype));
    const StagingPlace& place = staging_places_[id.index()][i];
    ScriptBuffers buffers;
    if (has_in) buffers.in = context.in[0].data;
    if (has_out) buffers.out = context.out[0].data;
    buffers.staging = staging_ == nullptr ? nullptr : staging_ + place.staging.value;
    communication.place(buffers, staging_ == nullptr ? nullptr : staging_ + place.aside.value);
  }
}

// None of state, which a step may change.
std::optional<std::int64_t> CudaProgram::number_of(const BufferRef& content) {
  const Block& block = graph_.block_of(program_.instances[content.instance]);
  if (block.frames[static_cast<std::size_t>(content.info->frame)].initially_full)
    return std::nullopt;
  const auto number = static_cast<std::int64_t>(content_numbers_.size());
  return content_numbers_.try_emplace({content.instance, content.reg, content.content}, number)
      .first->second;
}

KernelContext CudaProgram::context_of(const ActorCall& call, const Run& run) {
  KernelContext context = contexts_.of_call(call, run);
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    context.in[i].channels_last = channels_last_.contains(call.in[i].info);
    context.in[i].content = number_of(call.in[i]);
  }
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

// Every rank of a job finds the same groups of the same program, and takes the same of them.
CudaProgram::KernelsTogether CudaProgram::kernels_together(std::span<const KernelContext> calls,
                                                           const CudaKernelTable& table,
                                                           CudaContext& device) {
  KernelsTogether made{{}, std::vector<bool>(calls.size(), false)};
  if (!device.tunes()) return made;
  std::vector<std::string> keys;
  for (const KernelContext& call : calls) keys.push_back(table.key_together(call));
  for (const auto& group : groups_of_calls(calls, keys, CudaKernelTable::kMostTogether)) {
    for (std::span<const std::size_t> left = group; left.size() > 1;) {
      std::vector<KernelContext> together;
      for (const std::size_t call : left) together.push_back(calls[call]);
      CudaKernelOfCalls kernel = table.make_together(together, device);
      if (kernel.num_calls == 0) break;
      KernelTogether& joined = made.kernels[left.front()];
      joined.kernel = std::move(kernel.kernel);
      const auto taken = left.subspan(1, kernel.num_calls - 1);
      joined.taken.assign(taken.begin(), taken.end());
      for (const std::size_t call : taken) made.is_taken[call] = true;
      left = left.subspan(kernel.num_calls);
    }
  }
  return made;
}

// Neighbours that are not fused may share a kernel; a fused actor has one, or its members' own.
void CudaProgram::make_kernels_of(RunId id, const CudaKernelTable& table, CudaContext& device) {
  const Run& entry = program_.order[id];
  CudaRun& run = runs_[id.index()];
  std::vector<KernelContext> all;
  for (const ActorCall& call : resolver_.calls(id)) all.push_back(context_of(call, entry));
  KernelsTogether together = kernels_together(all, table, device);
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
  for (std::size_t i = 0; i < all.size(); ++i, ++actor) {
    const auto joined = together.kernels.find(i);
    if (joined == together.kernels.end() && !together.is_taken[i] &&
        all[i].actor->members.empty()) {
      pending.push_back(std::move(all[i]));
      continue;
    }
    make_pending();
    if (together.is_taken[i]) continue;
    if (joined != together.kernels.end()) {
      run.kernels.push_back({std::move(joined->second.kernel), actor, 1});
      for (const std::size_t other : joined->second.taken)
        run.kernels.back().joined.push_back(entry.first_actor + static_cast<std::int32_t>(other));
    } else if (auto kernel = table.make(all[i], device))
      run.kernels.push_back({std::move(kernel), actor, 1});
    else {
      for (auto& member : table.make_all(contexts_of_members(all[i]), device))
        run.kernels.push_back({std::move(member), actor, 1});
    }
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

std::span<std::byte> CudaProgram::state_bytes(InstanceId instance, std::int32_t reg) const {
  const BufferRef buffer = resolver_.buffer(instance, reg, 0);
  require(!channels_last_.contains(buffer.info), ErrorCode::kInternal,
          "state '{}' does not lie row-major", buffer.info->name);
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
  const Run& run = program_.order[id];
  return graph_.actor_name(program_.instances[run.instance], run.first_actor);
}

void CudaProgram::fill_state(std::uint64_t seed) {
  for (const InstanceId i : program_.instances.keys()) {
    const Block& block = graph_.block_of(program_.instances[i]);
    for (std::size_t a = 0; a < block.actors.size(); ++a) {
      const Actor& actor = block.actors[a];
      const StateWriter writer{program_.instances[i], static_cast<std::int32_t>(a)};
      for (std::size_t output = 0; output < actor.out.size(); ++output) {
        const Register& reg = block.registers[static_cast<std::size_t>(actor.out[output])];
        if (!block.frames[static_cast<std::size_t>(reg.frame)].initially_full) continue;
        fill_on_device(InitialContents(graph_, rank_, writer, output, seed), reg.local.dtype,
                       address(resolver_.buffer(i, actor.out[output], 0)));
      }
    }
  }
}

}  // namespace sextant
