// Draws values, computes the reference and its sensitivity, runs calls on guarded memory.
#include "tests/conformance/operators/kernel_conformance.h"

#include "backends/cpu/kernels/shared/kernel.h"
#include "core/base/check.h"
#include "core/base/counter_rng.h"
#include "core/base/elements.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

using Values = std::vector<std::vector<double>>;

constexpr double kPerturbation = 0x1p-20;
constexpr int kTrials = 2;
constexpr std::byte kGuardByte{0xA5};
constexpr std::byte kPoison{0xFF};  // NaN in every floating type

constexpr std::string_view kRoundsBetween[] = {
    "attention", "attention_chunks", "attention_chunks_grad", "attention_grad",
    "conv",      "conv_grad_input",  "conv_grad_weight"};

bool rounds_between(std::string_view kind) {
  return std::find(std::begin(kRoundsBetween), std::end(kRoundsBetween), kind) !=
         std::end(kRoundsBetween);
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kF32:
      return 0x1p-24;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    case DType::kE4M3:
      return 0x1p-4;
    case DType::kE5M2:
      return 0x1p-3;
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
    case DType::kU8:
      return 0;
  }
  __builtin_unreachable();
}

bool is_16_bit(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

std::vector<double> rounded(DType dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_of(dtype).value));
  store_from_double(dtype, values, bytes.data());
  std::vector<double> result(values.size());
  load_as_double(dtype, bytes.data(), result);
  return result;
}

std::size_t elements_of(const CaseOperand& operand) {
  return static_cast<std::size_t>(operand.box.elements());
}

std::vector<double> draw(const CaseOperand& operand, std::pair<std::int64_t, std::int64_t> range,
                         CaseValues how, const CounterRng& rng, std::uint64_t& next) {
  const DType dtype = operand.global.dtype;
  if (dtype == DType::kBool) range = {0, 1};
  const double first = static_cast<double>(range.first), last = static_cast<double>(range.second);
  std::vector<double> values(elements_of(operand));
  for (double& value : values) {
    const double u = rng.uniform(next++);
    value = how == CaseValues::kDigits && is_floating(dtype)
                ? first + (last - first) * u
                : std::min(last, first + std::floor((last - first + 1) * u));
  }
  return rounded(dtype, values);
}

// The type that the reference computes in.
DType wide(DType dtype) { return is_floating(dtype) ? DType::kF64 : dtype; }

// Operands of one call of the reference, all floating ones in f64.
struct WideOperand {
  Layout layout;
  std::vector<std::byte> bytes;

  explicit WideOperand(const CaseOperand& of, const std::vector<double>& values)
      : layout{.global = {of.global.shape, wide(of.global.dtype)}, .words = {}, .placement = {}},
        box(of.box) {
    bytes.resize(values.size() * static_cast<std::size_t>(size_of(layout.global.dtype).value));
    store_from_double(layout.global.dtype, values, bytes.data());
  }
  KernelOperand operand() {
    return {.data = bytes.data(),
            .local = {box.local_shape(), layout.global.dtype},
            .layout = &layout,
            .box = box};
  }
  std::vector<double> values() const {
    std::vector<double> result(static_cast<std::size_t>(box.elements()));
    load_as_double(layout.global.dtype, bytes.data(), result);
    return result;
  }

  Shard box;
};

using WideOperands = std::vector<std::unique_ptr<WideOperand>>;

void run_reference(const std::string& kind, const Attributes& attributes,
                   const std::vector<WideOperand*>& in, const std::vector<WideOperand*>& out) {
  static const KernelTable kernels = reference_kernels();
  Actor actor;
  actor.kind = kind;
  actor.attributes = attributes;
  KernelContext context;
  context.actor = &actor;
  for (WideOperand* operand : in) context.in.push_back(operand->operand());
  for (WideOperand* operand : out) context.out.push_back(operand->operand());
  context.accumulate.assign(out.size(), false);
  const Kernel kernel = kernels.find(kind, context);
  require(kernel != nullptr, ErrorCode::kInternal, "no reference kernel for '{}'", kind);
  Workspace workspace;
  kernel(context, workspace);
}

WideOperands wide_operands(const std::vector<CaseOperand>& operands, const Values& values) {
  WideOperands made;
  for (std::size_t i = 0; i < operands.size(); ++i)
    made.push_back(std::make_unique<WideOperand>(operands[i], values[i]));
  return made;
}

Values zeros(const std::vector<CaseOperand>& operands) {
  Values values;
  for (const CaseOperand& operand : operands) values.emplace_back(elements_of(operand));
  return values;
}

std::vector<WideOperand*> pointers(const WideOperands& operands) {
  std::vector<WideOperand*> made;
  for (const auto& operand : operands) made.push_back(operand.get());
  return made;
}

// A member's results are rounded to their type only where rounding is what the member does.
void round_cast(const ActorMember& member, const CaseOperand& type, WideOperand& result) {
  if (member.kind != "cast") return;
  store_from_double(result.layout.global.dtype, rounded(type.global.dtype, result.values()),
                    result.bytes.data());
}

Values reference(const KernelCase& on, const Values& inputs, const Values& before) {
  const WideOperands in = wide_operands(on.in, inputs), out = wide_operands(on.out, before);
  const WideOperands inner = wide_operands(on.inner, zeros(on.inner));
  if (on.members.empty()) run_reference(on.kind, on.attributes, pointers(in), pointers(out));
  for (const ActorMember& member : on.members) {
    using Source = ActorMember::Operand::Source;
    const auto find = [&](const ActorMember::Operand& operand) {
      const auto index = static_cast<std::size_t>(operand.index);
      return operand.source == Source::kInput    ? in[index].get()
             : operand.source == Source::kOutput ? out[index].get()
                                                 : inner[index].get();
    };
    std::vector<WideOperand*> from, to;
    for (const auto& operand : member.in) from.push_back(find(operand));
    for (const auto& operand : member.out) to.push_back(find(operand));
    run_reference(member.kind, member.attributes, from, to);
    for (std::size_t i = 0; i < to.size(); ++i) {
      const ActorMember::Operand& operand = member.out[i];
      const auto index = static_cast<std::size_t>(operand.index);
      round_cast(member, operand.source == Source::kOutput ? on.out[index] : on.inner[index],
                 *to[i]);
    }
  }
  Values results;
  for (const auto& output : out) results.push_back(output->values());
  return results;
}

// Every floating element off by a factor of 1 +- kPerturbation.
Values perturbed(const std::vector<CaseOperand>& operands, Values values, const CounterRng& rng,
                 std::uint64_t& next) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!is_floating(operands[i].global.dtype)) continue;
    for (double& value : values[i])
      value *= 1 + ((rng.bits(next++) & 1U) != 0 ? kPerturbation : -kPerturbation);
  }
  return values;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::isfinite(a[i]) && std::isfinite(b[i]))
      largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

double largest_of(const std::vector<double>& values) {
  return largest_difference(values, std::vector<double>(values.size()));
}

double terms_of(const KernelCase& on) {
  double terms = 1;
  for (const CaseOperand& input : on.in)
    for (const std::int64_t extent : input.global.shape.extents())
      terms = std::max(terms, static_cast<double>(extent));
  for (const CaseOperand& output : on.out)
    if (const auto elements = static_cast<double>(output.global.shape.elements()); elements > 0)
      terms = std::max(terms, on.flops / elements);
  return terms;
}

DType arithmetic_of(const KernelCase& on) {
  const auto is_wide = [](const CaseOperand& operand) {
    return wide(operand.global.dtype) == operand.global.dtype;
  };
  return std::all_of(on.in.begin(), on.in.end(), is_wide) &&
                 std::all_of(on.out.begin(), on.out.end(), is_wide)
             ? DType::kF64
             : DType::kF32;
}

// The coarsest rounding of intermediate results; 0 where there is none.
double rounding_between(const KernelCase& on) {
  double unit = 0;
  if (on.members.empty() && !rounds_between(on.kind)) return unit;
  for (const CaseOperand& input : on.in)
    if (is_16_bit(input.global.dtype)) unit = std::max(unit, unit_roundoff(input.global.dtype));
  return unit;
}

}  // namespace

struct CaseOracle::Room {
  std::vector<Layout> layouts;  // addresses of its elements are kept
  std::vector<std::vector<std::byte>> bytes;
  Actor actor;
  KernelContext context;

  void add(const CaseOperand& of, const std::vector<double>& values, bool is_poisoned,
           std::vector<KernelOperand>& operands) {
    const auto size = elements_of(of) * static_cast<std::size_t>(size_of(of.global.dtype).value);
    bytes.emplace_back(size, kPoison);
    if (!is_poisoned) store_from_double(of.global.dtype, values, bytes.back().data());
    layouts.push_back({.global = of.global, .words = {}, .placement = {}});
    operands.push_back({.data = nullptr,
                        .local = {of.box.local_shape(), of.global.dtype},
                        .layout = nullptr,
                        .box = of.box});
  }
  // Addresses, once nothing moves any more.
  void settle(std::size_t inputs) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      KernelOperand& operand = i < inputs ? context.in[i] : context.out[i - inputs];
      bytes[i].resize(bytes[i].size() + kOperandGuard, kGuardByte);
      operand.data = bytes[i].data();
      operand.layout = &layouts[i];
    }
  }
  bool is_guarded() const {
    return std::all_of(bytes.begin(), bytes.end(), [](const std::vector<std::byte>& operand) {
      return std::all_of(operand.end() - kOperandGuard, operand.end(),
                         [](std::byte byte) { return byte == kGuardByte; });
    });
  }
};

CaseOracle::CaseOracle(const KernelCase& on, CaseValues values) : on_(on) {
  const CounterRng rng(1, on_.text());
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < on_.in.size(); ++i)
    inputs_.push_back(draw(on_.in[i], on_.ranges[i], values, rng, next));
  for (std::size_t i = 0; i < on_.out.size(); ++i)
    before_.push_back(draw(on_.out[i],
                           on_.is_state[i] ? std::pair<std::int64_t, std::int64_t>{0, 3}
                                           : std::pair<std::int64_t, std::int64_t>{-3, 3},
                           values, rng, next));
  compute_reference();
}

void CaseOracle::compute_reference() {
  results_ = reference(on_, inputs_, before_);
  double largest_input = 0;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (is_floating(on_.in[i].global.dtype))
      largest_input = std::max(largest_input, largest_of(inputs_[i]));
  for (const std::vector<double>& result : results_)
    spread_.push_back(std::max(largest_input, largest_of(result)));
  const CounterRng rng(2, on_.text());
  std::uint64_t next = 0;
  std::vector<double> moved(results_.size());
  for (int trial = 0; trial < kTrials; ++trial) {
    const Values inputs = perturbed(on_.in, inputs_, rng, next);
    Values before = before_;
    const Values off = perturbed(on_.out, before_, rng, next);
    for (std::size_t i = 0; i < before.size(); ++i)
      if (on_.is_state[i]) before[i] = off[i];
    const Values other = reference(on_, inputs, before);
    for (std::size_t i = 0; i < moved.size(); ++i)
      moved[i] = std::max(moved[i], largest_difference(other[i], results_[i]) / kPerturbation);
  }
  for (std::size_t i = 0; i < moved.size(); ++i) spread_[i] += moved[i];
}

double CaseOracle::bound(std::size_t output, double result) const {
  const DType dtype = on_.out[output].global.dtype;
  const double arithmetic = unit_roundoff(arithmetic_of(on_)) * std::sqrt(terms_of(on_));
  const double tiny = dtype == DType::kF16 ? 0x1p-25 : 0;
  return 1.01 * unit_roundoff(dtype) * std::abs(result) + tiny +
         4 * (arithmetic + rounding_between(on_)) * spread_[output];
}

void CaseOracle::fill(Room& room, const std::vector<bool>& accumulate) const {
  room.context.actor = &room.actor;
  room.actor.kind = on_.kind;
  room.actor.name = on_.text();
  room.actor.attributes = on_.attributes;
  room.actor.members = on_.members;
  for (const CaseOperand& inner : on_.inner)
    room.actor.inner.push_back({.name = "inner", .layout = {}, .local = inner.global});
  for (std::size_t i = 0; i < on_.in.size(); ++i)
    room.add(on_.in[i], inputs_[i], false, room.context.in);
  for (std::size_t i = 0; i < on_.out.size(); ++i)
    room.add(on_.out[i], before_[i], !accumulate[i] && !on_.is_state[i], room.context.out);
  room.context.accumulate = accumulate;
  room.settle(on_.in.size());
}

void CaseOracle::compare(const Room& room, const std::vector<bool>& accumulate,
                         Outcome& outcome) const {
  double worst = -1, worst_bound = 0;
  std::string where;
  for (std::size_t i = 0; i < on_.out.size(); ++i) {
    const DType dtype = on_.out[i].global.dtype;
    std::vector<double> found(elements_of(on_.out[i]));
    load_as_double(dtype, room.context.out[i].data, found);
    for (std::size_t at = 0; at < found.size(); ++at) {
      const double result = results_[i][at] + (accumulate[i] ? before_[i][at] : 0);
      const double wanted = is_floating(dtype) ? result : rounded(dtype, {result})[0];
      if (found[at] == wanted || (std::isnan(found[at]) && std::isnan(wanted))) continue;
      // Beyond what the type holds, up to a rounding.
      if (std::isinf(found[at]) && std::isinf(rounded(dtype, {wanted * (1 + 0x1p-8)})[0])) continue;
      const double allowed = is_floating(dtype) ? bound(i, wanted) : 0;
      const double error = std::abs(found[at] - wanted);
      const double share = std::isfinite(error) && allowed > 0
                               ? error / allowed
                               : std::numeric_limits<double>::infinity();
      if (share <= outcome.share) continue;
      outcome.share = share;
      worst = error;
      worst_bound = allowed;
      where = fmt::format("output {} element {}: {} instead of {}", i, at, found[at], wanted);
    }
  }
  if (outcome.share > 1)
    outcome.fault = fmt::format("error {:.3g}, bound {:.3g} ({})", worst, worst_bound, where);
}

CaseOracle::Outcome CaseOracle::check(CallRunner& runner,
                                      const std::vector<bool>& accumulate) const {
  Outcome outcome;
  Room room;
  fill(room, accumulate);
  outcome.is_covered = runner.run(room.context);
  if (!outcome.is_covered) return outcome;
  compare(room, accumulate, outcome);
  if (!room.is_guarded()) outcome.fault += " wrote behind an operand";
  return outcome;
}

std::vector<std::vector<std::byte>> CaseOracle::bytes_of_run(CallRunner& runner) const {
  Room room;
  fill(room, std::vector<bool>(on_.out.size(), false));
  if (!runner.run(room.context)) return {};
  return {room.bytes.begin() + static_cast<std::ptrdiff_t>(on_.in.size()), room.bytes.end()};
}

namespace {

// Of a fused operator: a later member reads the output, which therefore must be what it is.
bool is_read_inside(const KernelCase& on, std::size_t output) {
  const ActorMember::Operand seen{ActorMember::Operand::Source::kOutput,
                                  static_cast<std::int32_t>(output)};
  return std::any_of(on.members.begin(), on.members.end(), [&seen](const ActorMember& member) {
    return std::find(member.in.begin(), member.in.end(), seen) != member.in.end();
  });
}

}  // namespace

std::vector<std::vector<bool>> accumulations(const KernelCase& on) {
  std::vector<std::vector<bool>> choices{std::vector<bool>(on.out.size(), false)};
  if (std::find(on.is_state.begin(), on.is_state.end(), true) != on.is_state.end()) return choices;
  std::vector<bool> all(on.out.size(), false);
  for (std::size_t i = 0; i < on.out.size(); ++i) {
    if (!is_floating(on.out[i].global.dtype) || is_read_inside(on, i)) continue;
    choices.emplace_back(on.out.size(), false);
    choices.back()[i] = all[i] = true;
  }
  if (choices.size() > 2) choices.push_back(std::move(all));
  return choices;
}

}  // namespace sextant
