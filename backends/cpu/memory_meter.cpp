// Reference counts of pieces of the arena.
#include "backends/cpu/memory_meter.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr auto kPiece = static_cast<std::size_t>(kBufferAlignment);

}  // namespace

MemoryMeter::MemoryMeter(const PhysicalGraph& graph, Rank rank, const OperandResolver& resolver)
    : graph_(graph), program_(graph.program_of(rank)) {
  use_.by_class.assign(kNumMemoryClasses, Bytes());
  tenants_.resize((static_cast<std::size_t>(program_.arena.size.value) + kPiece - 1) / kPiece);
  add_contents();
  index_calls(resolver);
  for (const Content& content : contents_)
    if (content.always) take(content);
  note();
}

bool MemoryMeter::is_of_host(InstanceId instance, std::size_t frame) const {
  const auto in_frame = [&](const Block& block, std::int32_t reg) {
    return static_cast<std::size_t>(block.registers[static_cast<std::size_t>(reg)].frame) == frame;
  };
  const auto on_host = [](const Block& block, std::int32_t actor) {
    return block.actors[static_cast<std::size_t>(actor)].queue == QueueRole::kHost;
  };
  const Block& own = graph_.block_of(program_.instances[instance]);
  for (const Actor& actor : own.actors)
    for (const std::int32_t out : actor.out)
      if (actor.queue == QueueRole::kHost && in_frame(own, out)) return true;
  for (const Edge& edge : own.edges)
    if (in_frame(own, edge.from_register) && on_host(own, edge.to_actor)) return true;
  for (const Link& link : program_.links) {
    if (link.from != instance || !in_frame(own, link.from_register)) continue;
    const Block& reader = graph_.block_of(program_.instances[link.to]);
    for (const std::int32_t actor : reader.ports[static_cast<std::size_t>(link.to_port)].readers)
      if (on_host(reader, actor)) return true;
  }
  return false;
}

// One entry per content; frames that are there always have one per slot, which their contents
// share.
void MemoryMeter::add_contents() {
  for (const InstanceId i : program_.instances.keys()) {
    const Instance& instance = program_.instances[i];
    const Block& block = graph_.block_of(instance);
    first_content_.emplace_back();
    for (std::size_t f = 0; f < block.frames.size(); ++f) {
      first_content_.back().push_back(contents_.size());
      const FrameBinding& binding = instance.frames[f];
      Content content;
      content.memory = block.frames[f].memory;
      content.num_pieces = static_cast<std::size_t>(block.frames[f].size.value) / kPiece;
      content.always = block.frames[f].initially_full || is_of_host(i, f);
      const auto add = [&](Bytes offset) {
        content.first_piece = static_cast<std::size_t>(offset.value) / kPiece;
        contents_.push_back(content);
      };
      if (content.always)
        for (const Bytes offset : binding.slot_offsets) add(offset);
      else
        for (const std::int32_t slot : binding.slot_of_content)
          add(binding.slot_offsets[static_cast<std::size_t>(slot)]);
    }
  }
}

std::size_t MemoryMeter::content_of(const BufferRef& buffer) const {
  const Instance& instance = program_.instances[buffer.instance];
  const Block& block = graph_.block_of(instance);
  const auto frame =
      static_cast<std::size_t>(block.registers[static_cast<std::size_t>(buffer.reg)].frame);
  const std::size_t first = first_content_[buffer.instance.index()][frame];
  const auto content = static_cast<std::size_t>(buffer.content);
  if (!contents_[first].always) return first + content;
  return first + static_cast<std::size_t>(instance.frames[frame].slot_of_content[content]);
}

void MemoryMeter::index_calls(const OperandResolver& resolver) {
  for (const RunId run : program_.order.keys()) {
    contents_of_.emplace_back();
    for (const ActorCall& call : resolver.calls(run)) {
      std::vector<std::size_t>& used = contents_of_.back().emplace_back();
      for (const auto* operands : {&call.in, &call.out})
        for (const BufferRef& buffer : *operands) {
          used.push_back(content_of(buffer));
          const Bytes end = buffer.offset + Bytes(aligned(size_of(buffer.info->local).value));
          use_.reach = std::max(use_.reach, end);
        }
      std::sort(used.begin(), used.end());
      used.erase(std::unique(used.begin(), used.end()), used.end());
      for (const std::size_t content : used) ++contents_[content].uses;
    }
  }
}

void MemoryMeter::take(const Content& content) {
  for (std::size_t piece = 0; piece < content.num_pieces; ++piece) {
    if (tenants_[content.first_piece + piece]++ > 0) continue;
    live_[static_cast<std::size_t>(content.memory)] += Bytes(kBufferAlignment);
    total_ += Bytes(kBufferAlignment);
  }
}

void MemoryMeter::give_back(const Content& content) {
  for (std::size_t piece = 0; piece < content.num_pieces; ++piece) {
    if (--tenants_[content.first_piece + piece] > 0) continue;
    live_[static_cast<std::size_t>(content.memory)] -= Bytes(kBufferAlignment);
    total_ -= Bytes(kBufferAlignment);
  }
}

void MemoryMeter::note() {
  if (total_ <= use_.most) return;
  use_.most = total_;
  use_.by_class = live_;
}

void MemoryMeter::begin(RunId run, std::size_t call) {
  for (const std::size_t index : contents_of_[run.index()][call]) {
    Content& content = contents_[index];
    if (!content.always && content.done++ == 0) take(content);
  }
  note();
}

void MemoryMeter::end(RunId run, std::size_t call) {
  for (const std::size_t index : contents_of_[run.index()][call]) {
    Content& content = contents_[index];
    if (content.always || content.done < content.uses) continue;
    give_back(content);
    content.done = 0;
  }
}

}  // namespace sextant
