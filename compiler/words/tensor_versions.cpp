// Which version a reader takes, and how one that is missing is made from those that are there.
#include "compiler/words/tensor_versions.h"

#include "core/base/check.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

// Order of the phases within a step; sinks come last.
int place_in_step(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return 0;
    case Phase::kRecompute:
      return 1;
    case Phase::kInputGrad:
      return 2;
    case Phase::kWeightGrad:
      return 3;
    case Phase::kOptimizer:
    case Phase::kCommunication:
      return 4;
    case Phase::kData:
      return 5;
  }
  return 5;
}

bool is_backward(Phase phase) { return phase == Phase::kInputGrad || phase == Phase::kWeightGrad; }

}  // namespace

TensorVersions::TensorVersions(const StageFacts& facts, const std::vector<Placement>& placements,
                               BoxingPlans& plans, StagedGraph& staged)
    : facts_(facts), plans_(plans), staged_(staged), versions_(facts.graph().tensors().size()) {
  for (const Placement& placement : placements) meshes_.push_back(plans_.placement(placement));
  for (const LogicalTensor& tensor : facts.graph().tensors())
    types_.push_back(plans_.type(tensor.type));
}

StagedTensorId TensorVersions::read(TensorId id, const NdSbp& words, const StageReader& reader) {
  const VersionId version = find_or_make(id, facts_.state(words, reader.stage, id), reader);
  return versions_[id][version].tensor;
}

VersionReaders TensorVersions::readers_of(TensorId id, const StageReader& reader) const {
  if (reader.rate == Rate::kPerStep && facts_.rate_of(id) == Rate::kPerMicroBatch)
    return VersionReaders::kPerStep;
  if (reader.rate == Rate::kPerStep || !facts_.is_boxed_per_use(id)) return lasting_readers(id);
  return reader.phase == Phase::kForward ? VersionReaders::kForward : VersionReaders::kBackward;
}

std::optional<VersionId> TensorVersions::find(TensorId id, const MeshState& wanted,
                                              VersionReaders readers,
                                              const StageReader& reader) const {
  const Table<VersionId, TensorVersion>& versions = versions_[id];
  const auto found =
      std::find_if(versions.begin(), versions.end(), [&](const TensorVersion& version) {
        return version.stage == reader.stage && version.readers == readers &&
               version.state == wanted && (!is_per_use(readers) || version.layer == reader.layer);
      });
  if (found == versions.end()) return std::nullopt;
  return versions.key_of(found);
}

VersionId TensorVersions::find_or_make(TensorId id, const MeshState& wanted,
                                       const StageReader& reader) {
  const VersionReaders readers = readers_of(id, reader);
  if (readers == VersionReaders::kPerStep) add_accumulator(id);
  if (is_per_use(readers)) bring_to_stage(id, reader);
  std::optional<VersionId> version = find(id, wanted, readers, reader);
  if (!version && is_per_use(readers)) version = find(id, wanted, lasting_readers(id), reader);
  if (!version) version = make(id, wanted, readers, reader);
  raise_phase(id, *version, reader.phase);
  return *version;
}

// Another stage gets what all uses there start from, in the words of the original, once.
void TensorVersions::bring_to_stage(TensorId id, const StageReader& reader) {
  const VersionReaders lasting = lasting_readers(id);
  const Table<VersionId, TensorVersion>& versions = versions_[id];
  const bool is_there =
      std::any_of(versions.begin(), versions.end(), [&](const TensorVersion& version) {
        return version.stage == reader.stage && version.readers == lasting;
      });
  if (!is_there) make(id, versions.front().state, lasting, reader);
}

// Sums over the step where the producer itself cannot: others read its values in every
// micro-batch, or the sum is taken in other words.
void TensorVersions::add_accumulator(TensorId id) {
  Table<VersionId, TensorVersion>& versions = versions_[id];
  if (std::any_of(versions.begin(), versions.end(), [](const TensorVersion& version) {
        return version.readers == VersionReaders::kPerStep;
      }))
    return;
  const LogicalOp& op = facts_.producer(id);
  const TensorVersion original = versions.front();
  const StageReader reader{facts_.logical(id).producer, original.stage, op.layer, op.phase,
                           Rate::kPerMicroBatch};
  BoxingChain chain{.id = id,
                    .reader = &reader,
                    .memory = MemoryClass::kGradients,
                    .tensor = original.tensor,
                    .stage = original.stage,
                    .virtual_stage = original.virtual_stage,
                    .made_by = {}};
  BoxingStep copy;
  copy.kind = BoxingKind::kLocal;
  copy.from = copy.to = staged_.tensors[original.tensor].words;
  const NdSbp& made = staged_.tensors[original.tensor].words;
  const MeshState sum = facts_.state(facts_.words_of_sum(id, made), original.stage, id);
  std::vector<BoxingStep> steps = plan(id, original, original.stage, sum).steps;
  if (steps.empty()) steps = {copy};
  for (std::size_t i = 0; i < steps.size(); ++i)
    append_step(facts_, chain, steps[i], i + 1 == steps.size(), staged_);
  TensorVersion accumulator = original;
  accumulator.tensor = chain.tensor;
  accumulator.state = sum;
  accumulator.readers = VersionReaders::kPerStep;
  versions.push_back(std::move(accumulator));
}

VersionId TensorVersions::make(TensorId id, const MeshState& wanted, VersionReaders readers,
                               const StageReader& reader) {
  Table<VersionId, TensorVersion>& versions = versions_[id];
  std::optional<VersionId> best;
  const BoxingPlan* best_plan = nullptr;
  // Equal words pass between single pairs of ranks, so they win where costs are equal.
  const auto cost = [&](const BoxingPlan& plan, const TensorVersion& from) {
    return std::tuple(plan.time, plan.total_bytes, plan.steps.size(), from.state != wanted);
  };
  const auto serves = [&](const TensorVersion& version) {
    if (!is_per_use(readers)) return version.readers == readers;
    return version.stage == reader.stage &&
           (version.readers == lasting_readers(id) ||
            (version.readers == readers && version.layer == reader.layer));
  };
  for (const VersionId i : versions.keys()) {
    if (!serves(versions[i])) continue;
    const BoxingPlan& candidate = plan(id, versions[i], reader.stage, wanted);
    if (best && cost(candidate, versions[i]) >= cost(*best_plan, versions[*best])) continue;
    best = i;
    best_plan = &candidate;
  }
  const TensorVersion source = versions[*best];
  const bool crosses = source.stage != reader.stage;
  if (crosses) require_direction(id, source, reader);
  raise_phase(id, *best, reader.phase);
  BoxingChain chain{.id = id,
                    .reader = &reader,
                    .rate = readers == VersionReaders::kPerMicroBatch || is_per_use(readers)
                                ? Rate::kPerMicroBatch
                                : Rate::kPerStep,
                    .before_transfer = crosses,
                    .memory = readers == VersionReaders::kPerStep ? MemoryClass::kGradients
                                                                  : facts_.memory_of(id),
                    .tensor = source.tensor,
                    .stage = source.stage,
                    .virtual_stage = source.virtual_stage,
                    .made_by = {}};
  const auto add_version = [&](VersionId made_from) {
    TensorVersion made;
    made.tensor = chain.tensor;
    made.stage = chain.stage;
    made.virtual_stage = chain.virtual_stage;
    made.state = facts_.state(staged_.tensors[chain.tensor].words, chain.stage, id);
    made.readers = readers;
    made.layer = reader.layer;
    made.made_by = std::move(chain.made_by);
    made.source = made_from;
    return versions.add(std::move(made));
  };
  for (std::size_t i = 0; i < best_plan->steps.size(); ++i) {
    const bool is_last = i + 1 == best_plan->steps.size();
    const bool leaves = !is_last && best_plan->steps[i + 1].kind == BoxingKind::kTransfer;
    append_step(facts_, chain, best_plan->steps[i], is_last || leaves, staged_);
    // What is about to leave the stage serves readers there as well.
    if (leaves) add_version(*best);
  }
  return add_version(crosses ? VersionId::none : *best);
}

// Within a micro-batch, forward values go to later virtual stages and gradients to earlier ones.
void TensorVersions::require_direction(TensorId id, const TensorVersion& source,
                                       const StageReader& reader) const {
  if (facts_.rate_of(id) == Rate::kPerStep || reader.rate == Rate::kPerStep) return;
  const LogicalOp& from = facts_.producer(id);
  const bool gradient = is_backward(from.phase);
  const int here = facts_.virtual_stage_of(reader.layer), there = source.virtual_stage;
  const bool wrong = gradient ? there < here : reader.phase == Phase::kForward && there > here;
  const bool is_virtual = here != reader.stage || there != source.stage;
  require(!wrong, ErrorCode::kInfeasible,
          "operator '{}' on {}stage {} reads '{}' of operator '{}' on {}stage {}: {} only pass to "
          "{} stages",
          facts_.graph().op(reader.op).name, is_virtual ? "virtual " : "", here,
          facts_.logical(id).name, from.name, is_virtual ? "virtual " : "", there,
          gradient ? "gradients" : "forward values", gradient ? "earlier" : "later");
}

// A boxing that several readers share acts as early as the first of them in the step needs it.
void TensorVersions::raise_phase(TensorId id, VersionId version, Phase phase) {
  if (phase == Phase::kData || facts_.is_late(id)) return;
  while (version.is_valid()) {
    const TensorVersion& raised = versions_[id][version];
    for (const StagedOpId made_by : raised.made_by) {
      StagedOp& op = staged_.ops[made_by];
      if (place_in_step(phase) < place_in_step(op.phase)) op.phase = phase;
    }
    version = raised.source;
  }
}

}  // namespace sextant
