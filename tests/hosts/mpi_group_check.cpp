// The checks of host groups, with processes as members: started by mpirun, once per process.
// Exit code 77 says that there is nothing to check here.
#include "backends/hosts/process_group.h"
#include "core/base/error.h"
#include "tests/hosts/group_checks.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace sextant {
namespace {

int check_processes() {
  const auto launched = launched_by([](const char* name) { return std::getenv(name); });
  if (!launched) {
    std::puts("skipped: not started by mpirun");
    return 77;
  }
  const auto processes = join_processes(*launched, {});
  for (const testing::GroupCheck& check : testing::group_checks()) {
    try {
      check.run(processes->group());
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", check.name.c_str(), error.what());
      std::fflush(stdout);
      return 1;
    }
    if (launched->process == 0) std::printf("%s\n", check.name.c_str());
  }
  std::fflush(stdout);
  // The last check has aborted the group, and all are there to say goodbye.
  if (processes->leave(std::chrono::seconds(10))) return 0;
  std::puts("not all have left in order");
  std::fflush(stdout);
  std::_Exit(1);
}

}  // namespace
}  // namespace sextant

int main() {
  try {
    return sextant::check_processes();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
