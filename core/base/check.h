// `require` answers a caller's mistake with an Error; `SEXTANT_INVARIANT` answers our own with an
// abort, in checked builds only.
#pragma once

#include "core/base/error.h"

#include <fmt/core.h>

namespace sextant {

// `fail` once its arguments have no types any more: what every caller would else have a copy of.
[[noreturn]] void fail_formatted(ErrorCode code, const Place& place, fmt::string_view text,
                                 fmt::format_args arguments);

// Throws Error(code) with the formatted text.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  fail_formatted(code, {}, text, fmt::make_format_args(args...));
}
// Throws Error(code) with the formatted text, at a place.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, const Place& place, fmt::format_string<Args...> text,
                       Args&&... args) {
  fail_formatted(code, place, text, fmt::make_format_args(args...));
}

// Throws Error(code) with the formatted text unless `condition` holds.
template <typename... Args>
void require(bool condition, ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) fail_formatted(code, {}, text, fmt::make_format_args(args...));
}
// Throws Error(code) with the formatted text, at a place, unless `condition` holds.
template <typename... Args>
void require(bool condition, ErrorCode code, const Place& place, fmt::format_string<Args...> text,
             Args&&... args) {
  if (!condition) fail_formatted(code, place, text, fmt::make_format_args(args...));
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
