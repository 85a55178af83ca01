// Every pair of words on several numbers of devices, by bytes.
#include "experiments/boxing_volumes/boxing_volumes.h"

#include "core/costs/words_at.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"
#include "sbp/boxing.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

namespace sextant::boxing_volumes {

namespace {

constexpr std::int64_t kExtent = 240;  // both dims; every number of devices divides it
constexpr double kTensorBytes = 4.0 * kExtent * kExtent;

struct Devices {
  std::int64_t before, after;
  bool are_same;
};
constexpr std::array<Devices, 6> kDevices = {
    {{2, 2, true}, {4, 4, true}, {8, 8, true}, {2, 4, false}, {4, 2, false}, {4, 4, false}}};

struct Pair {
  const char* from;
  const char* to;
  // Bytes over those of the tensor, by the devices before and after.
  double (*same)(double before);
  double (*other)(double before, double after);
};

double nothing(double) { return 0; }
double once(double, double) { return 1; }
double per_reader(double, double after) { return after; }
double per_writer(double before, double) { return before; }

constexpr std::array<Pair, 10> kPairs = {
    {{"S(0)", "S(0)", nothing, once},
     {"S(0)", "S(1)", [](double before) { return (before - 1) / before; }, once},
     {"S(0)", "B", [](double before) { return before - 1; }, per_reader},
     {"S(0)", "P", nothing, once},
     {"B", "S(0)", nothing, once},
     {"B", "B", nothing, per_reader},
     {"B", "P", nothing, once},
     {"P", "S(0)", [](double before) { return before - 1; }, per_writer},
     {"P", "B", [](double before) { return 2 * (before - 1); },
      [](double before, double after) { return before + after - 1; }},
     {"P", "P", nothing, per_writer}}};

// "(S(0))@[d=2]", or the same on the devices behind.
std::string words_on(const std::string& word, std::int64_t devices, std::int64_t first) {
  return fmt::format("({})@[d={}]{{{}-{}}}", word, devices, first, first + devices - 1);
}

SweepPoint point_of(const Pair& pair, const Devices& devices) {
  const double before = static_cast<double>(devices.before),
               after = static_cast<double>(devices.after);
  const double published = devices.are_same ? pair.same(before) : pair.other(before, after);
  return {.name = fmt::format("{}->{} {}{}{}", pair.from, pair.to, devices.before,
                              devices.are_same ? "=" : "->", devices.after),
          .way = ResultWay::kCounted,
          .parameters = {{"from", words_on(pair.from, devices.before, 0)},
                         {"to",
                          words_on(pair.to, devices.after, devices.are_same ? 0 : devices.before)}},
          .reference = {{"bytes", published * kTensorBytes}}};
}

std::vector<SweepPoint> points(bool quick) {
  std::vector<SweepPoint> points;
  for (const Devices& devices : kDevices)
    for (const Pair& pair : kPairs)
      if (!quick || devices.before + devices.after <= 6) points.push_back(point_of(pair, devices));
  return points;
}

PointResult evaluate(const SweepPoint& point) {
  const WordsAt from = parse_words_at(word_of(point.parameters, "from"));
  const WordsAt to = parse_words_at(word_of(point.parameters, "to"));
  const BoxingPlan plan =
      plan_boxing({.type = {parse_shape(fmt::format("{0}x{0}", kExtent)), DType::kF32},
                   .from_placement = &from.placement,
                   .to_placement = &to.placement,
                   .from = from.words,
                   .to = to.words,
                   .objective = BoxingObjective::kBytes});
  return {.values = {{"bytes", static_cast<double>(plan.total_bytes.value)},
                     {"steps", static_cast<double>(plan.steps.size())}}};
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  ShapeClaim shape = {"every pair moves what the formula says", std::nullopt, "no row"};
  std::size_t equal = 0, known = 0;
  std::string first_other;
  for (const SweepRow& row : rows.all()) {
    const auto bytes = number_of(row.result.values, "bytes");
    const auto published = number_of(row.point.reference, "bytes");
    if (!bytes || !published) continue;
    ++known;
    if (std::abs(*bytes - *published) < 0.5)
      ++equal;
    else if (first_other.empty())
      first_other =
          fmt::format("; {} moves {:.0f}, published {:.0f}", row.point.name, *bytes, *published);
  }
  if (known == 0) return {shape};
  shape.holds = equal == known;
  shape.detail = fmt::format("{} of {} pairs{}", equal, known, first_other);
  return {shape};
}

}  // namespace

Experiment experiment() {
  return {.name = "boxing-volumes",
          .question =
              "How many bytes does boxing move between every two words (arXiv 2110.15032, "
              "table 2)?",
          .expectation = "the paper's formulas, to the byte",
          .baseline = "one transfer of all that each device needs",
          .columns = {{"bytes", "planned", "B", "bytes"}, {"steps", "steps", ""}},
          .points = points,
          .evaluate = evaluate,
          .shapes = shapes};
}

}  // namespace sextant::boxing_volumes
