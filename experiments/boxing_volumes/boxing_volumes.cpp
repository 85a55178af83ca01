// Every pair of words on several numbers of devices, by bytes.
#include "experiments/boxing_volumes/boxing_volumes.h"

#include "actor/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "compiler/expand/boxing_graph.h"
#include "compiler/expand/boxing_host.h"
#include "core/costs/words_at.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"
#include "sbp/boxing.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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

// Of zeros: bytes do not depend on values.
std::vector<LocalPiece> pieces_of(const BoxingRequest& request) {
  const Placement& placement = *request.from_placement;
  std::vector<LocalPiece> pieces;
  for (std::size_t device = 0; device < placement.ranks.size(); ++device) {
    const Shape shape = shard_of(request.type.shape, request.from, placement.hierarchy(),
                                 placement.coordinates_of(device))
                            .local_shape();
    pieces.push_back({.shape = shape, .bytes = {}});
    pieces.back().bytes.resize(
        static_cast<std::size_t>(size_of({shape, request.type.dtype}).value));
  }
  return pieces;
}

// What CPU ranks send each other when they take the steps of the plan.
double counted_bytes(const BoxingRequest& request, const BoxingPlan& plan) {
  const PhysicalGraph graph = make_boxing_graph(request, plan.steps);
  BoxingHost host(request, pieces_of(request));
  CpuOptions options;
  options.threads_per_rank = 1;
  CpuWorld world(graph, options);
  const std::vector<Device*> devices = world.devices();
  run_all(graph, devices, host, 1);
  Bytes moved;
  for (const PairBytes& pair : world.moved_bytes()) moved += pair.bytes;
  return static_cast<double>(moved.value);
}

PointResult evaluate(const SweepPoint& point) {
  const WordsAt from = parse_words_at(word_of(point.parameters, "from"));
  const WordsAt to = parse_words_at(word_of(point.parameters, "to"));
  const BoxingRequest request = {
      .type = {parse_shape(fmt::format("{0}x{0}", kExtent)), DType::kF32},
      .from_placement = &from.placement,
      .to_placement = &to.placement,
      .from = from.words,
      .to = to.words,
      .objective = BoxingObjective::kBytes};
  const BoxingPlan plan = plan_boxing(request);
  return {.values = {{"bytes", static_cast<double>(plan.total_bytes.value)},
                     {"counted_bytes", counted_bytes(request, plan)},
                     {"steps", static_cast<double>(plan.steps.size())}}};
}

// Of every row, the value beside the formula.
ShapeClaim equal_to_formula(const ResultRows& rows, std::string statement, const char* key) {
  ShapeClaim shape = {std::move(statement), std::nullopt, "no row"};
  std::size_t equal = 0, known = 0;
  std::string first_other;
  for (const SweepRow& row : rows.all()) {
    const auto bytes = number_of(row.result.values, key);
    const auto published = number_of(row.point.reference, "bytes");
    if (!bytes || !published) continue;
    ++known;
    if (std::abs(*bytes - *published) < 0.5)
      ++equal;
    else if (first_other.empty())
      first_other =
          fmt::format("; {} moves {:.0f}, published {:.0f}", row.point.name, *bytes, *published);
  }
  if (known == 0) return shape;
  shape.holds = equal == known;
  shape.detail = fmt::format("{} of {} pairs{}", equal, known, first_other);
  return shape;
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  return {equal_to_formula(rows, "every pair moves what the formula says", "bytes"),
          equal_to_formula(rows, "CPU ranks that do it count the same", "counted_bytes")};
}

}  // namespace

Experiment experiment() {
  return {.name = "boxing-volumes",
          .question =
              "How many bytes does boxing move between every two words (arXiv 2110.15032, "
              "table 2)?",
          .expectation = "the paper's formulas, to the byte",
          .baseline = "one transfer of all that each device needs",
          .columns = {{"bytes", "planned", "B", "bytes"},
                      {"counted_bytes", "counted", "B", "bytes"},
                      {"steps", "steps", ""}},
          .points = points,
          .evaluate = evaluate,
          .shapes = shapes};
}

}  // namespace sextant::boxing_volumes
