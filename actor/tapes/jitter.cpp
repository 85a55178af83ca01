// Philox over vectors of counters: the compiler makes four lanes of each loop.
#include "actor/tapes/jitter.h"

#include "actor/tapes/launch_time.h"
#include "core/base/check.h"

#include <algorithm>
#include <array>
#include <bit>

// With AVX2, but without fused multiply-add, which would round differently. Sanitizers do not cope
// with functions that are chosen at load time.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SEXTANT_VECTORIZED __attribute__((optimize("O3"), target_clones("avx2", "default")))
#else
#define SEXTANT_VECTORIZED
#endif

namespace sextant {
namespace {

constexpr std::size_t kLanes = 256;

// The sum of the four words of each block, less its mean.
SEXTANT_VECTORIZED void draw(const std::int32_t* ranks, const std::int32_t* runs,
                             std::uint64_t seed, std::int64_t step, std::int64_t* sums) {
  std::array<std::uint64_t, kLanes> c0, c1, c2, c3;
  const auto low = static_cast<std::uint64_t>(step);
  for (std::size_t i = 0; i < kLanes; ++i) {
    c0[i] = static_cast<std::uint32_t>(runs[i]);
    c1[i] = static_cast<std::uint32_t>(ranks[i]);
    c2[i] = static_cast<std::uint32_t>(low);
    c3[i] = low >> 32;
  }
  std::uint64_t k0 = static_cast<std::uint32_t>(seed), k1 = seed >> 32;
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::uint64_t a = std::uint64_t{0xD2511F53} * (c0[i] & 0xFFFFFFFFU);
      const std::uint64_t b = std::uint64_t{0xCD9E8D57} * (c2[i] & 0xFFFFFFFFU);
      c0[i] = (b >> 32) ^ c1[i] ^ k0;
      c1[i] = b & 0xFFFFFFFFU;
      c2[i] = (a >> 32) ^ c3[i] ^ k1;
      c3[i] = a & 0xFFFFFFFFU;
    }
    k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFFU;
    k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFFU;
  }
  for (std::size_t i = 0; i < kLanes; ++i)
    sums[i] = static_cast<std::int64_t>(c0[i] + c1[i] + c2[i] + c3[i]) - (std::int64_t{1} << 33);
}

// Below 2^51 in size, exactly: an integer in the low bits of a double whose unit is 1.
constexpr double kUnitIsOne = 6755399441055744.0;  // 1.5 * 2^52
constexpr std::int64_t kLargest = std::int64_t{1} << 50;

SEXTANT_VECTORIZED void scale(const std::int64_t* sums, const std::int64_t* durations,
                              double jitter, std::int64_t* out) {
  for (std::size_t i = 0; i < kLanes; ++i) {
    const double sum =
        std::bit_cast<double>(sums[i] + std::bit_cast<std::int64_t>(kUnitIsOne)) - kUnitIsOne;
    const double duration =
        std::bit_cast<double>(durations[i] + std::bit_cast<std::int64_t>(kUnitIsOne)) - kUnitIsOne;
    const double deviations = sum * kDeviationOfSum;
    const double factor = std::max(0.0, 1.0 + jitter * deviations);
    const double exact = duration * factor;
    // To the nearest, halves to even; then halves up, as llround has them.
    const double nearest = (exact + kUnitIsOne) - kUnitIsOne;
    const double rounded = nearest + (exact - nearest == 0.5 ? 1.0 : 0.0);
    out[i] =
        std::bit_cast<std::int64_t>(rounded + kUnitIsOne) - std::bit_cast<std::int64_t>(kUnitIsOne);
  }
}

}  // namespace

void jitter_durations(std::span<const Duration> durations, std::span<const std::int32_t> ranks,
                      std::span<const std::int32_t> runs, double jitter, std::uint64_t seed,
                      std::int64_t step, std::span<Duration> out) {
  std::array<std::int32_t, kLanes> rank{}, run{};
  std::array<std::int64_t, kLanes> before{}, sums, after;
  for (std::size_t first = 0; first < durations.size(); first += kLanes) {
    const std::size_t count = std::min(kLanes, durations.size() - first);
    bool fits = true;
    for (std::size_t i = 0; i < count; ++i) {
      rank[i] = ranks[first + i];
      run[i] = runs[first + i];
      before[i] = durations[first + i].value;
      fits = fits && before[i] < kLargest / 8;
    }
    if (!fits || jitter > 1) {
      for (std::size_t i = 0; i < count; ++i)
        out[first + i] =
            jittered(durations[first + i], jitter, seed, Rank(rank[i]), RunId(run[i]), step);
      continue;
    }
    draw(rank.data(), run.data(), seed, step, sums.data());
    scale(sums.data(), before.data(), jitter, after.data());
    for (std::size_t i = 0; i < count; ++i) out[first + i] = Duration(after[i]);
  }
}

}  // namespace sextant
