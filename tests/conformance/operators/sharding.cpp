// Axes are peeled off one by one: partial values from the major axis when a tensor is distributed,
// all words from the innermost when it is collected.
#include "tests/conformance/operators/sharding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace sextant {

double neutral(ReduceOp op, DType dtype) {
  if (op == ReduceOp::kSum) return 0;
  const double sign = op == ReduceOp::kMax ? -1 : 1;
  switch (dtype) {
    case DType::kF64:
    case DType::kF32:
    case DType::kBF16:
    case DType::kF16:
      return sign * std::numeric_limits<double>::infinity();
    case DType::kI64:
      return sign * 0x1p63;
    case DType::kI32:
      return op == ReduceOp::kMax ? -0x1p31 : 0x1p31 - 1;
    case DType::kBool:
      return op == ReduceOp::kMax ? 0 : 1;
    case DType::kE4M3:
    case DType::kE5M2:
      return sign * static_cast<double>(largest_8_bit(dtype));
    case DType::kU8:
      return op == ReduceOp::kMax ? 0 : 255;
  }
  __builtin_unreachable();
}

bool is_integer(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

double extreme(DType dtype, Random& random) {
  constexpr double kEnds[] = {-0x1p31, -0x1p31 + 1, -2e9,   -0x1p30, -1,
                              0,       1,           0x1p30, 2e9,     0x1p31 - 1};
  if (dtype == DType::kI64)
    return wrapped(static_cast<double>(random.integer(-8, 7)) * 0x1p60 +
                       static_cast<double>(random.integer(-8, 7)) * 0x1p29,
                   dtype);
  return kEnds[random.index(std::size(kEnds))];
}

double wrapped(double sum, DType dtype) {
  if (!is_integer(dtype)) return sum;
  const double range = dtype == DType::kI32 ? 0x1p32 : 0x1p64;
  return sum - range * std::floor(sum / range + 0.5);
}

namespace {

// What a part that does not hold the value of an element has there: for sums anything, for max
// and min nothing beyond the value.
double share_of(double value, ReduceOp op, DType dtype, Shares shares, Random& random) {
  if (random.integer(0, 5) == 0) return neutral(op, dtype);
  if (dtype == DType::kBool && op == ReduceOp::kSum) return 0;
  if (dtype == DType::kBool) return random.integer(0, 1) == 0 ? neutral(op, dtype) : value;
  // Doubles add numbers of 64 bits exactly only where all are multiples of 2^29, as extremes are.
  const bool is_exact = dtype != DType::kI64 || std::fmod(value, 0x1p29) == 0;
  if (shares == Shares::kExtremes && is_integer(dtype) && is_exact) {
    const double share = extreme(dtype, random);
    return op == ReduceOp::kSum ? share : reduced(op, share, value, dtype) == value ? share : value;
  }
  const double unit = shares == Shares::kFractions && is_floating(dtype) ? 0.25 : 1;
  const auto noise = unit * static_cast<double>(random.integer(0, 4));
  if (op == ReduceOp::kSum) return random.integer(0, 1) == 0 ? noise : -noise;
  return op == ReduceOp::kMax ? std::max(value - noise, neutral(op, dtype))
                              : std::min(value + noise, neutral(op, dtype));
}

// Pieces whose reduction is `total`, element by element.
std::vector<Piece> partial_pieces(const Piece& total, ReduceOp op, std::int64_t parts,
                                  Shares shares, Random& random) {
  std::vector<Piece> pieces(static_cast<std::size_t>(parts), total);
  for (std::size_t i = 0; i < total.values.size(); ++i) {
    const auto holder = static_cast<std::size_t>(random.integer(0, parts - 1));
    for (std::size_t part = 0; part < pieces.size(); ++part) {
      if (part == holder) continue;
      const double share = share_of(total.values[i], op, total.global.dtype, shares, random);
      pieces[part].values[i] = share;
      double& rest = pieces[holder].values[i];
      if (op == ReduceOp::kSum) rest = wrapped(rest - share, total.global.dtype);
    }
  }
  return pieces;
}

// What each device holds of `tensor`, in row-major order of coordinates, before splits: every
// device holds all elements, its share of the partial ones.
std::vector<Piece> unsplit_pieces(const Piece& tensor, const NdSbp& words,
                                  const Hierarchy& hierarchy, std::size_t axis, Shares shares,
                                  Random& random) {
  if (axis == words.size()) return {tensor};
  const std::int64_t parts = hierarchy[axis];
  const std::vector<Piece> per_part =
      words[axis].is_partial() ? partial_pieces(tensor, words[axis].reduce, parts, shares, random)
                               : std::vector<Piece>(static_cast<std::size_t>(parts), tensor);
  std::vector<Piece> pieces;
  for (const Piece& part : per_part)
    for (Piece& piece : unsplit_pieces(part, words, hierarchy, axis + 1, shares, random))
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

// Any order of summation gives the same integers as long as the type holds them. Otherwise a result
// passes through at most 10^3 roundings of terms at most 10^2 times the largest result: 10^5 units,
// 1.1e-11 of it in f64 (unit 1.1e-16), 6e-3 in f32 (6e-8). In 16 bits (units 2^-9 and 2^-11)
// results are stored, not accumulated: 16 roundings of terms 4 times as large, 64 units.
struct Tolerance {
  double largest_exact, relative;
};

Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {0x1p53, 2e-11};
    case DType::kF32:
      return {0x1p20, 6e-3};
    case DType::kBF16:
      return {0x1p5, 0.125};
    case DType::kF16:
      return {0x1p8, 0.031};
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kU8:
      return {0x1p53, 0};
  }
  __builtin_unreachable();
}

}  // namespace

bool agree(double a, double b, double largest, DType dtype) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  const Tolerance tolerance = tolerance_of(dtype);
  const bool is_exact =
      std::nearbyint(a) == a && std::nearbyint(b) == b && std::abs(b) <= tolerance.largest_exact;
  return is_exact ? a == b : std::abs(a - b) <= tolerance.relative * largest;
}

double largest_of(std::span<const double> values) {
  double largest = 1.0;
  for (const double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

double reduced(ReduceOp op, double a, double b, DType dtype) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  switch (op) {
    case ReduceOp::kSum:
      return wrapped(a + b, dtype);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
  }
  __builtin_unreachable();
}

namespace {

// Merges what one more part of an axis holds into what the parts before it hold.
void merge(const Piece& part, Sbp word, Piece& total) {
  const double largest = largest_of(total.values);
  for (std::size_t i = 0; i < total.values.size(); ++i) {
    double& value = total.values[i];
    if (word.is_partial()) {
      value = reduced(word.reduce, value, part.values[i], total.global.dtype);
    } else if (!agree(part.values[i], value, largest, total.global.dtype)) {
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

std::size_t index_of(const Hierarchy& coordinates, const Hierarchy& hierarchy) {
  std::int64_t index = 0;
  for (std::size_t axis = 0; axis < hierarchy.size(); ++axis)
    index = index * hierarchy[axis] + coordinates[axis];
  return static_cast<std::size_t>(index);
}

// All axes, those that split one dim from the outermost split to the innermost.
std::vector<std::size_t> nesting_order(const NdSbp& words) {
  std::vector<std::size_t> order(words.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      const Sbp &outer = words[order[i]], &inner = words[order[j]];
      if (outer.is_split() && inner.is_split() && outer.dim == inner.dim &&
          outer.nesting > inner.nesting)
        std::swap(order[i], order[j]);
    }
  return order;
}

}  // namespace

std::vector<Piece> distribute(const Piece& tensor, const NdSbp& words, const Hierarchy& hierarchy,
                              Random& random, Shares shares) {
  std::vector<Piece> pieces = unsplit_pieces(tensor, words, hierarchy, 0, shares, random);
  for (std::size_t device = 0; device < pieces.size(); ++device) {
    const Shard box =
        shard_of(tensor.global.shape, words, hierarchy, coordinates_of(device, hierarchy));
    pieces[device] = cut(pieces[device], box);
  }
  return pieces;
}

Piece collect(const std::vector<Piece>& pieces, const NdSbp& words, const Hierarchy& hierarchy) {
  const std::vector<std::size_t> order = nesting_order(words);
  NdSbp ordered_words;
  Hierarchy ordered_hierarchy;
  for (const std::size_t axis : order) {
    ordered_words.push_back(words[axis]);
    ordered_words.back().nesting = 0;
    ordered_hierarchy.push_back(hierarchy[axis]);
  }
  std::vector<Piece> ordered;
  for (std::size_t device = 0; device < pieces.size(); ++device) {
    const Hierarchy ordered_coordinates = coordinates_of(device, ordered_hierarchy);
    Hierarchy coordinates(hierarchy.size());
    for (std::size_t i = 0; i < order.size(); ++i) coordinates[order[i]] = ordered_coordinates[i];
    ordered.push_back(pieces[index_of(coordinates, hierarchy)]);
  }
  return collect_from(ordered, ordered_words, ordered_hierarchy, {}, 0);
}

std::vector<Piece> run_sharded(const std::string& kind, const Attributes& attributes,
                               const std::vector<Piece>& inputs, const std::vector<Piece>& outputs,
                               const OperandWords& words, const Hierarchy& hierarchy,
                               Random& random, Shares shares) {
  std::vector<std::vector<PackedPiece>> in;  // by device
  std::vector<std::vector<Piece>> out;       // by operand, then device
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<Piece> pieces =
        distribute(inputs[i], words.inputs[i], hierarchy, random, shares);
    in.resize(pieces.size());
    for (std::size_t device = 0; device < pieces.size(); ++device)
      in[device].push_back(pack(pieces[device]));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    out.push_back(distribute(outputs[i], words.outputs[i], hierarchy, random, shares));
  in.resize(out[0].size());
  OperatorRunner runner(kind, attributes);
  for (std::size_t device = 0; device < in.size(); ++device) {
    std::vector<const PackedPiece*> local_in;
    std::vector<PackedPiece> local_out;
    for (const PackedPiece& piece : in[device]) local_in.push_back(&piece);
    for (const std::vector<Piece>& pieces : out) local_out.push_back(pack(pieces[device]));
    runner.run(local_in, local_out);
    for (std::size_t i = 0; i < out.size(); ++i) unpack(local_out[i], out[i][device].values);
  }
  std::vector<Piece> collected;
  for (std::size_t i = 0; i < out.size(); ++i)
    collected.push_back(collect(out[i], words.outputs[i], hierarchy));
  return collected;
}

bool agree(const Piece& a, const Piece& b) {
  const double largest = largest_of(b.values);
  for (std::size_t i = 0; i < a.values.size(); ++i)
    if (!agree(a.values[i], b.values[i], largest, b.global.dtype)) return false;
  return a.box == b.box;
}

}  // namespace sextant
