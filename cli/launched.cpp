// Asks the environment.
#include "cli/launched.h"

#include <cstdlib>

namespace sextant {

std::optional<Launched> launched() {
  return launched_by([](const char* name) { return std::getenv(name); });
}

bool is_first_process() {
  const auto several = launched();
  return !several || several->process == 0;
}

}  // namespace sextant
