// The checks of host groups, with threads as members.
#include "actor/hosts/rank_threads.h"
#include "tests/hosts/group_checks.h"

#include <doctest/doctest.h>

namespace sextant::thread_group_test {

TEST_CASE("threads of one process are a host group") {
  for (const std::size_t members : {2, 4}) {
    ThreadHostGroups groups(members);
    for (const testing::GroupCheck& check : testing::group_checks()) {
      CAPTURE(check.name);
      CHECK_NOTHROW(on_rank_threads(
          members, [&](std::size_t member) { check.run(groups.of(Rank(member))); },
          [&](const std::string& reason) { groups.abort(reason); }));
    }
  }
}

}  // namespace sextant::thread_group_test
