// Holds a fast kernel against the reference on random values.
#pragma once

#include "backends/cpu/kernels/fast/gemm.h"
#include "backends/cpu/kernels/shared/kernel.h"
#include "backends/cpu/kernels/shared/team.h"
#include "core/base/counter_rng.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace sextant {

inline std::vector<double> random_values(std::int64_t count, std::uint64_t stream) {
  const CounterRng random(stream, "fast kernels");
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(random.normal(static_cast<std::uint64_t>(i)));
  return values;
}

inline TestOperand f32(const Shape& shape, std::uint64_t stream) {
  return {{shape, DType::kF32}, random_values(shape.elements(), stream), {}};
}

// What f32 can promise for sums of `terms` products of values around 1: half an ulp (6e-8) per
// rounding, growing like the root of their number, with a factor for chains of operations.
inline double bound(std::int64_t terms) { return 1e-6 * std::sqrt(static_cast<double>(terms) + 1); }

using Build = std::function<void(KernelCall&)>;

// All threads of the team are awake afterwards, for as long as they wait for the next work: else
// the caller has done all of a small one before anybody comes.
inline void muster(Team& team) {
  std::atomic<std::int64_t> here = 0;
  team.run(team.threads(), [&](std::int64_t, std::int64_t) {
    ++here;
    while (here < team.threads()) std::this_thread::yield();
  });
}

// The call must be covered by a kernel of the fast table that is not the reference, and agree with
// it; on a team of threads it leaves the same bits, and nowhere takes more than it states.
// `least_pieces`, where more than the team has threads: it must be cut into so many.
inline void check_agrees(const std::string& kind, const Attributes& attributes, std::int64_t terms,
                         const Build& build, std::int64_t least_pieces = 0) {
  const KernelTable reference = reference_kernels();
  const KernelTable fast = fast_kernels();
  KernelCall slow_call(kind, attributes), fast_call(kind, attributes);
  build(slow_call);
  build(fast_call);
  CAPTURE(kind);
  // Without a BLAS, products and attention are the reference's.
  const bool is_own = fast_call.kernel(fast) != slow_call.kernel(reference);
  CHECK((is_own || !has_gemm()));
  const auto expected = slow_call.run(reference);
  Team alone(1), team(3);
  fast_call.on(alone, fast);
  const auto found = fast_call.run(fast);
  CHECK(fast_call.taken_workspace() <= fast_call.stated_workspace(fast));
  KernelCall team_call(kind, attributes);
  build(team_call);
  team_call.on(team, fast);
  if (least_pieces > 0) muster(team);
  CHECK((team_call.run(fast) == found));
  REQUIRE((least_pieces == 0 || least_pieces > team.threads()));
  if (is_own) CHECK(team.most_pieces() >= least_pieces);
  CHECK(team_call.taken_workspace() <= team_call.stated_workspace(fast, team.threads()));
  REQUIRE(found.size() == expected.size());
  for (std::size_t out = 0; out < found.size(); ++out) {
    CAPTURE(out);
    for (std::size_t i = 0; i < found[out].size(); ++i) {
      const double error = std::abs(found[out][i] - expected[out][i]);
      REQUIRE(error <= bound(terms) * (1 + std::abs(expected[out][i])));
    }
  }
}

}  // namespace sextant
