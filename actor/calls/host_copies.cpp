// One walk over the host actors to find the buffers, one over the issue order to place the copies.
#include "actor/calls/host_copies.h"

#include "actor/calls/operands.h"
#include "core/base/check.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

using Key = std::tuple<InstanceId, std::int32_t, std::int32_t>;  // instance, register, content

Key key_of(const BufferRef& buffer) { return {buffer.instance, buffer.reg, buffer.content}; }

class Placer {
 public:
  Placer(const PhysicalGraph& graph, Rank rank)
      : graph_(graph),
        rank_(rank),
        program_(graph.program_of(rank)),
        resolver_(graph, graph.ranks[rank].program) {
    copies_.runs.resize(program_.order.size());
  }

  HostCopies run() {
    find_buffers();
    if (copies_.buffers.empty()) return std::move(copies_);
    for (const RunId r : program_.order.keys()) place_run(r);
    for (const auto& [buffer, writer] : last_writer_)
      copies_.runs[writer.index()].out.push_back(buffer);
    return std::move(copies_);
  }

 private:
  // A slot of the arena that loaders' contents pass through.
  struct Slot {
    FixedTable<QueueRole, RunId, kNumQueueRoles> last_reader;  // since the last copy
  };

  void find_buffers() {
    for (const InstanceId i : program_.instances.keys()) {
      const Instance& instance = program_.instances[i];
      const Block& block = graph_.block_of(instance);
      for (std::size_t a = 0; a < block.actors.size(); ++a) {
        if (block.actors[a].queue != QueueRole::kHost) continue;
        for (std::int32_t act = 0; act < instance.acts_per_step; ++act) {
          const ActorCall call = resolver_.call(i, static_cast<std::int32_t>(a), act);
          for (const BufferRef& buffer : call.out) loaded_[key_of(buffer)] = add(buffer);
          for (const BufferRef& buffer : call.in) read_[key_of(buffer)] = add(buffer);
        }
      }
    }
  }

  std::int32_t add(const BufferRef& buffer) {
    const auto [entry, is_new] =
        index_.emplace(key_of(buffer), static_cast<std::int32_t>(copies_.buffers.size()));
    if (!is_new) return entry->second;
    const Block& block = graph_.block_of(program_.instances[buffer.instance]);
    require(!block.frames[static_cast<std::size_t>(buffer.info->frame)].initially_full,
            ErrorCode::kDevice, "'{}' is state: host actors cannot read it on this device",
            buffer.info->name);
    const Shape shape = shard_of(graph_, buffer.info->layout, rank_).local_shape();
    const Bytes size = size_of(TensorType{shape, buffer.info->local.dtype});
    copies_.buffers.push_back(
        {buffer.instance, buffer.reg, buffer.content, buffer.offset, copies_.host_size, size});
    copies_.host_size += Bytes(aligned(size.value));
    return entry->second;
  }

  void place_run(RunId run) {
    for (const ActorCall& call : resolver_.calls(run)) {
      for (const BufferRef& buffer : call.in)
        if (const auto found = loaded_.find(key_of(buffer)); found != loaded_.end())
          read(run, call.actor->queue, found->second);
      for (const BufferRef& buffer : call.out)
        if (const auto found = read_.find(key_of(buffer)); found != read_.end())
          last_writer_[found->second] = run;
    }
  }

  void read(RunId run, QueueRole queue, std::int32_t buffer) {
    const Bytes offset = copies_.buffers[static_cast<std::size_t>(buffer)].in_arena;
    Slot& slot = slots_[offset];
    HostCopiesOfRun& copies = copies_.runs[run.index()];
    const auto [holder, is_new] = copier_.emplace(buffer, run);
    if (is_new) {
      copies.in.push_back(buffer);
      for (const RunId reader : slot.last_reader) wait(run, reader, copies.after);
      slot.last_reader.fill(RunId());
    } else {
      wait(run, holder->second, copies.after);
    }
    slot.last_reader[queue] = run;
  }

  // The own queue is in order.
  void wait(RunId run, RunId earlier, std::vector<RunId>& waits) const {
    if (!earlier.is_valid() || queue_of(run) == queue_of(earlier)) return;
    if (std::find(waits.begin(), waits.end(), earlier) == waits.end()) waits.push_back(earlier);
  }

  QueueRole queue_of(RunId id) const {
    const Run& run = program_.order[id];
    return graph_.block_of(program_.instances[run.instance])
        .actors[static_cast<std::size_t>(run.first_actor)]
        .queue;
  }

  const PhysicalGraph& graph_;
  const Rank rank_;
  const RankProgram& program_;
  const OperandResolver resolver_;
  std::map<Key, std::int32_t> index_, loaded_, read_;
  std::map<std::int32_t, RunId> copier_, last_writer_;  // by buffer
  std::map<Bytes, Slot> slots_;                         // by offset in the arena
  HostCopies copies_;
};

}  // namespace

std::optional<std::int32_t> HostCopies::find(InstanceId instance, std::int32_t reg,
                                             std::int32_t content) const {
  for (std::size_t b = 0; b < buffers.size(); ++b)
    if (buffers[b].instance == instance && buffers[b].reg == reg && buffers[b].content == content)
      return static_cast<std::int32_t>(b);
  return std::nullopt;
}

HostCopies host_copies(const PhysicalGraph& graph, Rank rank) { return Placer(graph, rank).run(); }

}  // namespace sextant
