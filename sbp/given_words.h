// What is decided about words before inference, by number instead of by name. Internal to sbp/.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/tensors/placement.h"
#include "sbp/inference.h"
#include "sbp/key.h"
#include "sbp/mesh_state.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace sextant {

// The stage, and so the mesh, of an operator. Throws Error(kUsage) when its layer has none.
std::size_t mesh_of(const LogicalOp& op, const std::vector<Placement>& stages,
                    const std::vector<int>& stage_of_layer);

// Whether two states say the same of one axis, nesting aside.
bool is_same_word(const MeshState& a, const MeshState& b, std::size_t axis);

class GivenWords {
 public:
  // Throws Error(kUsage) for constraints that do not fit the graph, naming the operator.
  GivenWords(const LogicalGraph& graph, const std::vector<Placement>& stages,
             const std::vector<int>& stage_of_layer, const WordConstraints& constraints);

  // Words of all axes.
  const std::optional<MeshState>& tensor(TensorId id) const { return tensors_[id.index()]; }
  const std::optional<MeshState>& input(const OpInput& input) const {
    return inputs_[place_of(input)];
  }
  // Whether something is given for the word of this axis.
  bool says(const OpInput& input, std::size_t axis) const;
  bool allows(const OpInput& input, const MeshState& state) const;
  // All that is given for an input, for keys of equal situations.
  void describe(const OpInput& input, Key& key) const;

 private:
  // The word of one axis, with B on the others.
  struct OneAxis {
    std::size_t axis = 0;
    MeshState state;
  };

  std::size_t place_of(const OpInput& input) const {
    return first_input_[input.op.index()] + input.input;
  }
  void note_tensor(TensorId id, const NdSbp& words);
  void note_input(const OpInput& input, const NdSbp& words);
  void note_axis(const OpInput& input, const WordConstraints::OnAxis& given);
  void require_exists(const OpInput& input, const NdSbp& words) const;
  MeshState pinned(const NdSbp& words, TensorId id, const LogicalOp& op) const;

  const LogicalGraph& graph_;
  const std::vector<Placement>& stages_;
  const std::vector<int>& stage_of_layer_;
  std::vector<std::optional<MeshState>> tensors_;  // by tensor
  std::vector<std::optional<MeshState>> inputs_;   // those of operator i from first_input_[i]
  std::vector<std::optional<OneAxis>> axes_;       // the same
  std::vector<std::size_t> first_input_;
};

}  // namespace sextant
