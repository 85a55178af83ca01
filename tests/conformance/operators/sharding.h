// Tensors as the pieces that the devices of a mesh hold under given words, and back: the slow,
// obvious meaning of SBP words, against which rows and kernels are checked.
#pragma once

#include "core/base/counter_rng.h"
#include "core/tensors/sbp.h"
#include "tests/conformance/operators/operator_runner.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Extents of the mesh axes, major to minor. Pieces are listed by coordinates in row-major order.
using Hierarchy = std::vector<std::int64_t>;

// A stream of small integers, the same for equal names.
class Random {
 public:
  explicit Random(const std::string& stream) : rng_(1, stream) {}
  std::int64_t integer(std::int64_t first, std::int64_t last) {
    return first + static_cast<std::int64_t>(rng_.bits(next_++) %
                                             static_cast<std::uint64_t>(last - first + 1));
  }
  // From 0 to count - 1.
  std::size_t index(std::size_t count) {
    return static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(count) - 1));
  }

 private:
  CounterRng rng_;
  std::uint64_t next_ = 0;
};

// What the parts of a partial value differ by: whole numbers, or quarters where the type has them
// (sums of integers alone would let floor pass for linear), or what makes the sums of integer types
// leave their range on the way (small numbers alone would let arithmetic that saturates pass for
// linear).
enum class Shares : std::uint8_t { kIntegers, kFractions, kExtremes };

bool is_integer(DType dtype);  // i32 or i64
// A number from all over an integer type, its ends included; of i64 one that a double holds, and
// whose sums a double holds.
double extreme(DType dtype, Random& random);
// A sum as an integer type stores it: sums between parts wrap around. Others are left alone.
double wrapped(double sum, DType dtype);

// Partial values are random; their reduction is the tensor. Some hold the neutral element of it, as
// after a boxing from a split.
std::vector<Piece> distribute(const Piece& tensor, const NdSbp& words, const Hierarchy& hierarchy,
                              Random& random, Shares shares = Shares::kIntegers);

// The global tensor that the pieces stand for; NaN where no piece holds an element and where
// copies under B differ.
Piece collect(const std::vector<Piece>& pieces, const NdSbp& words, const Hierarchy& hierarchy);

struct OperandWords {
  std::vector<NdSbp> inputs, outputs;
};

// Distributes inputs and outputs, runs the kernel on every device, collects the outputs. `outputs`
// are global tensors: their types and, for state, the contents before the act.
std::vector<Piece> run_sharded(const std::string& kind, const Attributes& attributes,
                               const std::vector<Piece>& inputs, const std::vector<Piece>& outputs,
                               const OperandWords& words, const Hierarchy& hierarchy,
                               Random& random, Shares shares = Shares::kIntegers);

// Equal boxes and values: integers exactly, others up to the rounding of any order of summation.
// NaN equals NaN.
bool agree(const Piece& a, const Piece& b);
bool agree(double a, double b, double largest, DType dtype);
double largest_of(std::span<const double> values);  // at least 1

// The value that a reduction leaves out, as boxing fills it in; that of i64 minima is 2^63, which
// is stored as 2^63 - 1 and read as 2^63 again.
double neutral(ReduceOp op, DType dtype);
double reduced(ReduceOp op, double a, double b, DType dtype);  // NaN when one of them is

}  // namespace sextant
