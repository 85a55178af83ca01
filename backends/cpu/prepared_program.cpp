// Resolution of a program to addresses and kernels, and the first contents of its state.
#include "backends/cpu/prepared_program.h"

#include "core/base/check.h"
#include "core/base/elements.h"
#include "core/graphs/initial_contents.h"
#include "core/graphs/views.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

namespace sextant {
namespace {

// All bits set: a NaN in every floating format, -1 in the integers.
constexpr int kPoison = 0xFF;

// Values of a parameter that are there in double at one time.
constexpr std::int64_t kDrawnTogether = std::int64_t{1} << 14;

bool is_host(const Actor& actor) { return actor.queue == QueueRole::kHost; }

// The first address in `allocation`, which is larger by one alignment, where buffers may lie.
// A limit of the process may be narrower than the machine. An allocator may end a program that does
// not ask for a null pointer.
std::unique_ptr<std::byte[]> allocated(std::size_t size, Rank rank) {
  std::unique_ptr<std::byte[]> bytes(
      new (std::nothrow) std::byte[size + static_cast<std::size_t>(kBufferAlignment)]);
  require(bytes != nullptr, ErrorCode::kInfeasible,
          "rank {}: this process gets no memory for an arena of {}", rank.value,
          to_text(Bytes(static_cast<std::int64_t>(size))));
  return bytes;
}

std::byte* aligned_start(std::byte* allocation, std::size_t size) {
  const auto alignment = static_cast<std::size_t>(kBufferAlignment);
  void* start = allocation;
  std::size_t space = size + alignment;
  return static_cast<std::byte*>(std::align(alignment, size, start, space));
}

}  // namespace

PreparedProgram::PreparedProgram(const PhysicalGraph& graph, Rank rank, const KernelTable& kernels,
                                 std::uint64_t seed, bool poison, const RankBlocks* blocks,
                                 std::int64_t threads)
    : graph_(graph),
      rank_(rank),
      program_(graph.program_of(rank)),
      seed_(seed),
      poison_(poison),
      blocks_(blocks),
      threads_(threads),
      resolver_(graph, graph.ranks[rank].program),
      contexts_(graph, rank, seed,
                [this](const BufferRef& buffer) { return arena_ + buffer.offset.value; }) {
  allocate();
  resolve(kernels);
  finish_communications();
  if (poison) count_uses();
}

void PreparedProgram::allocate() {
  const auto size = static_cast<std::size_t>(program_.arena.size.value);
  allocation_ = allocated(size, rank_);
  arena_ = aligned_start(allocation_.get(), size);
  const auto inner_size = static_cast<std::size_t>(contexts_.inner_bytes());
  if (inner_size == 0) return;
  inner_allocation_ = allocated(inner_size, rank_);
  inner_ = aligned_start(inner_allocation_.get(), inner_size);
}

void PreparedProgram::fill() {
  if (poison_) {
    std::memset(arena_, kPoison, static_cast<std::size_t>(program_.arena.size.value));
    if (inner_ != nullptr)
      std::memset(inner_, kPoison, static_cast<std::size_t>(contexts_.inner_bytes()));
  }
  fill_state();
}

Bytes PreparedProgram::beside_arena() const {
  Bytes bytes(contexts_.inner_bytes());
  for (const std::int64_t workspace : workspaces_) bytes += Bytes(workspace);
  for (const auto& [group, scratch] : scratch_) bytes += scratch;
  return bytes;
}

// A queue executes one call at a time; the members of a fused actor follow each other.
void PreparedProgram::count_workspace(const PreparedRun& run, const KernelTable& kernels) {
  std::int64_t& most = workspaces_[static_cast<std::size_t>(run.queue)];
  for (const PreparedCall& call : run.calls) {
    if (call.kernel != nullptr)
      most = std::max(most, kernels.workspace(call.context.actor->kind, call.context, threads_));
    for (const PreparedMember& member : call.members)
      most =
          std::max(most, kernels.workspace(member.context.actor->kind, member.context, threads_));
  }
}

void PreparedProgram::count_scratch(const Communication& communication, GroupId group) {
  const std::vector<Rank>& ranks = graph_.groups[group].ranks;
  std::optional<MemberHomes> homes;
  auto members = static_cast<std::int64_t>(ranks.size());
  if (blocks_ != nullptr) {
    homes =
        MemberHomes{.of = blocks_->processes_of(ranks), .here = blocks_->process_of(rank_).index()};
    members = std::count(homes->of.begin(), homes->of.end(), homes->here);
  }
  const Bytes all = scratch_bytes(graph_, communication, ranks, homes);
  const Bytes share((all.value + members - 1) / members);
  scratch_[group] = std::max(scratch_[group], share);
}

void PreparedProgram::resolve(const KernelTable& kernels) {
  runs_.resize(program_.order.size());
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const Run& run = program_.order[RunId(i)];
    const Block& block = graph_.block_of(program_.instances[run.instance]);
    runs_[i].queue = block.actors[static_cast<std::size_t>(run.first_actor)].queue;
    runs_[i].act = run.act;
    for (const ActorCall& call : resolver_.calls(RunId(i)))
      runs_[i].calls.push_back(prepare(call, run, kernels));
    count_workspace(runs_[i], kernels);
  }
}

const PreparedRun& PreparedProgram::begin(RunId id, std::int64_t step) {
  PreparedRun& run = runs_[id.index()];
  for (PreparedCall& call : run.calls) {
    call.context.act.step = step;
    for (PreparedMember& member : call.members) member.context.act.step = step;
  }
  return run;
}

PreparedCall PreparedProgram::prepare(const ActorCall& call, const Run& run,
                                      const KernelTable& kernels) {
  const Actor& actor = *call.actor;
  PreparedCall prepared;
  prepared.context = contexts_.of_call(call, run);
  if (actor.communication) {
    prepare_communication(prepared);
    return prepared;
  }
  prepared.kernel = kernels.find(actor.kind, prepared.context);
  if (prepared.kernel == nullptr && !actor.members.empty())
    prepare_members(prepared, kernels);
  else
    require(prepared.kernel != nullptr, ErrorCode::kDevice,
            "the CPU has no kernel for operator kind '{}' ('{}')", actor.kind, actor.name);
  return prepared;
}

void PreparedProgram::prepare_members(PreparedCall& prepared, const KernelTable& kernels) {
  for (KernelContext& context : contexts_.of_members(prepared.context, inner_)) {
    PreparedMember call;
    call.kernel = kernels.find(context.actor->kind, context);
    require(call.kernel != nullptr, ErrorCode::kDevice,
            "the CPU has no kernel for operator kind '{}' ('{}'), a member of '{}'",
            context.actor->kind, context.actor->name, prepared.context.actor->name);
    call.context = std::move(context);
    prepared.members.push_back(std::move(call));
  }
}

void PreparedProgram::prepare_communication(PreparedCall& prepared) {
  const KernelContext& context = prepared.context;
  const Actor& actor = *context.actor;
  const Communication& communication = *actor.communication;
  const bool has_in = communication.side != Side::kReceive;
  const bool has_out = communication.side != Side::kSend;
  require(context.in.size() == (has_in ? 1 : 0) && context.out.size() == (has_out ? 1 : 0),
          ErrorCode::kInternal, "'{}' ({}) has {} inputs and {} outputs", actor.name, actor.kind,
          context.in.size(), context.out.size());
  for (const auto* operands : {&context.in, &context.out})
    for (const KernelOperand& operand : *operands)
      require(operand.local.dtype == communication.dtype, ErrorCode::kInternal,
              "'{}' communicates {} but its register holds {}", actor.name,
              to_string(communication.dtype), to_string(operand.local.dtype));
  prepared.group = graph_.ranks[rank_].groups[static_cast<std::size_t>(communication.group)];
  prepared.index_in_step = communications_of_[prepared.group]++;
  count_scratch(communication, prepared.group);
  if (has_in) prepared.buffers.in = context.in[0].data;
  if (has_out) {
    prepared.buffers.out = context.out[0].data;
    prepared.buffers.accumulate = context.accumulate[0];
  }
}

void PreparedProgram::finish_communications() {
  for (PreparedRun& run : runs_)
    for (PreparedCall& call : run.calls)
      if (call.context.actor->communication) call.per_step = communications_of_[call.group];
}

// Registers that are views of each other hold one value, which ends with the last use of any.
PreparedProgram::RegisterKey PreparedProgram::written_register(const BufferRef& buffer) const {
  const BlockId block = program_.instances[buffer.instance].block;
  return {buffer.instance, roots_[block.index()][static_cast<std::size_t>(buffer.reg)]};
}

// Bytes that go on living in another register (in place, and no view of the same value), and what
// host actors read: their end is not a launch of this device.
std::set<PreparedProgram::RegisterKey> PreparedProgram::registers_not_to_poison() const {
  std::set<RegisterKey> kept;
  for (const InstanceId i : program_.instances.keys()) {
    const Block& block = graph_.block_of(program_.instances[i]);
    for (std::size_t a = 0; a < block.actors.size(); ++a) {
      const Actor& actor = block.actors[a];
      if (!is_host(actor) && (!actor.in_place || is_view(actor))) continue;
      const ActorCall call = resolver_.call(i, static_cast<std::int32_t>(a), 0);
      for (std::size_t in = 0; in < call.in.size(); ++in)
        if (is_host(actor) || actor.in_place->in == static_cast<std::int32_t>(in))
          kept.insert(written_register(call.in[in]));
    }
  }
  return kept;
}

void PreparedProgram::count_uses() {
  for (const Block& block : graph_.blocks) roots_.push_back(view_roots(block));
  std::map<ContentKey, std::size_t> index;
  std::vector<ContentKey> contents;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const std::vector<ActorCall> calls = resolver_.calls(RunId(i));
    for (std::size_t c = 0; c < calls.size(); ++c) {
      std::set<std::size_t> used;
      for (const auto* operands : {&calls[c].in, &calls[c].out}) {
        for (const BufferRef& buffer : *operands) {
          const auto [instance, reg] = written_register(buffer);
          const auto [entry, is_new] =
              index.emplace(ContentKey{instance, reg, buffer.content}, contents.size());
          if (is_new) contents.push_back(entry->first);
          used.insert(entry->second);
        }
      }
      runs_[i].calls[c].lifetimes.assign(used.begin(), used.end());
    }
  }
  lifetimes_ = std::make_unique<Lifetime[]>(contents.size());
  for (const PreparedRun& run : runs_)
    for (const PreparedCall& call : run.calls)
      for (const std::size_t lifetime : call.lifetimes) ++lifetimes_[lifetime].uses;
  const std::set<RegisterKey> kept = registers_not_to_poison();
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const auto [instance, reg, content] = contents[i];
    const Block& block = graph_.block_of(program_.instances[instance]);
    const Register& info = block.registers[static_cast<std::size_t>(reg)];
    const bool is_state = block.frames[static_cast<std::size_t>(info.frame)].initially_full;
    if (!is_state && !kept.contains({instance, reg}))
      lifetimes_[i].bytes = register_bytes(instance, reg, content);
  }
}

bool PreparedProgram::uses(QueueRole role) const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [role](const PreparedRun& run) { return run.queue == role; });
}

void PreparedProgram::release(const PreparedCall& call) {
  for (const std::size_t index : call.lifetimes) {
    Lifetime& lifetime = lifetimes_[index];
    const std::int64_t done = lifetime.done.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (done % lifetime.uses != 0) continue;
    if (!lifetime.bytes.empty()) std::memset(lifetime.bytes.data(), kPoison, lifetime.bytes.size());
  }
}

std::span<std::byte> PreparedProgram::register_bytes(InstanceId instance, std::int32_t reg,
                                                     std::int32_t content) const {
  const BufferRef buffer = resolver_.buffer(instance, reg, content);
  const Shape shape = shard_of(graph_, buffer.info->layout, rank_).local_shape();
  const Bytes size = size_of(TensorType{shape, buffer.info->local.dtype});
  return {arena_ + buffer.offset.value, static_cast<std::size_t>(size.value)};
}

void PreparedProgram::fill_state() {
  std::vector<double> values;
  for (const InstanceId i : program_.instances.keys()) {
    const Block& block = graph_.block_of(program_.instances[i]);
    for (std::size_t a = 0; a < block.actors.size(); ++a) {
      const Actor& actor = block.actors[a];
      const StateWriter writer{program_.instances[i], static_cast<std::int32_t>(a)};
      for (std::size_t output = 0; output < actor.out.size(); ++output) {
        const Register& info = block.registers[static_cast<std::size_t>(actor.out[output])];
        if (!block.frames[static_cast<std::size_t>(info.frame)].initially_full) continue;
        const InitialContents contents(graph_, rank_, writer, output, seed_);
        std::byte* to = register_bytes(i, actor.out[output], 0).data();
        for (std::int64_t first = 0; first < contents.elements(); first += kDrawnTogether) {
          values.resize(
              static_cast<std::size_t>(std::min(kDrawnTogether, contents.elements() - first)));
          contents.fill(first, values);
          store_from_double(info.local.dtype, values, to + first * size_of(info.local.dtype).value);
        }
      }
    }
  }
}

}  // namespace sextant
