// Faults are collected, not thrown: one run shows all of them.
#include "tests/conformance/operators/kernel_sweep.h"

#include "core/base/error.h"

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

namespace sextant {
namespace {

constexpr DType kFloatingTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
// Shards differ in boxes, not in arithmetic: two types do.
constexpr DType kTypesOfShards[] = {DType::kF32, DType::kBF16};
constexpr std::size_t kMostLines = 6;

void add_fault(SweepReport& report, const std::string& line) {
  ++report.num_faults;
  if (report.faults.size() < kMostLines) report.faults.push_back(line);
}

void add_error(SweepReport& report, CallRunner& runner, const std::string& call,
               const std::string& error) {
  if (runner.may_refuse(error))
    ++report.refused;
  else
    add_fault(report, call + ": " + error);
}

std::string text_of(const std::vector<bool>& accumulate) {
  std::string text;
  for (std::size_t i = 0; i < accumulate.size(); ++i)
    if (accumulate[i]) text += " accumulated to output " + std::to_string(i);
  return text;
}

std::string types_text(const std::string& kind, DType dtype) {
  return kind + " " + std::string(to_string(dtype));
}

// Of the first floating input: what lists call the call.
DType type_of(const KernelCase& on) {
  const auto floating = std::find_if(on.in.begin(), on.in.end(), [](const CaseOperand& input) {
    return is_floating(input.global.dtype);
  });
  return floating == on.in.end() ? DType::kF32 : floating->global.dtype;
}

bool is_example(const OperatorDef& def, const KernelCase& on) {
  const std::vector<OperatorExample> examples = def.examples();
  return std::any_of(examples.begin(), examples.end(), [&on](const OperatorExample& example) {
    return std::equal(on.in.begin(), on.in.end(), example.inputs.begin(), example.inputs.end(),
                      [](const CaseOperand& a, const TensorType& b) { return a.global == b; });
  });
}

void sweep_case(const SweptCase& swept, CallRunner& runner, SweepReport& report) {
  const KernelCase& on = swept.oracle.on();
  for (const std::vector<bool>& accumulate : accumulations(on)) {
    ++report.calls;
    const std::string how = text_of(accumulate);
    try {
      const CaseOracle::Outcome outcome = swept.oracle.check(runner, accumulate);
      // What no kernel covers as a whole runs member by member.
      if (outcome.is_covered) ++report.covered;
      if (!outcome.is_covered && on.members.empty())
        report.uncovered.insert(swept.types + (how.empty() ? "" : " accumulated"));
      report.share = std::max(report.share, outcome.share);
      if (!outcome.fault.empty()) add_fault(report, on.text() + how + ": " + outcome.fault);
    } catch (const LostDevice&) {
      throw;
    } catch (const std::exception& error) {
      add_error(report, runner, on.text() + how, error.what());
    }
  }
}

}  // namespace

void prepare_case(const KernelCase& on, CaseValues values, const std::string& types,
                  PreparedKind& prepared) {
  try {
    prepared.cases.push_back({.oracle = CaseOracle(on, values), .types = types});
  } catch (const std::exception& error) {
    prepared.faults.push_back(on.text() + ": reference: " + error.what());
  }
}

PreparedKind prepare_kind(const OperatorDef& def, const CaseLimits& limits) {
  PreparedKind prepared{.kind = def.kind, .cases = {}, .faults = {}};
  for (const KernelCase& on : whole_cases(def, limits)) {
    const bool has_integers = is_example(def, on);
    for (const DType dtype : kFloatingTypes)
      for (const KernelCase& typed : in_dtype(on, dtype)) {
        prepare_case(typed, CaseValues::kDigits, types_text(def.kind, dtype), prepared);
        if (has_integers)
          prepare_case(typed, CaseValues::kIntegers, types_text(def.kind, dtype), prepared);
      }
  }
  for (const KernelCase& on : shard_cases(def))
    for (const DType dtype : kTypesOfShards)
      for (const KernelCase& typed : in_dtype(on, dtype))
        prepare_case(typed, CaseValues::kIntegers, types_text(def.kind, dtype), prepared);
  return prepared;
}

void thin_out(PreparedKind& prepared, std::size_t every) {
  std::vector<SweptCase> kept;
  for (std::size_t i = 0; i < prepared.cases.size(); i += every)
    kept.push_back(std::move(prepared.cases[i]));
  prepared.cases = std::move(kept);
}

std::vector<PreparedKind> prepare_calls(const std::vector<KernelCase>& calls) {
  std::map<std::string, PreparedKind> by_kind;
  for (const KernelCase& on : calls) {
    PreparedKind& prepared = by_kind[on.kind];
    prepared.kind = on.kind;
    prepare_case(on, CaseValues::kDigits, types_text(on.kind, type_of(on)), prepared);
  }
  std::vector<PreparedKind> kinds;
  for (auto& [kind, prepared] : by_kind) kinds.push_back(std::move(prepared));
  return kinds;
}

SweepReport sweep(const PreparedKind& prepared, CallRunner& runner) {
  SweepReport report;
  for (const std::string& fault : prepared.faults) add_fault(report, fault);
  for (const SweptCase& swept : prepared.cases) sweep_case(swept, runner, report);
  return report;
}

SweepReport sweep_twice(const PreparedKind& prepared, CallRunner& runner) {
  SweepReport report;
  for (const SweptCase& swept : prepared.cases) {
    ++report.calls;
    try {
      if (swept.oracle.bytes_of_run(runner) != swept.oracle.bytes_of_run(runner))
        add_fault(report, swept.oracle.on().text() + ": two runs differ");
    } catch (const LostDevice&) {
      throw;
    } catch (const std::exception& error) {
      add_error(report, runner, swept.oracle.on().text(), error.what());
    }
  }
  return report;
}

}  // namespace sextant
