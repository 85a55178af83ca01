// The law of boxing, checked by the obvious execution.
#include "tests/sbp/boxing_cases.h"

#include "sbp/boxing_search.h"
#include "tests/sbp/boxing_oracle.h"
#include "tests/support/mesh_words.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>

namespace sextant::oracle {
namespace {

bool has_two_reductions(const NdSbp& words) {
  std::optional<ReduceOp> pending;
  for (const Sbp& word : words) {
    if (!word.is_partial()) continue;
    if (pending && *pending != word.reduce) return true;
    pending = word.reduce;
  }
  return false;
}

// The same splits in every other nesting order.
std::vector<NdSbp> nesting_orders(const NdSbp& words) {
  std::vector<NdSbp> orders = {words};
  for (std::size_t dim = 0; dim < 16; ++dim) {
    std::vector<std::size_t> axes;
    for (std::size_t axis = 0; axis < words.size(); ++axis)
      if (words[axis].is_split() && words[axis].dim == dim) axes.push_back(axis);
    if (axes.size() < 2) continue;
    std::vector<int> positions(axes.size());
    std::iota(positions.begin(), positions.end(), 1);
    std::vector<NdSbp> more;
    while (std::next_permutation(positions.begin(), positions.end()))
      for (NdSbp order : orders) {
        for (std::size_t i = 0; i < axes.size(); ++i)
          order[axes[i]] = Sbp::split(dim, positions[i]);
        more.push_back(order);
      }
    orders.insert(orders.end(), more.begin(), more.end());
  }
  return orders;
}

bool is_reduction(const BoxingStep& step) {
  if (step.kind == BoxingKind::kCollective)
    return step.primitive == Primitive::kAllReduce || step.primitive == Primitive::kReduceScatter;
  return step.kind == BoxingKind::kTransfer &&
         std::any_of(step.from.begin(), step.from.end(),
                     [](const Sbp& word) { return word.is_partial(); });
}

bool is_partial_on(const NdSbp& words, const Placement& placement) {
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (words[axis].is_partial() && placement.axes[axis].extent > 1) return true;
  return false;
}

// Empty if words, element types and placements follow each other up to what is wanted.
std::string broken_chain(const BoxingRequest& request, const BoxingPlan& plan) {
  NdSbp words = request.from;
  DType dtype = request.type.dtype;
  bool on_target = *request.from_placement == *request.to_placement;
  for (const BoxingStep& step : plan.steps) {
    if (step.from != words || step.dtype != dtype) return "a step does not follow: ";
    if (step.kind != BoxingKind::kCast && step.dtype != step.to_dtype)
      return "another element type without a cast: ";
    const bool crosses = step.where == BoxingWhere::kBetween;
    if ((crosses && on_target) ||
        (step.where == BoxingWhere::kTarget) !=
            (on_target && !crosses && *request.from_placement != *request.to_placement))
      return "a step on the wrong placement: ";
    const Placement& before = on_target ? *request.to_placement : *request.from_placement;
    if (step.kind == BoxingKind::kCast && is_partial_on(step.from, before) &&
        !holds_every_value(step.to_dtype, step.dtype))
      return "partial values are rounded: ";
    if (is_reduction(step) && is_partial_on(step.from, before) &&
        step.dtype != reduction_type(request))
      return "a reduction in another type: ";
    if (step.kind == BoxingKind::kCollective)
      for (const std::size_t axis : step.group_axes)
        if (is_reduction(step) != step.from[axis].is_partial())
          return "a reduction over an axis that is not partial, or none over one that is: ";
    on_target = on_target || crosses;
    words = step.to;
    dtype = step.to_dtype;
  }
  if (dtype != request.to_dtype.value_or(request.type.dtype)) return "the wrong element type: ";
  if (!on_target) return "the target is not reached: ";
  if (!plan.steps.empty() && words != request.to) return "the wrong words: ";
  return "";
}

}  // namespace

Placement mesh_on(const std::vector<std::int64_t>& extents, const std::vector<int>& devices) {
  Placement placement;
  for (const std::int64_t extent : extents)
    placement.axes.push_back({"a" + std::to_string(placement.axes.size()), extent});
  for (const int device : devices) placement.ranks.emplace_back(device);
  return placement;
}

Placement mesh(const std::vector<std::int64_t>& extents, int first) {
  std::vector<int> devices(static_cast<std::size_t>(
      std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>())));
  std::iota(devices.begin(), devices.end(), first);
  return mesh_on(extents, devices);
}

std::vector<NdSbp> all_words(std::size_t axes, const std::vector<Sbp>& alphabet) {
  std::vector<NdSbp> words = testing::words_over(alphabet, axes);
  std::erase_if(words, has_two_reductions);
  std::vector<NdSbp> all;
  for (const NdSbp& plain : words)
    for (NdSbp& order : nesting_orders(plain)) all.push_back(std::move(order));
  return all;
}

std::vector<std::int64_t> interesting_extents(std::int64_t parts) {
  std::vector<std::int64_t> extents = {0, 1, parts - 1, parts, parts + 1, 7};
  std::sort(extents.begin(), extents.end());
  extents.erase(std::unique(extents.begin(), extents.end()), extents.end());
  return extents;
}

BoxingRequest request_by_bytes(const Shape& shape, const Placement& from_placement,
                               const NdSbp& from, const Placement& to_placement, const NdSbp& to) {
  return {.type = {shape, DType::kI64},
          .from_placement = &from_placement,
          .to_placement = &to_placement,
          .from = from,
          .to = to,
          .objective = BoxingObjective::kBytes};
}

BoxingPlan plan_by_bytes(const Shape& shape, const Placement& from_placement, const NdSbp& from,
                         const Placement& to_placement, const NdSbp& to) {
  return plan_boxing(request_by_bytes(shape, from_placement, from, to_placement, to));
}

std::int64_t bytes_of(const BoxingStep& step, const BoxingRequest& request) {
  std::int64_t total = 0;
  for (const PairBytes& pair : reference_volume(step, {request.type.shape, step.dtype},
                                                *request.from_placement, *request.to_placement))
    total += pair.bytes.value;
  return total;
}

std::string text_of(const BoxingRequest& request, const BoxingPlan& plan) {
  const auto devices = [](const Placement& placement) {
    std::string text;
    for (const Rank rank : placement.ranks) text += fmt::format(" {}", rank.value);
    return to_string(placement) + " on" + text;
  };
  std::string text = fmt::format("{}@{} -> {}@{} of {}, {} bytes:", to_string(request.from),
                                 devices(*request.from_placement), to_string(request.to),
                                 devices(*request.to_placement), to_string(request.type.shape),
                                 plan.total_bytes.value);
  for (const BoxingStep& step : plan.steps) text += " " + to_string(step) + ";";
  return text;
}

void check_plan(const BoxingRequest& request, const BoxingPlan& plan, std::int64_t largest) {
  const Placement &from = *request.from_placement, &to = *request.to_placement;
  const Shape& shape = request.type.shape;
  const std::string broken = broken_chain(request, plan);
  if (!broken.empty()) FAIL(broken << text_of(request, plan));
  std::mt19937_64 random(7);
  const Spread spread = oracle::spread(shape, request.from, from, random, largest);
  Held held = spread.held;
  std::int64_t bytes = 0;
  for (const BoxingStep& step : plan.steps) {
    Sent sent;
    held = execute(step, shape, held, from, to, sent);
    const std::int64_t element = size_of(step.dtype).value;
    const auto volume = reference_volume(step, {shape, step.dtype}, from, to);
    bool is_equal = volume.size() == sent.size();
    for (const PairBytes& pair : volume) {
      const auto counted = sent.find({pair.source, pair.destination});
      is_equal = is_equal && counted != sent.end() && counted->second * element == pair.bytes.value;
    }
    if (!is_equal) FAIL("the volume of " << to_string(step) << " in " << text_of(request, plan));
    for (const auto& [pair, elements] : sent) bytes += elements * element;
  }
  const std::string wrong = complaint(spread.global, held, shape, request.to, to);
  if (!wrong.empty() || bytes != plan.total_bytes.value)
    FAIL(wrong << ", " << bytes << " bytes moved: " << text_of(request, plan));
}

void check_boxing(const BoxingRequest& request, std::int64_t largest) {
  check_plan(request, plan_boxing(request), largest);
}

void check_boxing(const Shape& shape, const Placement& from_placement, const NdSbp& from,
                  const Placement& to_placement, const NdSbp& to) {
  check_boxing(request_by_bytes(shape, from_placement, from, to_placement, to));
}

}  // namespace sextant::oracle
