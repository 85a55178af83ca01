// What PyTorch's allocator would reserve, counted by hand.
#include "simulator/costs/caching_allocator.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace sextant::caching_allocator_test {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
Bytes mebibytes(std::int64_t count) { return Bytes(count * kMebibyte); }

// 513 B are two granules of 512 B; the segment is 2 MiB.
TEST_CASE("small tensors share segments of 2 MiB in granules of 512 B") {
  CachingAllocator allocator;
  allocator.allocate(Bytes(1));
  CHECK(allocator.allocated() == Bytes(512));
  allocator.allocate(Bytes(513));
  CHECK(allocator.allocated() == Bytes(3 * 512));
  CHECK(allocator.reserved() == mebibytes(2));
  // 1 MiB is the largest of them, and 2 MiB - 1.5 KiB are left for the second: one more segment.
  allocator.allocate(mebibytes(1));
  CHECK(allocator.reserved() == mebibytes(2));
  allocator.allocate(mebibytes(1));
  CHECK(allocator.reserved() == mebibytes(4));
}

// 1 MiB + 1 B in a segment of 20 MiB; 10 MiB + 1 B are 12 MiB in one of their own.
TEST_CASE("tensors from 1 MiB on share 20 MiB, from 10 MiB on they have a segment each") {
  CachingAllocator allocator;
  allocator.allocate(Bytes(kMebibyte + 1));
  CHECK(allocator.reserved() == mebibytes(20));
  allocator.allocate(Bytes(10 * kMebibyte + 1));
  CHECK(allocator.reserved() == mebibytes(20));  // 18.99 MiB were left of the first
  allocator.allocate(Bytes(10 * kMebibyte + 1));
  CHECK(allocator.reserved() == mebibytes(32));
}

// 12 MiB for 11 MiB + 512 B leave 1 MiB - 512 B, which goes along; for 11 MiB - 512 B they leave
// 1 MiB + 512 B, which stays a block.
TEST_CASE("what is left of a large block stays a block when it is more than 1 MiB") {
  CachingAllocator allocator;
  allocator.allocate(Bytes(11 * kMebibyte + 512));
  CHECK(allocator.allocated() == mebibytes(12));
  CachingAllocator other;
  other.allocate(Bytes(11 * kMebibyte - 512));
  CHECK(other.allocated() == Bytes(11 * kMebibyte - 512));
}

// Free: 30, 24 and 40 MiB, each in a segment. 22 MiB take the 24.
TEST_CASE("the smallest free block that is large enough is taken") {
  CachingAllocator allocator;
  std::vector<CachingAllocator::Block> blocks;
  for (const int size : {30, 24, 40}) blocks.push_back(allocator.allocate(mebibytes(size)));
  for (const auto block : blocks) allocator.free(block);
  CHECK(allocator.reserved() == mebibytes(94));
  const auto taken = allocator.allocate(mebibytes(22));
  const auto exact = allocator.allocate(mebibytes(30));
  allocator.allocate(mebibytes(40));
  CHECK(allocator.reserved() == mebibytes(94));
  // The 2 MiB left of the 24 join what comes back beside them.
  allocator.free(taken);
  allocator.allocate(mebibytes(24));
  CHECK(allocator.reserved() == mebibytes(94));
  allocator.free(exact);
  allocator.allocate(mebibytes(32));
  CHECK(allocator.reserved() == mebibytes(126));
}

// 100 MiB cut to 40 + 60; the 60 are cut to 30 + 30. Of 40 + 30 free with 30 in use between, no
// 70 MiB can be had: nothing is moved.
TEST_CASE("holes on both sides of a tensor do not join") {
  CachingAllocator allocator;
  allocator.free(allocator.allocate(mebibytes(100)));
  const auto low = allocator.allocate(mebibytes(40));
  const auto middle = allocator.allocate(mebibytes(30));
  const auto high = allocator.allocate(mebibytes(30));
  CHECK(allocator.reserved() == mebibytes(100));
  allocator.free(low);
  allocator.free(high);
  const auto own = allocator.allocate(mebibytes(70));
  CHECK(allocator.reserved() == mebibytes(170));
  allocator.free(own);
  allocator.free(middle);
  allocator.allocate(mebibytes(100));  // one block again
  CHECK(allocator.reserved() == mebibytes(170));
}

TEST_CASE("a stream never gets the blocks of another one") {
  CachingAllocator allocator;
  allocator.free(allocator.allocate(mebibytes(64), 1));
  allocator.allocate(mebibytes(64), 0);
  CHECK(allocator.reserved() == mebibytes(128));
  allocator.allocate(mebibytes(64), 1);
  CHECK(allocator.reserved() == mebibytes(128));
  CHECK(allocator.peak_allocated() == mebibytes(128));
}

// 60 of 100 MiB are cached as 40 + 20. 50 MiB more want a segment: both go back. 60 MiB more are
// too many: 50 + 60 > 100.
TEST_CASE("a full device gets back the segments that are free as a whole") {
  CachingAllocator allocator(mebibytes(100));
  allocator.free(allocator.allocate(mebibytes(40)));
  const auto half = allocator.allocate(mebibytes(20), 1);
  allocator.free(half);
  const auto used = allocator.allocate(mebibytes(50));
  CHECK(allocator.retries() == 1);
  CHECK(allocator.reserved() == mebibytes(50));
  CHECK(allocator.peak_reserved() == mebibytes(60));
  CHECK_THROWS_WITH_AS(allocator.allocate(mebibytes(60)), doctest::Contains("60.0 MiB"), Error);
  allocator.free(used);
  allocator.allocate(mebibytes(100));
  CHECK(allocator.reserved() == mebibytes(100));
}

TEST_CASE("nothing takes nothing, and a block is given back once") {
  CachingAllocator allocator;
  const auto nothing = allocator.allocate(Bytes(0));
  CHECK(allocator.reserved() == Bytes(0));
  allocator.free(nothing);
  const auto block = allocator.allocate(Bytes(7));
  allocator.free(block);
  CHECK_THROWS_AS(allocator.free(block), Error);
  CHECK_THROWS_AS(allocator.allocate(Bytes(-1)), Error);
}

// Whatever comes and goes: live bytes are counted, at most reserved, and when all is given back one
// tensor of any size seen fits without a new segment.
TEST_CASE("reserved bytes hold what is allocated, whatever comes and goes") {
  std::mt19937 random(7);
  CachingAllocator allocator;
  std::vector<std::pair<CachingAllocator::Block, std::int64_t>> live;
  std::int64_t bytes = 0, largest = 0;
  for (int i = 0; i < 20000; ++i) {
    if (live.size() < 3 || random() % 2 == 0) {
      const std::int64_t size = static_cast<std::int64_t>(random() % 4096)
                                << (random() % 3 == 0 ? 12 : 4);
      const auto stream = static_cast<std::int32_t>(random() % 2);
      if (stream == 0) largest = std::max(largest, size);
      live.emplace_back(allocator.allocate(Bytes(size), stream), size);
      bytes += size;
    } else {
      std::swap(live[random() % live.size()], live.back());
      allocator.free(live.back().first);
      bytes -= live.back().second;
      live.pop_back();
    }
    REQUIRE(allocator.allocated().value >= bytes);
    REQUIRE(allocator.reserved() >= allocator.allocated());
  }
  for (const auto& [block, size] : live) allocator.free(block);
  CHECK(allocator.allocated() == Bytes(0));
  const Bytes reserved = allocator.reserved();
  allocator.allocate(Bytes(largest), 0);
  CHECK(allocator.reserved() == reserved);
  CHECK(allocator.peak_reserved() == reserved);  // nothing ever went back
}

}  // namespace
}  // namespace sextant::caching_allocator_test
