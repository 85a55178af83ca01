// Pieces to bytes and back around one run of a boxing graph.
#include "tests/conformance/boxing_runner.h"

#include "actor/runtime.h"
#include "backends/cpu/elements.h"
#include "compiler/boxing_graph.h"
#include "compiler/boxing_host.h"
#include "core/check.h"
#include "simulator/cluster_file.h"
#include "simulator/models.h"
#include "simulator/simulate.h"
#include "tests/conformance/sharding.h"

#include <utility>

namespace sextant {
namespace {

LocalPiece packed(const Piece& piece) {
  LocalPiece local{piece.box.local_shape(), {}};
  local.bytes.resize(piece.values.size() *
                     static_cast<std::size_t>(size_of(piece.global.dtype).value));
  store_from_double(piece.global.dtype, piece.values, local.bytes.data());
  return local;
}

std::vector<LocalPiece> pieces_on_source(const BoxingCase& boxing, const Piece& tensor) {
  Random random(boxing.text());
  std::vector<LocalPiece> pieces;
  for (const Piece& piece : distribute(tensor, boxing.from, boxing.source.hierarchy(), random))
    pieces.push_back(packed(piece));
  return pieces;
}

Piece collect_on_target(const BoxingCase& boxing,
                        const std::vector<std::vector<std::byte>>& parts) {
  const TensorType type{boxing.type.shape, boxing.to_dtype.value_or(boxing.type.dtype)};
  const Hierarchy hierarchy = boxing.target.hierarchy();
  std::vector<Piece> pieces;
  for (std::size_t device = 0; device < parts.size(); ++device) {
    Piece piece{
        .global = type,
        .box = shard_of(type.shape, boxing.to, hierarchy, boxing.target.coordinates_of(device)),
        .values = {}};
    piece.values.resize(static_cast<std::size_t>(piece.box.local_shape().elements()));
    require(parts[device].size() ==
                piece.values.size() * static_cast<std::size_t>(size_of(type.dtype).value),
            ErrorCode::kInternal, "device {} holds {} bytes for {}", device, parts[device].size(),
            to_string(piece.box.local_shape()));
    load_as_double(type.dtype, parts[device].data(), piece.values);
    pieces.push_back(std::move(piece));
  }
  return collect(pieces, boxing.to, hierarchy);
}

BoxingOutcome run_graph(const PhysicalGraph& graph, const BoxingCase& boxing, const Piece& tensor,
                        const CpuOptions& options, std::int64_t repetitions) {
  BoxingHost host(boxing.request(), pieces_on_source(boxing, tensor));
  CpuWorld world(graph, options);
  run_all(graph, world.devices(), host, repetitions);
  BoxingOutcome outcome{collect_on_target(boxing, host.results()), world.moved_bytes()};
  for (PairBytes& pair : outcome.moved) pair.bytes = Bytes(pair.bytes.value / repetitions);
  return outcome;
}

// Small integers are exact in every type but bool.
std::vector<double> cast_values(const Piece& tensor, DType dtype) {
  std::vector<double> values = tensor.values;
  if (dtype == DType::kBool)
    for (double& value : values) value = value != 0 ? 1 : 0;
  return values;
}

std::string text_of(const std::vector<PairBytes>& pairs) {
  std::string text;
  for (const PairBytes& pair : pairs)
    text += fmt::format(" {}->{}:{}", pair.source.value, pair.destination.value, pair.bytes.value);
  return text.empty() ? " nothing" : text;
}

std::string text_of(std::span<const BoxingStep> steps) {
  std::string text;
  for (const BoxingStep& step : steps) text += "\n  " + to_string(step);
  return text;
}

}  // namespace

BoxingRequest BoxingCase::request() const {
  BoxingRequest request;
  request.type = type;
  request.from_placement = &source;
  request.to_placement = &target;
  request.from = from;
  request.to = to;
  request.to_dtype = to_dtype;
  request.objective = objective;
  return request;
}

std::string BoxingCase::text() const {
  return fmt::format("{} {}: {}@{} {} -> {}@{} {} {}", to_string(type.shape), to_string(type.dtype),
                     to_string(from), to_string(source), device_list(source.ranks), to_string(to),
                     to_string(target), device_list(target.ranks),
                     to_string(to_dtype.value_or(type.dtype)));
}

Piece small_integers(const TensorType& type) {
  Piece tensor = blank(type);
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    const std::size_t value = (i * 7 + i / 41) % 41;
    tensor.values[i] = type.dtype == DType::kBool ? static_cast<double>(value % 2)
                                                  : static_cast<double>(value) - 20;
  }
  return tensor;
}

BoxingOutcome run_boxing(const BoxingCase& boxing, std::span<const BoxingStep> steps,
                         const Piece& tensor, const CpuOptions& options, std::int64_t repetitions) {
  return run_graph(make_boxing_graph(boxing.request(), steps), boxing, tensor, options,
                   repetitions);
}

std::vector<PairBytes> planned_bytes(const BoxingCase& boxing, std::span<const BoxingStep> steps) {
  Traffic traffic;
  for (const BoxingStep& step : steps)
    for (const PairBytes& pair :
         reference_volume(step, {boxing.type.shape, step.dtype}, boxing.source, boxing.target))
      traffic[{pair.source, pair.destination}] += pair.bytes;
  return pairs_of(traffic);
}

std::vector<PairBytes> simulated_bytes(const PhysicalGraph& graph) {
  static const Cluster cluster = load_cluster("cpu:ranks=64");
  static const auto cost = make_roofline(cluster, DType::kF32);
  static const auto network = make_alpha_beta(cluster);
  SimulateOptions options;
  options.keep_traffic = true;
  options.steps = 2;
  return simulate(graph, *cost, *network, options).traffic;
}

namespace {

std::string fault_of(const BoxingCase& boxing, std::span<const BoxingStep> steps,
                     const CpuOptions& options, std::int64_t repetitions) {
  const PhysicalGraph graph = make_boxing_graph(boxing.request(), steps);
  if (const std::vector<std::string> broken = validate(graph); !broken.empty())
    return "the graph is invalid: " + broken.front();
  const Piece tensor = small_integers(boxing.type);
  const BoxingOutcome outcome = run_graph(graph, boxing, tensor, options, repetitions);
  if (outcome.found.values != cast_values(tensor, outcome.found.global.dtype))
    return "other values arrived";
  const std::vector<PairBytes> planned = planned_bytes(boxing, steps);
  if (outcome.moved != planned)
    return fmt::format("moved{}, planned{}", text_of(outcome.moved), text_of(planned));
  const std::vector<PairBytes> simulated = simulated_bytes(graph);
  if (simulated != planned)
    return fmt::format("simulated{}, planned{}", text_of(simulated), text_of(planned));
  return {};
}

}  // namespace

std::string fault_of(const BoxingCase& boxing, const CpuOptions& options,
                     std::int64_t repetitions) {
  std::string steps_text;
  try {
    const std::vector<BoxingStep> steps = plan_boxing(boxing.request()).steps;
    steps_text = text_of(steps);
    const std::string fault = fault_of(boxing, steps, options, repetitions);
    return fault.empty() ? fault : fmt::format("{}{}\n{}", boxing.text(), steps_text, fault);
  } catch (const std::exception& error) {
    return fmt::format("{}{}\nthrew: {}", boxing.text(), steps_text, error.what());
  }
}

}  // namespace sextant
