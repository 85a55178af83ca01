// Axes are peeled off one by one, major first when a tensor is distributed, minor first when it is
// collected.
#include "tests/conformance/sharding.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sextant {
namespace {

// Pieces whose reduction is `total`, element by element.
std::vector<Piece> partial_pieces(const Piece& total, ReduceOp op, std::int64_t parts,
                                  Random& random) {
  std::vector<Piece> pieces(static_cast<std::size_t>(parts), total);
  for (std::size_t i = 0; i < total.values.size(); ++i) {
    const auto holder = static_cast<std::size_t>(random.integer(0, parts - 1));
    for (std::size_t part = 0; part < pieces.size(); ++part) {
      if (part == holder) continue;
      const auto noise = static_cast<double>(random.integer(1, 4));
      double& value = pieces[part].values[i];
      if (op == ReduceOp::kSum) {
        value = noise;
        pieces[holder].values[i] -= noise;
      } else {
        value += op == ReduceOp::kMax ? -noise : noise;
      }
    }
  }
  return pieces;
}

// What each device holds of `tensor`, in row-major order of coordinates, before splits: every
// device holds all elements, its share of the partial ones.
std::vector<Piece> unsplit_pieces(const Piece& tensor, const NdSbp& words,
                                  const Hierarchy& hierarchy, std::size_t axis, Random& random) {
  if (axis == words.size()) return {tensor};
  const std::int64_t parts = hierarchy[axis];
  const std::vector<Piece> per_part =
      words[axis].is_partial() ? partial_pieces(tensor, words[axis].reduce, parts, random)
                               : std::vector<Piece>(static_cast<std::size_t>(parts), tensor);
  std::vector<Piece> pieces;
  for (const Piece& part : per_part)
    for (Piece& piece : unsplit_pieces(part, words, hierarchy, axis + 1, random))
      pieces.push_back(std::move(piece));
  return pieces;
}

Hierarchy coordinates_of(std::size_t device, const Hierarchy& hierarchy) {
  Hierarchy coordinates(hierarchy.size());
  for (std::size_t axis = hierarchy.size(); axis-- > 0;) {
    coordinates[axis] = static_cast<std::int64_t>(device) % hierarchy[axis];
    device /= static_cast<std::size_t>(hierarchy[axis]);
  }
  return coordinates;
}

double reduced(ReduceOp op, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
  }
  return a;
}

// Integers are exact in any order of summation. Otherwise a result passes through at most 10^3
// roundings, unit 1.1e-16, of terms at most 10^2 times the largest result: 1.1e-11 of that.
bool agree(double a, double b, double largest) {
  const bool is_exact = (std::nearbyint(a) == a && std::nearbyint(b) == b) || std::isinf(a);
  return is_exact ? a == b : std::abs(a - b) <= 2e-11 * largest;
}

double largest_of(const Piece& piece) {
  double largest = 1.0;
  for (const double value : piece.values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

// Merges what one more part of an axis holds into what the parts before it hold.
void merge(const Piece& part, Sbp word, Piece& total) {
  const double largest = largest_of(total);
  for (std::size_t i = 0; i < total.values.size(); ++i) {
    double& value = total.values[i];
    if (word.is_partial()) {
      value = reduced(word.reduce, value, part.values[i]);
    } else if (!agree(part.values[i], value, largest)) {
      value = std::nan("");
    }
  }
}

// What the devices with these first coordinates hold together; `first` is the first of them.
Piece collect_from(const std::vector<Piece>& pieces, const NdSbp& words, const Hierarchy& hierarchy,
                   const Hierarchy& coordinates, std::size_t first) {
  const std::size_t axis = coordinates.size();
  if (axis == words.size()) return pieces[first];
  const auto prefix = [axis](const auto& all) {
    return std::vector(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(axis));
  };
  std::size_t devices_per_part = 1;
  for (std::size_t minor = axis + 1; minor < words.size(); ++minor)
    devices_per_part *= static_cast<std::size_t>(hierarchy[minor]);
  const TensorType& global = pieces[first].global;
  const Shard box = shard_of(global.shape, prefix(words), prefix(hierarchy), coordinates);
  Piece total{.global = global,
              .box = box,
              .values = std::vector<double>(static_cast<std::size_t>(box.local_shape().elements()),
                                            std::nan(""))};
  for (std::int64_t part = 0; part < hierarchy[axis]; ++part) {
    Hierarchy inner = coordinates;
    inner.push_back(part);
    const Piece piece = collect_from(pieces, words, hierarchy, inner,
                                     first + static_cast<std::size_t>(part) * devices_per_part);
    if (words[axis].is_split() || part == 0) {
      paste(piece, total);
    } else {
      merge(piece, words[axis], total);
    }
  }
  return total;
}

}  // namespace

std::vector<Piece> distribute(const Piece& tensor, const NdSbp& words, const Hierarchy& hierarchy,
                              Random& random) {
  std::vector<Piece> pieces = unsplit_pieces(tensor, words, hierarchy, 0, random);
  for (std::size_t device = 0; device < pieces.size(); ++device) {
    const Shard box =
        shard_of(tensor.global.shape, words, hierarchy, coordinates_of(device, hierarchy));
    pieces[device] = cut(pieces[device], box);
  }
  return pieces;
}

Piece collect(const std::vector<Piece>& pieces, const NdSbp& words, const Hierarchy& hierarchy) {
  return collect_from(pieces, words, hierarchy, {}, 0);
}

std::vector<Piece> run_sharded(const std::string& kind, const Attributes& attributes,
                               const std::vector<Piece>& inputs, const std::vector<Piece>& outputs,
                               const OperandWords& words, const Hierarchy& hierarchy,
                               Random& random) {
  std::vector<std::vector<Piece>> in, out;  // by operand, then device
  for (std::size_t i = 0; i < inputs.size(); ++i)
    in.push_back(distribute(inputs[i], words.inputs[i], hierarchy, random));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    out.push_back(distribute(outputs[i], words.outputs[i], hierarchy, random));
  for (std::size_t device = 0; device < out[0].size(); ++device) {
    std::vector<Piece> local_in, local_out;
    for (const std::vector<Piece>& pieces : in) local_in.push_back(pieces[device]);
    for (const std::vector<Piece>& pieces : out) local_out.push_back(pieces[device]);
    run_operator(kind, attributes, local_in, local_out);
    for (std::size_t i = 0; i < out.size(); ++i) out[i][device] = std::move(local_out[i]);
  }
  std::vector<Piece> collected;
  for (std::size_t i = 0; i < out.size(); ++i)
    collected.push_back(collect(out[i], words.outputs[i], hierarchy));
  return collected;
}

bool agree(const Piece& a, const Piece& b) {
  const double largest = largest_of(b);
  for (std::size_t i = 0; i < a.values.size(); ++i)
    if (!agree(a.values[i], b.values[i], largest)) return false;
  return a.box == b.box;
}

}  // namespace sextant
