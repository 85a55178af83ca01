// What `fail` and `require` do, compiled once for all types of arguments.
#include "core/base/check.h"

namespace sextant {

void fail_formatted(ErrorCode code, const Place& place, fmt::string_view text,
                    fmt::format_args arguments) {
  throw Error(code, place, fmt::vformat(text, arguments));
}

}  // namespace sextant
