// Pieces to the oracle's integers and back; infinities and other neutral elements are its own.
#include "tests/conformance/signatures/signature_boxing.h"

#include "sbp/boxing.h"
#include "tests/sbp/boxing_oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace sextant {
namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::lowest(),
                       kHighest = std::numeric_limits<std::int64_t>::max();

double scale_of(DType dtype) { return is_floating(dtype) ? 0x1p40 : 1; }

// Only what never decides a reduction is as large as 2^61: neutral elements of a narrower integer
// type, cast to a floating one.
std::int64_t encoded(double value, DType dtype) {
  if (value == neutral(ReduceOp::kMax, dtype) && dtype != DType::kBool) return kLowest;
  if (value == neutral(ReduceOp::kMin, dtype) && dtype != DType::kBool) return kHighest;
  return std::llround(std::clamp(value * scale_of(dtype), -0x1p61, 0x1p61));
}

double decoded(std::int64_t value, DType dtype) {
  if (value == kLowest) return neutral(ReduceOp::kMax, dtype);
  if (value == kHighest) return neutral(ReduceOp::kMin, dtype);
  return static_cast<double>(value) / scale_of(dtype);
}

}  // namespace

std::vector<Piece> box_by_plan(const std::vector<Piece>& pieces, const NdSbp& from, const NdSbp& to,
                               const Placement& placement) {
  const TensorType type = pieces[0].global;
  oracle::Held held(pieces.size());
  for (std::size_t device = 0; device < pieces.size(); ++device) {
    const std::vector<std::int64_t> indices = oracle::indices_of(pieces[device].box, type.shape);
    for (std::size_t i = 0; i < indices.size(); ++i)
      held[device][indices[i]] = encoded(pieces[device].values[i], type.dtype);
  }
  const BoxingPlan plan = plan_boxing({.type = type,
                                       .from_placement = &placement,
                                       .to_placement = &placement,
                                       .from = from,
                                       .to = to,
                                       .to_dtype = std::nullopt,
                                       .reduce_dtype = std::nullopt,
                                       .objective = BoxingObjective::kBytes,
                                       .network = nullptr});
  oracle::Sent sent;
  for (const BoxingStep& step : plan.steps)
    held = oracle::execute(step, type.shape, held, placement, placement, sent);
  std::vector<Piece> boxed;
  for (std::size_t device = 0; device < held.size(); ++device) {
    Piece piece{
        .global = type,
        .box = shard_of(type.shape, to, placement.hierarchy(), placement.coordinates_of(device)),
        .values = {}};
    for (const std::int64_t index : oracle::indices_of(piece.box, type.shape))
      piece.values.push_back(decoded(held[device].at(index), type.dtype));
    boxed.push_back(std::move(piece));
  }
  return boxed;
}

}  // namespace sextant
