// The checks of host groups over a network whose messages are late, overtake each other and come
// twice.
#include "actor/hosts/rank_threads.h"
#include "actor/hosts/simulated_groups.h"
#include "tests/hosts/group_checks.h"

#include <doctest/doctest.h>

namespace sextant::simulated_group_test {

TEST_CASE("members over a network that misbehaves are a host group") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    constexpr std::size_t kMembers = 3;
    SimulatedHostGroups groups(kMembers, {.seed = seed, .max_delay = 30, .repeat_percent = 20});
    for (const testing::GroupCheck& check : testing::group_checks()) {
      CAPTURE(check.name);
      CHECK_NOTHROW(on_rank_threads(
          kMembers, [&](std::size_t member) { check.run(groups.of(Rank(member))); },
          [&](const std::string& reason) { groups.abort(reason); }));
    }
    CHECK(groups.early() > 0);
    CHECK(groups.repeated() > 0);
  }
}

}  // namespace sextant::simulated_group_test
