// What every kind of host group must do, as each of its members does it: threads of one process and
// processes run the same checks.
#pragma once

#include "actor/hosts/host_group.h"

#include <functional>
#include <string>
#include <vector>

namespace sextant::testing {

struct GroupCheck {
  std::string name;
  // Called by all members at the same time; throws Error(kVerification) where a member sees
  // something wrong.
  std::function<void(HostGroup&)> run;
};

// All but the last leave the group usable; the last aborts it.
std::vector<GroupCheck> group_checks();

}  // namespace sextant::testing
