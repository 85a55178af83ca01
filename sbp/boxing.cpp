// What may be asked of the planner: words, meshes and element types that fit each other. Whatever
// is refused names both sides.
#include "sbp/boxing.h"

#include "core/base/check.h"
#include "core/costs/words_at.h"
#include "sbp/boxing_search.h"
#include "sbp/mesh_state.h"

#include <algorithm>
#include <optional>
#include <string>

namespace sextant {
namespace {

std::string dtype_text(const BoxingRequest& request) {
  const DType to = request.to_dtype.value_or(request.type.dtype);
  if (to == request.type.dtype) return std::string(to_string(to));
  return fmt::format("{} to {}", to_string(request.type.dtype), to_string(to));
}

[[noreturn]] void refuse(const BoxingRequest& request, ErrorCode code, const std::string& reason) {
  fail(code, "no boxing from {} to {} of {} ({}): {}",
       to_string(request.from, *request.from_placement),
       to_string(request.to, *request.to_placement), to_string(request.type.shape),
       dtype_text(request), reason);
}

std::string dims_of(const Shape& shape) {
  if (shape.rank() == 0) return "a scalar has no dims; legal are B and P";
  std::string text = "dims are 0";
  for (std::size_t dim = 1; dim < shape.rank(); ++dim) text += fmt::format(", {}", dim);
  return text;
}

std::string types_that_hold(DType narrow) {
  std::string text;
  for (const DType wide : kAllDTypes)
    if (holds_every_value(wide, narrow))
      text += (text.empty() ? "" : ", ") + std::string(to_string(wide));
  return text;
}

bool has_different_ranks(const Placement& placement) {
  const std::vector<Rank>& ranks = placement.ranks;
  if (std::is_sorted(ranks.begin(), ranks.end(), std::less_equal<>())) return true;
  std::vector<Rank> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

// What validate() refuses, without its price for a placement that is good.
bool is_good(const Placement& placement) {
  std::int64_t devices = 1;
  for (const MeshAxis& axis : placement.axes)
    if (axis.extent < 1 || __builtin_mul_overflow(devices, axis.extent, &devices)) return false;
  return devices == placement.size() && has_different_ranks(placement) &&
         std::all_of(placement.ranks.begin(), placement.ranks.end(),
                     [](Rank rank) { return rank.is_valid(); });
}

void check_placement(const BoxingRequest& request, const Placement& placement) {
  if (placement.axes.size() > kMaxMeshAxes)
    refuse(request, ErrorCode::kUsage,
           fmt::format("{} has {} mesh axes, at most {} are planned", to_string(placement),
                       placement.axes.size(), kMaxMeshAxes));
  if (is_good(placement)) return;
  try {
    validate(placement);
  } catch (const Error& error) {
    refuse(request, error.code(), error.what());
  }
}

std::optional<std::string> complaint_about(const NdSbp& words, const Placement& placement,
                                           const Shape& shape) {
  if (words.size() != placement.axes.size())
    return fmt::format("{} are {} words for {} mesh axes", to_string(words), words.size(),
                       placement.axes.size());
  for (const Sbp& word : words)
    if (word.is_split() && word.dim >= shape.rank())
      return fmt::format("{} splits dim {}; {}", to_string(words), word.dim, dims_of(shape));
  return std::nullopt;
}

std::optional<std::string> two_reductions(const NdSbp& words, const Placement& placement) {
  const Sbp* pending = nullptr;
  for (std::size_t axis = 0; axis < words.size(); ++axis) {
    if (!words[axis].is_partial() || placement.axes[axis].extent == 1) continue;
    if (pending != nullptr && pending->reduce != words[axis].reduce)
      return fmt::format(
          "{} holds two different reductions, whose order would change the value; one reduction on "
          "all partial axes is legal",
          to_string(words));
    pending = &words[axis];
  }
  return std::nullopt;
}

bool is_pending(const BoxingRequest& request) {
  for (std::size_t axis = 0; axis < request.from.size(); ++axis)
    if (request.from[axis].is_partial() && request.from_placement->axes[axis].extent > 1)
      return true;
  return false;
}

void check_words(const BoxingRequest& request, const NdSbp& words, const Placement& placement) {
  if (const auto wrong = complaint_about(words, placement, request.type.shape))
    refuse(request, ErrorCode::kUsage, *wrong);
  if (const auto wrong = two_reductions(words, placement))
    refuse(request, ErrorCode::kInfeasible, *wrong);
  try {
    require_clear_nesting(words);
  } catch (const Error& error) {
    refuse(request, error.code(), error.what());
  }
}

void check(const BoxingRequest& request) {
  check_placement(request, *request.from_placement);
  if (request.to_placement != request.from_placement)
    check_placement(request, *request.to_placement);
  check_words(request, request.from, *request.from_placement);
  check_words(request, request.to, *request.to_placement);
  const DType from = request.type.dtype;
  if (request.reduce_dtype && is_pending(request) &&
      !holds_every_value(*request.reduce_dtype, from))
    refuse(request, ErrorCode::kInfeasible,
           fmt::format("a reduction in {} would round the shares before they are added; legal are "
                       "types that hold every value of {}: {}",
                       to_string(*request.reduce_dtype), to_string(from), types_that_hold(from)));
}

// The search gives up where it would take minutes.
template <typename Search>
auto within_budget(const BoxingRequest& request, const Search& search) {
  try {
    return search();
  } catch (const OutOfWork&) {
    refuse(request, ErrorCode::kInfeasible,
           "too many ways to search through; fewer mesh axes, devices or dims have less, and so "
           "has a layout in between, or the fewest bytes instead of the least time");
  }
}

}  // namespace

BoxingPlan plan_boxing(const BoxingRequest& request) {
  check(request);
  std::optional<BoxingPlan> plan =
      within_budget(request, [&] { return BoxingSearch(request).best(); });
  if (!plan) refuse(request, ErrorCode::kInternal, "no sequence of steps was found");
  return *std::move(plan);
}

std::vector<BoxingPlan> plan_alternatives(const BoxingRequest& request, std::size_t limit) {
  check(request);
  std::vector<BoxingPlan> plans =
      within_budget(request, [&] { return BoxingSearch(request).alternatives(limit); });
  if (plans.empty()) refuse(request, ErrorCode::kInternal, "no sequence of steps was found");
  return plans;
}

}  // namespace sextant
