// PyTorch's caching allocator as a model: which bytes a process reserves from a device while
// tensors come and go. Sizes are rounded up, segments are cut into blocks, blocks go back to the
// stream that they were taken on, and nothing is ever moved. Not an allocator: there is no memory
// behind it.
#pragma once

#include "core/base/units.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace sextant {

// The rules of the allocator's default configuration, from its documentation and source
// (c10/cuda/CUDACachingAllocator.cpp; unchanged since PyTorch 1.0):
//   * a request is rounded up to 512 B; one of nothing takes nothing;
//   * requests up to 1 MiB share segments of 2 MiB, others up to 10 MiB segments of 20 MiB, larger
//     ones get a segment of their own, rounded up to 2 MiB;
//   * the smallest free block of the same stream that is large enough is taken, the lowest of
//     equals; the rest of it stays a block where at least 512 B (small) or more than 1 MiB (large)
//     are left, else it goes along;
//   * a block that is given back joins its free neighbours in its segment;
//   * a segment goes back to the device only when the device has no more: then all that are free as
//     a whole do.
class CachingAllocator {
 public:
  using Block = std::int32_t;

  CachingAllocator() = default;
  explicit CachingAllocator(Bytes capacity) : capacity_(capacity) {}  // of the device

  // Throws Error(kInfeasible) where segments that are partly in use leave no room.
  Block allocate(Bytes bytes, std::int32_t stream = 0);
  void free(Block block);  // each once

  Bytes allocated() const { return allocated_; }  // rounded, as the allocator counts them
  Bytes reserved() const { return reserved_; }
  Bytes peak_allocated() const { return peak_allocated_; }
  Bytes peak_reserved() const { return peak_reserved_; }
  std::int64_t retries() const { return retries_; }  // how often segments went back for a request

 private:
  struct Pool {
    std::int32_t stream = 0;
    bool is_small = false;
    auto operator<=>(const Pool&) const = default;
  };
  struct Part {                        // of a segment
    std::int64_t size = 0, taken = 0;  // `taken`: what the request was counted with
    std::int64_t address = 0;
    Pool pool;
    std::optional<Block> previous = std::nullopt, next = std::nullopt;
    bool is_free = true;
  };
  using FreeParts = std::set<std::tuple<std::int64_t, std::int64_t, Block>>;  // size, address

  Part& part(Block block) { return parts_[static_cast<std::size_t>(block)]; }
  Block add(Part part);
  std::optional<Block> take_free(const Pool& pool, std::int64_t size);
  Block new_segment(const Pool& pool, std::int64_t size);
  void split(Block block, std::int64_t size);
  void join_next(Block block);
  void give_back_segments();
  void put_free(Block block);
  void drop_free(Block block);

  std::optional<Bytes> capacity_;
  std::vector<Part> parts_;
  std::vector<Block> unused_;  // entries of parts_
  std::map<Pool, FreeParts> free_;
  std::int64_t next_address_ = 0;
  Bytes allocated_, reserved_, peak_allocated_, peak_reserved_;
  std::int64_t retries_ = 0;
};

}  // namespace sextant
