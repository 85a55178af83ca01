// Names of error codes and the abort of a broken invariant.
#include "core/base/error.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace sextant {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInternal:
      return "internal";
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kBadInput:
      return "bad_input";
    case ErrorCode::kInfeasible:
      return "infeasible";
    case ErrorCode::kDevice:
      return "device";
    case ErrorCode::kRankFailed:
      return "rank_failed";
    case ErrorCode::kVerification:
      return "verification";
    case ErrorCode::kCheckpoint:
      return "checkpoint";
  }
  return "internal";
}

Error::Error(ErrorCode code, std::string message, std::vector<std::string> hints)
    : std::runtime_error(std::move(message)), code_(code), hints_(std::move(hints)) {}

Error::Error(ErrorCode code, Place place, const std::string& message,
             std::vector<std::string> hints)
    : std::runtime_error(place.text.empty() ? message : place.text + ": " + message),
      code_(code),
      hints_(std::move(hints)),
      place_(std::move(place.text)) {}

std::string Error::message() const {
  const std::string text = what();
  return place_.empty() ? text : text.substr(place_.size() + 2);
}

void invariant_failed(const char* condition, const char* file, int line,
                      const std::string& message) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s (%s)\n", file, line, message.c_str(),
               condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace sextant
