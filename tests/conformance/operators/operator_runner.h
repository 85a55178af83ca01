// Runs operators on the reference kernels without devices or a physical graph: one kernel on one
// shard, or a whole logical graph on whole tensors. The oracle of the suites over operators.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/graphs/physical_graph.h"
#include "core/graphs/tensor_types.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// One device's part of a tensor: the global indices it holds and their values, row-major.
struct Piece {
  TensorType global;
  Shard box;
  std::vector<double> values;
};

// The part that is everything.
Piece whole(const TensorType& type, std::vector<double> values);
Piece blank(const TensorType& type);  // the same, all zero

// The elements of `piece` that lie in `box`, which must be inside it.
Piece cut(const Piece& piece, const Shard& box);

// Copies the elements of `part` to their places in `piece`.
void paste(const Piece& part, Piece& piece);

// A piece in the bytes that kernels read and write.
struct PackedPiece {
  Layout layout;  // its global type; words and placement are the caller's
  TensorType local;
  Shard box;
  std::vector<std::byte> bytes;
};
PackedPiece pack(const Piece& piece);
PackedPiece packed_blank(const TensorType& global, const Shard& box);  // all zero
void unpack(const PackedPiece& piece, std::vector<double>& values);

// One operator to be run many times: its attributes and its scratch memory are set up once.
class OperatorRunner {
 public:
  OperatorRunner(const std::string& kind, const Attributes& attributes);
  ~OperatorRunner();
  void run(std::span<const PackedPiece* const> inputs, std::span<PackedPiece> outputs);

 private:
  struct Call;  // keeps the backend's headers out of this one
  std::unique_ptr<Call> call_;
};

// `outputs` gives the boxes of the outputs and, for state, the contents before the act; comes back
// with the contents after it. Values pass through the dtype of their tensor.
void run_operator(const std::string& kind, const Attributes& attributes,
                  const std::vector<Piece>& inputs, std::vector<Piece>& outputs);

using TensorValues = std::map<TensorId, std::vector<double>>;

// Values of every tensor whose producer runs on a device, given those of the parameters and inputs;
// optimizers and host actors are left out.
void evaluate(const LogicalGraph& graph, TensorValues& values);

}  // namespace sextant
