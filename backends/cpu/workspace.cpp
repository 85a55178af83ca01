// A stack over chunks: what does not fit the chunk at the top starts the next one.
#include "backends/cpu/workspace.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallestChunk = std::size_t{1} << 20;

}  // namespace

std::byte* Workspace::take_bytes(std::size_t size) {
  const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
  for (Chunk& chunk : chunks_) {
    const std::size_t begin = std::max(used_, chunk.begin);
    if (begin + rounded > chunk.begin + chunk.size) continue;
    used_ = begin + rounded;
    auto address = reinterpret_cast<std::uintptr_t>(chunk.bytes.get());
    address = (address + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<std::byte*>(address) + (begin - chunk.begin);
  }
  Chunk chunk;
  chunk.begin = chunks_.empty() ? 0 : chunks_.back().begin + chunks_.back().size;
  chunk.size = std::max(rounded, kSmallestChunk);
  chunk.bytes.reset(new std::byte[chunk.size + kAlignment]);
  chunks_.push_back(std::move(chunk));
  return take_bytes(size);
}

}  // namespace sextant
