// `require` answers a caller's mistake with an Error; `SEXTANT_INVARIANT` answers our own with an
// abort, in checked builds only.
#pragma once

#include "core/base/error.h"

#include <fmt/core.h>

#include <string>
#include <utility>

namespace sextant {

template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail(ErrorCode code, const Place& place, fmt::format_string<Args...> text,
                       Args&&... args) {
  throw Error(code, place, fmt::format(text, std::forward<Args>(args)...));
}

// Throws Error(code) with the formatted text unless `condition` holds.
template <typename... Args>
void require(bool condition, ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) fail(code, text, std::forward<Args>(args)...);
}
// As above, at a place.
template <typename... Args>
void require(bool condition, ErrorCode code, const Place& place, fmt::format_string<Args...> text,
             Args&&... args) {
  if (!condition) fail(code, place, text, std::forward<Args>(args)...);
}

}  // namespace sextant

// The arguments after the condition are a format string and its values: actor, register, act.
#ifdef SEXTANT_CHECKED
#define SEXTANT_INVARIANT(condition, ...)                                                      \
  do {                                                                                         \
    if (!(condition))                                                                          \
      ::sextant::invariant_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
#else
#define SEXTANT_INVARIANT(condition, ...) \
  do {                                    \
  } while (false)
#endif
