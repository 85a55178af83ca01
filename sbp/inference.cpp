// The cheapest product of rows per operator, in topological order. Equal situations (kind, types,
// attributes, words of the inputs) are decided once, so a hundred equal layers cost like one.
#include "sbp/inference.h"

#include "core/base/check.h"
#include "sbp/boxing_plans.h"
#include "sbp/given_words.h"
#include "sbp/inference_parts.h"
#include "sbp/key.h"
#include "sbp/mesh_state.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

namespace sextant {
namespace {

// Goes through the operators; what it asks of their candidates is in inference_parts.h.
class Inference {
 public:
  Inference(const LogicalGraph& graph, const std::vector<Placement>& stages,
            const std::vector<int>& stage_of_layer, const WordConstraints& constraints,
            BoxingPlans& plans)
      : scene_{graph, stages, stage_of_layer, constraints,
               GivenWords(graph, stages, stage_of_layer, constraints)},
        boxed_{plans} {
    Interner mesh_shapes;
    for (const Placement& stage : stages) {
      scene_.extents.push_back(stage.hierarchy());
      Key key;
      for (const std::int64_t extent : scene_.extents.back())
        key.push_back(static_cast<std::uint64_t>(extent));
      shape_of_mesh_.push_back(mesh_shapes.of(key));
      boxed_.meshes.push_back(plans.placement(stage));
    }
    for (const LogicalTensor& tensor : graph.tensors())
      boxed_.types.push_back(plans.type(tensor.type));
    scene_.versions.resize(graph.tensors().size());
    plans.word_lists().trim();
  }

  WordAssignment run() {
    for (std::size_t index = 0; index < scene_.graph.ops().size(); ++index) decide(OpId(index));
    return std::move(assignment_);
  }

 private:
  void decide(OpId id) {
    const LogicalOp& op = scene_.graph.op(id);
    if (op.recompute_of) return repeat(op);
    const std::size_t mesh = scene_.mesh_of(op);
    Candidates& candidates = candidates_.of(scene_, boxed_, op, shape_of_mesh_[mesh]);
    const WordList& list = *candidates.list;
    if (list.all.empty()) return decide_source(op, mesh);
    describe_situation(id, mesh, list);
    auto known = decisions_.find(key_);
    if (known == decisions_.end()) {
      Key key = key_;
      known = decisions_.emplace(std::move(key), cheapest(id, mesh, list)).first;
    }
    const WordCandidate& chosen = list.all[known->second];
    std::optional<std::size_t>& taken = candidates.taken[known->second];
    if (taken)
      assignment_.add_again(*taken);
    else
      taken = assignment_.add(chosen.words);
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      add_version(op.inputs[i], {mesh, chosen.inputs[i]});
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      add_version(op.outputs[i], {mesh, chosen.outputs[i]});
  }

  // What backward does again it does in the words of the original, and its results are found where
  // those are: what reads them decides as if it read the original.
  void repeat(const LogicalOp& op) {
    const LogicalOp& original = scene_.graph.op(*op.recompute_of);
    assignment_.add_copy_of(*op.recompute_of);
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      scene_.versions[op.outputs[i].index()] = scene_.versions[original.outputs[i].index()];
  }

  void decide_source(const LogicalOp& op, std::size_t mesh) {
    OpWords words;
    for (const TensorId output : op.outputs) {
      const MeshState state = scene_.given.tensor(output).value_or(MeshState());
      require(!state.has_partial(), ErrorCode::kInfeasible,
              "operator '{}' ({}) cannot make '{}' partial: a source holds whole values", op.name,
              op.kind, scene_.tensor(output).name);
      words.outputs.push_back(state.words(scene_.extents[mesh].size()));
      add_version(output, {mesh, state});
    }
    assignment_.add(std::move(words));
  }

  void add_version(TensorId id, const WordVersion& version) {
    std::vector<WordVersion>& versions = scene_.versions[id.index()];
    if (std::find(versions.begin(), versions.end(), version) == versions.end())
      versions.push_back(version);
  }

  // Everything that `cheapest` looks at, into key_.
  void describe_situation(OpId id, std::size_t mesh, const WordList& candidates) {
    const LogicalOp& op = scene_.graph.op(id);
    key_ = {candidates.number, waits_for_step(op) ? 1U : 0U, scene_.shares_groups(id) ? 1U : 0U};
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const std::vector<WordVersion>& versions = scene_.versions[op.inputs[i].index()];
      key_.push_back(versions.size());
      for (const WordVersion& version : versions) {
        key_.push_back(version.mesh == mesh ? 0 : shape_of_mesh_[version.mesh] + 1);
        key_.push_back(version.state.code());
      }
      scene_.given.describe({id, i}, key_);
    }
    if (candidates.invents)
      for (const WordCandidate& candidate : candidates.all)
        key_.push_back(is_anchored(scene_, id, mesh, candidate) ? 1 : 0);
    for (const TensorId output : op.outputs) {
      describe_given(scene_.given.tensor(output));
      for (const LogicalGraph::Use& use : scene_.graph.uses(output)) {
        const std::optional<MeshState>& wanted = scene_.given.input({use.op, use.input});
        if (!wanted) continue;
        const std::size_t there = scene_.mesh_of(scene_.graph.op(use.op));
        key_.push_back(there == mesh ? 2 : shape_of_mesh_[there] + 3);
        key_.push_back(wanted->code());
      }
    }
  }

  void describe_given(const std::optional<MeshState>& given) {
    key_.push_back(given ? 1 : 0);
    if (given) key_.push_back(given->code());
  }

  std::size_t cheapest(OpId id, std::size_t mesh, const WordList& candidates) {
    std::optional<std::size_t> best;
    WordCost best_cost;
    for (std::size_t i = 0; i < candidates.all.size(); ++i) {
      const WordCandidate& candidate = candidates.all[i];
      if (!honours_given_words(scene_, id, candidate) || !is_anchored(scene_, id, mesh, candidate))
        continue;
      const std::optional<WordCost> cost = cost_of(scene_, boxed_, id, mesh, candidate);
      if (!cost || (best && *cost >= best_cost)) continue;
      best = i;
      best_cost = *cost;
    }
    if (!best) refuse_words(scene_, id, mesh, candidates);
    if (scene_.constraints.whole_groups)
      require_whole_groups(scene_, id, mesh, candidates.all[*best]);
    return *best;
  }

  WordScene scene_;
  BoxedNumbers boxed_;
  std::vector<std::uint64_t> shape_of_mesh_;  // by stage: equal extents, equal number
  CandidateTable candidates_;
  std::unordered_map<Key, std::size_t, KeyHash> decisions_;
  Key key_;  // being built, to keep its storage
  WordAssignment assignment_;
};

}  // namespace

std::size_t WordAssignment::add(OpWords words) {
  distinct_.push_back(std::move(words));
  of_op_.push_back(distinct_.size() - 1);
  return distinct_.size() - 1;
}

WordAssignment infer_words(const LogicalGraph& graph, const std::vector<Placement>& stages,
                           const std::vector<int>& stage_of_layer,
                           const WordConstraints& constraints) {
  BoxingPlans plans(BoxingObjective::kBytes);
  return infer_words(graph, stages, stage_of_layer, constraints, plans);
}

WordAssignment infer_words(const LogicalGraph& graph, const std::vector<Placement>& stages,
                           const std::vector<int>& stage_of_layer,
                           const WordConstraints& constraints, BoxingPlans& plans) {
  for (const Placement& stage : stages) validate(stage);
  return Inference(graph, stages, stage_of_layer, constraints, plans).run();
}

}  // namespace sextant
