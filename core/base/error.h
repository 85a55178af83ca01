// The one exception type of the project and the codes it carries. Formatting helpers are in
// check.h, so that CUDA sources can include this file without fmt.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace sextant {

// The value is the exit code of the program (00-product, "Habits").
enum class ErrorCode {
  kInternal = 1,      // a bug in Sextant
  kUsage = 2,         // the command line or an argument of a public function
  kBadInput = 3,      // a file that cannot be understood
  kInfeasible = 4,    // no plan, or a plan that cannot be honoured
  kDevice = 5,        // device or driver unusable
  kRankFailed = 6,    // a rank failed or timed out
  kVerification = 7,  // numbers beyond tolerance
  kCheckpoint = 8,    // damaged checkpoint
};

// Machine-readable name, for instance "bad_input"; the `code` of JSON errors.
const char* to_string(ErrorCode code);

// Where in the input an error is: "plan.json: strategy", or the part of a text, "strategy".
struct Place {
  std::string text;
};

class Error : public std::runtime_error {
 public:
  // `message` says what was found and what was wanted; each hint is one way out.
  Error(ErrorCode code, std::string message, std::vector<std::string> hints = {});
  // what() is "place: message".
  Error(ErrorCode code, Place place, const std::string& message,
        std::vector<std::string> hints = {});

  ErrorCode code() const { return code_; }
  const std::vector<std::string>& hints() const { return hints_; }
  // Empty where nothing in the input is to blame, or where it was not said.
  const std::string& place() const { return place_; }
  // what() without the place: for those who know a better one.
  std::string message() const;

 private:
  ErrorCode code_;
  std::vector<std::string> hints_;
  std::string place_;
};

// Prints `message` with its place and aborts: our own mistake, never the user's.
[[noreturn]] void invariant_failed(const char* condition, const char* file, int line,
                                   const std::string& message);

}  // namespace sextant
