// Pieces to bytes and back around one run of a boxing graph.
#include "tests/conformance/operators/boxing_runner.h"

#include "actor/bytes/byte_order.h"
#include "actor/runtime.h"
#include "compiler/expand/boxing_graph.h"
#include "compiler/expand/boxing_host.h"
#include "core/base/check.h"
#include "core/base/elements.h"
#include "core/costs/words_at.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "tests/conformance/operators/sharding.h"

#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

namespace sextant {
namespace {

// Of a machine with more ranks than any case has devices.
struct Models {
  Cluster cluster = load_cluster("cpu:ranks=64,memory=2GiB");
  std::unique_ptr<CostModel> cost = make_roofline(cluster, DType::kF32);
  std::unique_ptr<NetworkModel> network = make_alpha_beta(cluster);
};

const Models& models() {
  static const Models given;
  return given;
}

// No value of any tensor of these tests.
constexpr double kNothing = 12345678;

LocalPiece packed(const Piece& piece) {
  LocalPiece local{piece.box.local_shape(), {}};
  local.bytes.resize(piece.values.size() *
                     static_cast<std::size_t>(size_of(piece.global.dtype).value));
  store_from_double(piece.global.dtype, piece.values, local.bytes.data());
  return local;
}

Piece unpacked(const std::vector<std::byte>& bytes, const TensorType& global, const Shard& box) {
  Piece piece{.global = global, .box = box, .values = {}};
  piece.values.resize(static_cast<std::size_t>(box.local_shape().elements()));
  const std::size_t wanted =
      piece.values.size() * static_cast<std::size_t>(size_of(global.dtype).value);
  require(bytes.size() == wanted, ErrorCode::kInternal, "{} bytes for {}", bytes.size(),
          to_string(box.local_shape()));
  load_as_double(global.dtype, bytes.data(), piece.values);
  return piece;
}

// The partial axes of a placement: a share is what the devices at one position along them hold.
struct ShareTable {
  NdSbp words;
  Hierarchy hierarchy;
  std::vector<std::size_t> of_device;

  ShareTable(const NdSbp& all, const Placement& placement) {
    of_device.assign(placement.ranks.size(), 0);
    for (std::size_t axis = 0; axis < all.size(); ++axis) {
      if (!all[axis].is_partial()) continue;
      words.push_back(all[axis]);
      hierarchy.push_back(placement.axes[axis].extent);
      for (std::size_t device = 0; device < of_device.size(); ++device)
        of_device[device] = of_device[device] * static_cast<std::size_t>(hierarchy.back()) +
                            static_cast<std::size_t>(placement.coordinates_of(device)[axis]);
    }
  }
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::accumulate(hierarchy.begin(), hierarchy.end(), std::int64_t{1}, std::multiplies<>()));
  }
};

// Adds a part to what other devices hold of the same share: NaN where they differ.
void join(const Piece& part, Piece& share) {
  Piece known = cut(share, part.box);
  for (std::size_t i = 0; i < known.values.size(); ++i) {
    const bool is_new = known.values[i] == kNothing;
    known.values[i] = is_new || known.values[i] == part.values[i] ? part.values[i] : std::nan("");
  }
  paste(known, share);
}

Piece collected(const std::vector<Piece>& pieces, const NdSbp& words, const Placement& placement) {
  const ShareTable shares(words, placement);
  const Piece nothing = whole(
      pieces[0].global,
      std::vector<double>(static_cast<std::size_t>(pieces[0].global.shape.elements()), kNothing));
  std::vector<Piece> whole_shares(shares.count(), nothing);
  for (std::size_t device = 0; device < pieces.size(); ++device)
    join(pieces[device], whole_shares[shares.of_device[device]]);
  return shares.words.empty() ? whole_shares[0]
                              : collect(whole_shares, shares.words, shares.hierarchy);
}

BoxingOutcome run_graph(const PhysicalGraph& graph, const BoxingCase& boxing,
                        const std::vector<Piece>& pieces, const BoxingBackend& backend,
                        std::int64_t repetitions) {
  std::vector<LocalPiece> brought;
  for (const Piece& piece : pieces) brought.push_back(packed(piece));
  BoxingHost host(boxing.request(), std::move(brought));
  const std::unique_ptr<BoxingDevices> world = backend.make(graph);
  run_all(graph, world->devices(), host, repetitions);
  const TensorType type{boxing.type.shape, boxing.to_dtype.value_or(boxing.type.dtype)};
  const Hierarchy hierarchy = boxing.target.hierarchy();
  BoxingOutcome outcome;
  for (std::size_t device = 0; device < host.results().size(); ++device)
    outcome.pieces.push_back(
        unpacked(host.results()[device], type,
                 shard_of(type.shape, boxing.to, hierarchy, boxing.target.coordinates_of(device))));
  outcome.found = collected(outcome.pieces, boxing.to, boxing.target);
  outcome.moved = world->moved_bytes();
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

// What the exchanges of scripts move together: the plan's bytes, but inputs are gathered where the
// largest or smallest of floats is all-reduced (invariant 6 of core/collective_script).
std::int64_t scripted_bytes(const BoxingCase& boxing, std::span<const BoxingStep> steps) {
  std::int64_t bytes = 0;
  for (const BoxingStep& step : steps) {
    std::int64_t planned = 0;
    for (const PairBytes& pair :
         reference_volume(step, {boxing.type.shape, step.dtype}, boxing.source, boxing.target))
      planned += pair.bytes.value;
    const Placement& placement = step.where == BoxingWhere::kTarget ? boxing.target : boxing.source;
    std::int64_t members = 1;
    for (const std::size_t axis : step.group_axes) members *= placement.axes[axis].extent;
    const bool gathers = step.kind == BoxingKind::kCollective &&
                         step.primitive == Primitive::kAllReduce && step.reduce != ReduceOp::kSum &&
                         is_floating(step.dtype);
    // n (n - 1) instead of 2 (n - 1).
    bytes += gathers ? planned * members / 2 : planned;
  }
  return bytes;
}

std::int64_t sum_of(const std::vector<PairBytes>& pairs) {
  std::int64_t bytes = 0;
  for (const PairBytes& pair : pairs) bytes += pair.bytes.value;
  return bytes;
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

std::string fault_in(const PhysicalGraph& graph) {
  for (const std::string& broken : validate(graph)) return "the graph is invalid: " + broken;
  for (const ProgramId program : graph.programs.keys())
    for (const std::string& unordered : check_byte_order(graph, program)) return unordered;
  return {};
}

std::string fault_in(const BoxingCase& boxing, std::span<const BoxingStep> steps,
                     const BoxingBackend& backend, std::int64_t repetitions) {
  const PhysicalGraph graph = make_boxing_graph(boxing.request(), steps);
  if (std::string fault = fault_in(graph); !fault.empty()) return fault;
  const Piece tensor = small_integers(boxing.type);
  const BoxingOutcome outcome =
      run_graph(graph, boxing, pieces_on_source(boxing, tensor), backend, repetitions);
  if (outcome.found.values != cast_values(tensor, outcome.found.global.dtype))
    return "other values arrived";
  if (backend.by_scripts) {
    const std::int64_t moved = sum_of(outcome.moved), scripted = scripted_bytes(boxing, steps);
    return moved == scripted ? std::string()
                             : fmt::format("scripts moved {} bytes, not {}", moved, scripted);
  }
  const std::vector<PairBytes> planned = planned_bytes(boxing, steps);
  if (outcome.moved != planned)
    return fmt::format("moved{}, planned{}", text_of(outcome.moved), text_of(planned));
  for (const SimulationMode mode : {SimulationMode::kTape, SimulationMode::kStep})
    if (const auto simulated = simulated_bytes(graph, mode); simulated != planned)
      return fmt::format("simulated{}, planned{}", text_of(simulated), text_of(planned));
  return {};
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
  request.reduce_dtype = reduce_dtype;
  request.objective = objective;
  if (objective == BoxingObjective::kTime) request.network = models().network.get();
  return request;
}

std::string BoxingCase::text() const {
  return fmt::format("{} {}: {} -> {} {}", to_string(type.shape), to_string(type.dtype),
                     to_string(from, source), to_string(to, target),
                     to_string(to_dtype.value_or(type.dtype)));
}

// Of bytes none is negative.
Piece small_integers(const TensorType& type) {
  Piece tensor = blank(type);
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    const std::size_t value = (i * 7 + i / 41) % 41;
    tensor.values[i] = type.dtype == DType::kBool ? static_cast<double>(value % 2)
                       : type.dtype == DType::kU8 ? static_cast<double>(value)
                                                  : static_cast<double>(value) - 20;
  }
  return tensor;
}

std::vector<Piece> pieces_on_source(const BoxingCase& boxing, const Piece& tensor) {
  Random random(boxing.text());
  const ShareTable shares(boxing.from, boxing.source);
  const std::vector<Piece> whole_shares =
      shares.words.empty() ? std::vector{tensor}
                           : distribute(tensor, shares.words, shares.hierarchy, random);
  std::vector<Piece> pieces;
  for (std::size_t device = 0; device < boxing.source.ranks.size(); ++device)
    pieces.push_back(cut(whole_shares[shares.of_device[device]],
                         shard_of(boxing.type.shape, boxing.from, boxing.source.hierarchy(),
                                  boxing.source.coordinates_of(device))));
  return pieces;
}

BoxingOutcome run_boxing(const BoxingCase& boxing, std::span<const BoxingStep> steps,
                         const std::vector<Piece>& pieces, const CpuOptions& options,
                         std::int64_t repetitions) {
  return run_boxing_on(cpu_boxing_backend(options), boxing, steps, pieces, repetitions);
}

BoxingOutcome run_boxing_on(const BoxingBackend& backend, const BoxingCase& boxing,
                            std::span<const BoxingStep> steps, const std::vector<Piece>& pieces,
                            std::int64_t repetitions) {
  return run_graph(make_boxing_graph(boxing.request(), steps), boxing, pieces, backend,
                   repetitions);
}

BoxingBackend cpu_boxing_backend(const CpuOptions& options) {
  return {[options](const PhysicalGraph& graph) {
            return std::make_unique<BoxingWorld<CpuWorld>>(graph, options);
          },
          options.collectives == CpuCollectives::kScripts};
}

std::vector<PairBytes> planned_bytes(const BoxingCase& boxing, std::span<const BoxingStep> steps) {
  Traffic traffic;
  for (const BoxingStep& step : steps)
    for (const PairBytes& pair :
         reference_volume(step, {boxing.type.shape, step.dtype}, boxing.source, boxing.target))
      traffic[{pair.source, pair.destination}] += pair.bytes;
  return pairs_of(traffic);
}

std::vector<PairBytes> simulated_bytes(const PhysicalGraph& graph, SimulationMode mode) {
  SimulateOptions options;
  options.mode = mode;
  options.keep_traffic = true;
  options.steps = 2;
  return simulate(graph, *models().cost, *models().network, options).traffic;
}

namespace {

std::string fault_of_steps(const BoxingBackend& backend, const BoxingCase& boxing,
                           std::span<const BoxingStep> steps, std::int64_t repetitions) {
  std::string fault;
  try {
    fault = fault_in(boxing, steps, backend, repetitions);
  } catch (const std::exception& error) {
    fault = fmt::format("threw: {}", error.what());
  }
  return fault.empty() ? fault : fmt::format("{}{}\n{}", boxing.text(), text_of(steps), fault);
}

}  // namespace

std::string fault_of(const BoxingCase& boxing, std::span<const BoxingStep> steps,
                     const CpuOptions& options, std::int64_t repetitions) {
  return fault_of_steps(cpu_boxing_backend(options), boxing, steps, repetitions);
}

std::string fault_on(const BoxingBackend& backend, const BoxingCase& boxing,
                     std::int64_t repetitions) {
  std::vector<BoxingStep> steps;
  try {
    steps = plan_boxing(boxing.request()).steps;
  } catch (const std::exception& error) {
    return fmt::format("{}\nhas no plan: {}", boxing.text(), error.what());
  }
  return fault_of_steps(backend, boxing, steps, repetitions);
}

std::string fault_of(const BoxingCase& boxing, const CpuOptions& options,
                     std::int64_t repetitions) {
  return fault_on(cpu_boxing_backend(options), boxing, repetitions);
}

}  // namespace sextant
