// What becomes of something that may abort: it runs in a process of its own.
#pragma once

#include "core/base/error.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <string>

namespace sextant::testing {

enum class Outcome { kClean, kReported, kThrown, kAborted, kCrashed };

// `reports`: whether something is found.
inline Outcome outcome_of(const std::function<bool()>& reports) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    // The test framework's handlers are not for the child.
    std::signal(SIGABRT, SIG_DFL);
    std::signal(SIGSEGV, SIG_DFL);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(9);
    int code = 0;
    try {
      code = reports() ? 1 : 0;
    } catch (const Error&) {
      code = 2;
    }
    _exit(code);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGABRT ? Outcome::kAborted : Outcome::kCrashed;
  switch (WEXITSTATUS(status)) {
    case 0:
      return Outcome::kClean;
    case 1:
      return Outcome::kReported;
    case 2:
      return Outcome::kThrown;
    default:
      return Outcome::kCrashed;
  }
}

inline std::string to_text(Outcome outcome) {
  switch (outcome) {
    case Outcome::kClean:
      return "not found";
    case Outcome::kReported:
      return "reported";
    case Outcome::kThrown:
      return "refused";
    case Outcome::kAborted:
      return "caught by an invariant";
    case Outcome::kCrashed:
      return "crashed";
  }
  return "?";
}

}  // namespace sextant::testing
