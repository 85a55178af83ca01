// A stack over chunks: what does not fit the chunk at the top starts the next one.
#include "backends/cpu/kernels/shared/workspace.h"

namespace sextant {
namespace {

constexpr std::size_t kSmallestChunk = std::size_t{1} << 16;

}  // namespace

void Workspace::reserve(std::int64_t bytes) {
  if (chunks_.empty() && bytes > 0) add_chunk(rounded(static_cast<std::size_t>(bytes)));
}

void Workspace::add_chunk(std::size_t size) {
  Chunk chunk;
  chunk.begin = chunks_.empty() ? 0 : chunks_.back().begin + chunks_.back().size;
  chunk.size = size;
  chunk.bytes.reset(new std::byte[size + kAlignment]);
  chunks_.push_back(std::move(chunk));
}

std::byte* Workspace::take_bytes(std::size_t size) {
  const std::size_t taken = rounded(size);
  for (Chunk& chunk : chunks_) {
    const std::size_t begin = std::max(used_, chunk.begin);
    if (begin + taken > chunk.begin + chunk.size) continue;
    used_ = begin + taken;
    most_ = std::max(most_, used_);
    auto address = reinterpret_cast<std::uintptr_t>(chunk.bytes.get());
    address = (address + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<std::byte*>(address) + (begin - chunk.begin);
  }
  add_chunk(std::max(taken, kSmallestChunk));
  return take_bytes(size);
}

}  // namespace sextant
