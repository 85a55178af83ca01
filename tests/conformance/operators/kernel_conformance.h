// Compares kernels of a device, call by call, with the reference kernels computed in f64 on the
// same rounded inputs, and states how far they may differ.
//
// One bound for all kinds. With u the unit roundoff of the output's type (f64 2^-53, f32 2^-24, f16
// 2^-11, bf16 2^-8) and v that of the arithmetic (f64 where all floating operands are f64, else
// f32):
//
//   |found - r| <= 1.01 u |r| + tiny + 4 v sqrt(n) (d + m)          r: result, or what was there +
//   result
//
// - u |r| is the one rounding on the way out; tiny is half the least subnormal of f16, 0 otherwise.
// - d is how much the output moves when every input is off by a factor of 1 +- 1: the largest
//   element of (y(x (1 + eta s)) - y(x)) / eta over random signs s. Of a sum of terms it is the
//   root of the sum of their squares, of curved functions the inputs' share in the error. m is the
//   largest |r| of the tensor or element of an input: roundings of intermediate results of that
//   size.
// - n is how many terms meet in one element: the more of the operations per output element and the
//   longest extent of an input. Errors of n roundings add up like a random walk, whatever their
//   order; 4 leaves room for the largest of many elements.
// - Kinds in `rounds_between` pass intermediate results of 16-bit calls through tensor cores and so
//   round them to 16 bits (u'): 4 u' (d + m) more. So may fused kinds, between members.
//
// Outputs of integer types are equal. Infinities and NaN are where the reference has them.
#pragma once

#include "actor/calls/kernel_context.h"
#include "tests/conformance/operators/kernel_cases.h"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace sextant {

// Bytes behind every operand that no kernel may change.
inline constexpr std::size_t kOperandGuard = 256;

// How a device runs one call. Addresses in the context are the host's; outputs are updated.
class CallRunner {
 public:
  virtual ~CallRunner() = default;
  // False: no kernel covers the call. Throws Error where a kernel fails, LostDevice.
  virtual bool run(const KernelContext& call) = 0;
  // Whether an error with this text is a limit that the device states, and so no fault.
  virtual bool may_refuse(const std::string& /*error*/) { return false; }
};

// The device is lost: no later call can be run. (An address out of range loses a CUDA device for
// the rest of the process.)
class LostDevice : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What values inputs get: whole numbers, or numbers that use all digits of the type.
enum class CaseValues : std::uint8_t { kIntegers, kDigits };

// What the reference gives for values drawn by a case's text.
class CaseOracle {
 public:
  CaseOracle(const KernelCase& on, CaseValues values);
  const KernelCase& on() const { return on_; }

  struct Outcome {
    bool is_covered = true;
    double share = 0;   // of the bound that the worst element uses; above 1 is a fault
    std::string fault;  // empty: none
  };
  // Runs the call with `accumulate`d outputs and compares.
  Outcome check(CallRunner& runner, const std::vector<bool>& accumulate) const;
  // Bytes of the outputs of one run that overwrites; nothing if no kernel covers it.
  std::vector<std::vector<std::byte>> bytes_of_run(CallRunner& runner) const;

 private:
  struct Room;  // operands in the bytes that kernels read
  void fill(Room& room, const std::vector<bool>& accumulate) const;
  void compute_reference();
  double bound(std::size_t output, double result) const;
  void compare(const Room& room, const std::vector<bool>& accumulate, Outcome& outcome) const;

  KernelCase on_;
  std::vector<std::vector<double>> inputs_, before_;  // rounded to their types
  std::vector<std::vector<double>> results_;
  std::vector<double> spread_;  // d + m, by output
};

// The choices of outputs to accumulate to: none, each floating one alone, all; of
// state none at all, of fused operators none that another member reads.
std::vector<std::vector<bool>> accumulations(const KernelCase& on);

}  // namespace sextant
