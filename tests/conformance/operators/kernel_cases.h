// What kernels of a device are compared on with the reference kernels: every operator on its
// examples and their relatives, in every floating type that it accepts, whole and in shards.
#pragma once

#include "core/graphs/operator.h"
#include "core/graphs/physical_graph.h"
#include "core/tensors/sbp.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// A tensor's part in one call.
struct CaseOperand {
  TensorType global;
  Shard box;
  bool operator==(const CaseOperand&) const = default;
};

// One call of one operator, without values.
struct KernelCase {
  std::string kind;
  Attributes attributes;
  std::vector<CaseOperand> in, out;
  // Of the inputs' values, both included.
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  std::vector<bool> is_state;  // by output: read before it is written
  // Of fused operators: what they stand for, and the tensors between members.
  std::vector<ActorMember> members = {};
  std::vector<CaseOperand> inner = {};
  double flops = 0;  // of the act

  std::string text() const;  // "matmul (5x3 f32, 3x7 f32 -> 5x7 f32)"
};

CaseOperand whole_operand(const TensorType& type);

// Limits on what one reference run may cost.
struct CaseLimits {
  double flops = 2e7;
  std::int64_t elements = std::int64_t{1} << 18;  // of one operand
};

// The examples of a kind and their relatives, in the types of the examples (f64): with one extent
// replaced by odd, empty and long ones, with all extents several times as large. Each shape once.
std::vector<KernelCase> whole_cases(const OperatorDef& def, const CaseLimits& limits);

// The parts of the examples under every claimed row over 2 and 3 devices.
std::vector<KernelCase> shard_cases(const OperatorDef& def);

// The case with its f64 inputs in `dtype`; where the operator refuses that, with as many of them as
// it accepts, the others in f32. Empty: it takes none.
std::vector<KernelCase> in_dtype(const KernelCase& original, DType dtype);

}  // namespace sextant
