// The parts of inference: what it knows while it goes through a graph, and the questions that it
// asks of a candidate. Internal to sbp/.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/tensors/placement.h"
#include "sbp/boxing_plans.h"
#include "sbp/given_words.h"
#include "sbp/inference.h"
#include "sbp/key.h"
#include "sbp/mesh_state.h"
#include "sbp/word_lists.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sextant {

// A layout in which a tensor exists once an operator has made or wanted it.
struct WordVersion {
  std::uint64_t mesh = 0;  // number of the placement
  MeshState state;
  bool operator==(const WordVersion&) const = default;
};

// The graph, what is given, and the layouts made so far.
struct WordScene {
  const LogicalGraph& graph;
  const std::vector<Placement>& stages;
  const std::vector<int>& stage_of_layer;
  const WordConstraints& constraints;
  GivenWords given;
  std::vector<std::vector<std::int64_t>> extents = {};  // by stage
  std::vector<std::vector<WordVersion>> versions = {};  // by tensor; the producer's first

  const LogicalTensor& tensor(TensorId id) const { return graph.tensor(id); }
  std::size_t mesh_of(const LogicalOp& op) const {
    return sextant::mesh_of(op, stages, stage_of_layer);
  }
  // The rows of words that the operator's kind has for its types and attributes.
  std::vector<SbpSignature> rows_of(const LogicalOp& op) const;
  // Several operators keep the groups of its rows together, so one may cut them.
  bool shares_groups(OpId id) const { return constraints.shared_groups.count(id) != 0; }
};

// Tensors and meshes as the plans of boxings number them.
struct BoxedNumbers {
  BoxingPlans& plans;
  std::vector<BoxedTypeId> types = {};   // by tensor
  std::vector<BoxedMeshId> meshes = {};  // by stage
};

// ---- candidates (word_candidates.cpp)

struct Candidates {
  const WordList* list = nullptr;
  std::vector<std::optional<std::size_t>> taken = {};  // by candidate: number in the assignment
};

// The candidates of every operator, shared by those of equal rows, types and mesh.
class CandidateTable {
 public:
  // `shape` is equal for meshes of equal extents.
  Candidates& of(const WordScene& scene, BoxedNumbers& boxed, const LogicalOp& op,
                 std::uint64_t shape);

 private:
  // The candidates of an operator whose question, in key_, is new in this graph.
  Candidates& shared(const WordScene& scene, BoxedNumbers& boxed, const LogicalOp& op);
  static const WordList& made_list(const WordScene& scene, BoxedNumbers& boxed,
                                   const LogicalOp& op);

  std::unordered_map<Key, Candidates*, KeyHash> of_op_;  // into of_list_
  std::unordered_map<std::uint64_t, Candidates> of_list_;
  Key key_;  // being built, to keep its storage
};

// ---- which candidates may be chosen (anchored_words.cpp)

bool honours_given_words(const WordScene& scene, OpId id, const WordCandidate& candidate);
// Words other than B are taken over, not invented: on every axis some input that the row splits or
// reduces is so already, or is given so. Where all are read whole, what stands behind the operator
// has to be split so.
bool is_anchored(const WordScene& scene, OpId id, std::size_t mesh, const WordCandidate& candidate);

// ---- what a candidate costs (word_costs.cpp)

struct WordCost {
  // Moved in front of the operator, or owed for a reduction that it passes on.
  std::int64_t bytes = 0;
  std::int64_t later = 0;     // moved behind it, where its readers' words are given
  std::int64_t elements = 0;  // that the device with the largest parts reads and writes
  auto operator<=>(const WordCost&) const = default;
};
// Nothing where an input cannot be had in these words.
std::optional<WordCost> cost_of(const WordScene& scene, BoxedNumbers& boxed, OpId id,
                                std::size_t mesh, const WordCandidate& candidate);
// Weight gradients are summed over the micro-batches: their reductions are paid once per step.
bool waits_for_step(const LogicalOp& op);

// ---- what cannot be honoured (word_refusals.cpp)

// Throws Error(kInfeasible) where the words gather a split only because it would cut a group.
void require_whole_groups(const WordScene& scene, OpId id, std::size_t mesh,
                          const WordCandidate& chosen);
// Throws Error(kInfeasible) with the inputs, what is given, and the candidates.
[[noreturn]] void refuse_words(const WordScene& scene, OpId id, std::size_t mesh,
                               const WordList& candidates);

}  // namespace sextant
