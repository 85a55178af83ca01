// Two processes leave; the second is stopped behind its goodbye, before MPI's end, which waits for
// all. Started by mpirun; the first says how long it took, the launcher ends the second.
#include "backends/hosts/process_group.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace sextant {
namespace {

using std::chrono::seconds;

[[noreturn]] void stop_behind_goodbye(ProcessGroup& processes) {
  processes.say_goodbye();
  processes.flush(seconds(1));
  std::raise(SIGSTOP);
  std::_Exit(3);  // nobody lets it go on but to end it
}

[[noreturn]] void leave_alone(ProcessGroup& processes) {
  const auto begin = std::chrono::steady_clock::now();
  const bool is_in_order = processes.leave(seconds(2));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("left %s after %.1f s\n", is_in_order ? "in order" : "alone", took.count());
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace
}  // namespace sextant

int main() {
  using namespace sextant;
  try {
    const auto launched = launched_by([](const char* name) { return std::getenv(name); });
    if (!launched) return 2;
    const auto processes = join_processes(*launched, {});
    if (launched->process == 1) stop_behind_goodbye(*processes);
    leave_alone(*processes);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
