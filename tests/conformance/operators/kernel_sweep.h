// All cases of one operator kind through the kernels of a device. The reference is computed first,
// without the device, so that many kinds can be prepared beside each other.
#pragma once

#include "tests/conformance/operators/kernel_conformance.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace sextant {

struct SweptCase {
  CaseOracle oracle;
  std::string types;  // "matmul bf16": what a list of uncovered types calls it
};

struct PreparedKind {
  std::string kind;
  std::vector<SweptCase> cases;
  std::vector<std::string> faults;  // of the reference itself
};

// Whole tensors in all floating types with all digits, examples and their shards with whole numbers
// too.
PreparedKind prepare_kind(const OperatorDef& def, const CaseLimits& limits);

// Every `every`-th case, so that a tool which slows each call sees all kinds.
void thin_out(PreparedKind& prepared, std::size_t every);

// Calls that are in their final types, by kind.
std::vector<PreparedKind> prepare_calls(const std::vector<KernelCase>& calls);

// Adds one case that is in its final types.
void prepare_case(const KernelCase& on, CaseValues values, const std::string& types,
                  PreparedKind& prepared);

struct SweepReport {
  std::int64_t calls = 0;
  std::int64_t covered = 0;  // calls that one kernel served as a whole
  std::int64_t refused = 0;  // calls, by limits that the device states
  double share = 0;          // largest share of the bound that an element used
  std::int64_t num_faults = 0;
  std::vector<std::string> faults;  // a line each, the first few
  std::set<std::string> uncovered;  // "matmul f16", "matmul f16 accumulated"
};

// Every case with every choice of accumulation. Faults are collected, not thrown.
SweepReport sweep(const PreparedKind& prepared, CallRunner& runner);

// Two runs of each case give the same bits.
SweepReport sweep_twice(const PreparedKind& prepared, CallRunner& runner);

}  // namespace sextant
