// Free blocks by size and address, one set per stream and kind of segment.
#include "simulator/costs/caching_allocator.h"

#include "core/base/check.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
constexpr std::int64_t kGranule = 512;
constexpr std::int64_t kLargestSmall = 1 * kMebibyte, kSmallSegment = 2 * kMebibyte;
constexpr std::int64_t kLeastOwnSegment = 10 * kMebibyte, kLargeSegment = 20 * kMebibyte;
constexpr std::int64_t kSegmentGranule = 2 * kMebibyte;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::int64_t segment_size(std::int64_t size) {
  if (size <= kLargestSmall) return kSmallSegment;
  return size < kLeastOwnSegment ? kLargeSegment : round_up(size, kSegmentGranule);
}

bool leaves_a_block(bool is_small, std::int64_t rest) {
  return is_small ? rest >= kGranule : rest > kLargestSmall;
}

}  // namespace

CachingAllocator::Block CachingAllocator::allocate(Bytes bytes, std::int32_t stream) {
  if (bytes < Bytes(0)) fail(ErrorCode::kUsage, "{} B cannot be allocated", bytes.value);
  if (bytes == Bytes(0)) return add({.pool = {stream, true}, .is_free = false});
  const std::int64_t size = round_up(bytes.value, kGranule);
  const Pool pool{stream, size <= kLargestSmall};
  const std::optional<Block> found = take_free(pool, size);
  const Block block = found ? *found : new_segment(pool, size);
  if (leaves_a_block(pool.is_small, part(block).size - size)) split(block, size);
  part(block).is_free = false;
  part(block).taken = part(block).size;
  allocated_ += Bytes(part(block).taken);
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return block;
}

void CachingAllocator::free(Block block) {
  require(!part(block).is_free, ErrorCode::kUsage, "a block is given back twice");
  allocated_ -= Bytes(part(block).taken);
  part(block).is_free = true;
  part(block).taken = 0;
  if (part(block).size == 0) return unused_.push_back(block);
  if (const auto next = part(block).next; next && part(*next).is_free) {
    drop_free(*next);
    join_next(block);
  }
  if (const auto previous = part(block).previous; previous && part(*previous).is_free) {
    drop_free(*previous);
    join_next(*previous);
    block = *previous;
  }
  put_free(block);
}

CachingAllocator::Block CachingAllocator::add(Part part) {
  if (unused_.empty()) {
    parts_.push_back(part);
    return static_cast<Block>(parts_.size() - 1);
  }
  const Block block = unused_.back();
  unused_.pop_back();
  parts_[static_cast<std::size_t>(block)] = part;
  return block;
}

std::optional<CachingAllocator::Block> CachingAllocator::take_free(const Pool& pool,
                                                                   std::int64_t size) {
  FreeParts& parts = free_[pool];
  const auto found = parts.lower_bound({size, 0, 0});
  if (found == parts.end()) return std::nullopt;
  const Block block = std::get<Block>(*found);
  parts.erase(found);
  return block;
}

CachingAllocator::Block CachingAllocator::new_segment(const Pool& pool, std::int64_t size) {
  const std::int64_t bytes = segment_size(size);
  const auto has_room = [&] { return !capacity_ || reserved_ + Bytes(bytes) <= *capacity_; };
  if (!has_room()) {
    ++retries_;
    give_back_segments();
  }
  require(has_room(), ErrorCode::kInfeasible,
          "{} more for {} do not fit: {} are reserved, {} of them in use, and the device has {}",
          to_text(Bytes(bytes)), to_text(Bytes(size)), to_text(reserved_), to_text(allocated_),
          to_text(capacity_.value_or(Bytes())));
  reserved_ += Bytes(bytes);
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  const std::int64_t address = next_address_;
  next_address_ += bytes;
  return add({.size = bytes, .address = address, .pool = pool});
}

void CachingAllocator::split(Block block, std::int64_t size) {
  const Part whole = part(block);
  const Block rest = add({.size = whole.size - size,
                          .address = whole.address + size,
                          .pool = whole.pool,
                          .previous = block,
                          .next = whole.next});
  if (whole.next) part(*whole.next).previous = rest;
  part(block).size = size;
  part(block).next = rest;
  put_free(rest);
}

// The next part goes into this one; neither is in a set of free ones.
void CachingAllocator::join_next(Block block) {
  const Block next = *part(block).next;
  part(block).size += part(next).size;
  part(block).next = part(next).next;
  if (part(block).next) part(*part(block).next).previous = block;
  unused_.push_back(next);
}

void CachingAllocator::give_back_segments() {
  for (auto& [pool, parts] : free_)
    std::erase_if(parts, [&](const auto& entry) {
      const Block block = std::get<Block>(entry);
      if (part(block).previous || part(block).next) return false;
      reserved_ -= Bytes(part(block).size);
      unused_.push_back(block);
      return true;
    });
}

void CachingAllocator::put_free(Block block) {
  free_[part(block).pool].insert({part(block).size, part(block).address, block});
}

void CachingAllocator::drop_free(Block block) {
  free_[part(block).pool].erase({part(block).size, part(block).address, block});
}

}  // namespace sextant
