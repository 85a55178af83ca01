// Every row of words that an operator claims, by machine: split the inputs by the words, run the
// kernel on each shard, put the outputs together by the words, compare with the global run. Kinds
// and inputs come from the registry, so a new operator is covered by existing.
#include "core/counter_rng.h"
#include "core/operator.h"
#include "tests/conformance/operator_runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Hierarchy = std::vector<std::int64_t>;

class Random {
 public:
  explicit Random(const std::string& stream) : rng_(1, stream) {}
  std::int64_t integer(std::int64_t first, std::int64_t last) {
    return first + static_cast<std::int64_t>(rng_.bits(next_++) %
                                             static_cast<std::uint64_t>(last - first + 1));
  }

 private:
  CounterRng rng_;
  std::uint64_t next_ = 0;
};

// One operator on one set of inputs, run globally.
struct GlobalRun {
  const OperatorDef* def;
  OperatorExample example;
  std::vector<Piece> inputs;
  std::vector<Piece> before, outputs;  // outputs before (state) and after
};

std::pair<std::int64_t, std::int64_t> range_of(const OperatorExample& example, std::size_t input) {
  return example.ranges.empty() ? std::pair<std::int64_t, std::int64_t>{-3, 3}
                                : example.ranges[input];
}

Piece random_piece(const TensorType& type, std::pair<std::int64_t, std::int64_t> range,
                   Random& random) {
  std::vector<double> values(static_cast<std::size_t>(type.shape.elements()));
  for (double& value : values)
    value = static_cast<double>(random.integer(range.first, range.second));
  return whole(type, std::move(values));
}

GlobalRun run_globally(const OperatorDef& def, const OperatorExample& example, Random& random) {
  GlobalRun run{.def = &def, .example = example, .inputs = {}, .before = {}, .outputs = {}};
  for (std::size_t i = 0; i < example.inputs.size(); ++i)
    run.inputs.push_back(random_piece(example.inputs[i], range_of(example, i), random));
  const bool has_state = !def.state_outputs.empty();
  for (const TensorType& type : def.infer(example.inputs, example.attributes))
    run.before.push_back(has_state ? random_piece(type, {0, 3}, random) : whole(type, {}));
  run.outputs = run.before;
  run_operator(def.kind, example.attributes, run.inputs, run.outputs);
  return run;
}

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

double reduced(ReduceOp op, double a, double b) {
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

bool agree(const Piece& a, const Piece& b) {
  double largest = 1.0;
  for (const double value : b.values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < a.values.size(); ++i)
    if (!agree(a.values[i], b.values[i], largest)) return false;
  return a.box == b.box;
}

// The tensor that the pieces of devices [first, first + ...) stand for from `axis` on; false in
// `is_consistent` when broadcast copies differ. `box`: what the axes before leave.
Piece collect(const std::vector<Piece>& pieces, std::size_t first, const NdSbp& words,
              const Hierarchy& hierarchy, Hierarchy coordinates, bool& is_consistent) {
  const std::size_t axis = coordinates.size();
  if (axis == words.size()) return pieces[first];
  std::size_t devices_per_part = 1;
  for (std::size_t minor = axis + 1; minor < words.size(); ++minor)
    devices_per_part *= static_cast<std::size_t>(hierarchy[minor]);
  NdSbp outer_words(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(axis));
  const Hierarchy outer(hierarchy.begin(), hierarchy.begin() + static_cast<std::ptrdiff_t>(axis));
  const TensorType& global = pieces[first].global;
  const Shard box = shard_of(global.shape, outer_words, outer, coordinates);
  Piece total{.global = global,
              .box = box,
              .values = std::vector<double>(static_cast<std::size_t>(box.local_shape().elements()),
                                            std::nan(""))};
  for (std::int64_t part = 0; part < hierarchy[axis]; ++part) {
    Hierarchy inner = coordinates;
    inner.push_back(part);
    const Piece piece = collect(pieces, first + static_cast<std::size_t>(part) * devices_per_part,
                                words, hierarchy, inner, is_consistent);
    if (words[axis].is_split() || part == 0) {
      paste(piece, total);
    } else if (words[axis].is_broadcast()) {
      is_consistent = is_consistent && agree(piece, total);
    } else {
      for (std::size_t i = 0; i < total.values.size(); ++i)
        total.values[i] = reduced(words[axis].reduce, total.values[i], piece.values[i]);
    }
  }
  return total;
}

std::vector<NdSbp> words_of(const std::vector<const SbpSignature*>& rows, bool outputs,
                            std::size_t operands) {
  std::vector<NdSbp> words(operands);
  for (const SbpSignature* row : rows)
    for (std::size_t i = 0; i < operands; ++i)
      words[i].push_back(outputs ? row->outputs[i] : row->inputs[i]);
  return words;
}

// True when the sharded run with these rows, one per axis, equals the global run.
bool holds(const GlobalRun& run, const std::vector<const SbpSignature*>& rows,
           const Hierarchy& hierarchy, Random& random) {
  const std::vector<NdSbp> in_words = words_of(rows, false, run.inputs.size());
  const std::vector<NdSbp> out_words = words_of(rows, true, run.outputs.size());
  std::vector<std::vector<Piece>> inputs, outputs;  // by operand, then device
  for (std::size_t i = 0; i < run.inputs.size(); ++i)
    inputs.push_back(distribute(run.inputs[i], in_words[i], hierarchy, random));
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    Piece before = run.before[i];
    before.values.resize(static_cast<std::size_t>(before.global.shape.elements()));
    outputs.push_back(distribute(before, out_words[i], hierarchy, random));
  }
  for (std::size_t device = 0; device < outputs[0].size(); ++device) {
    std::vector<Piece> local_inputs, local_outputs;
    for (const auto& pieces : inputs) local_inputs.push_back(pieces[device]);
    for (const auto& pieces : outputs) local_outputs.push_back(pieces[device]);
    run_operator(run.def->kind, run.example.attributes, local_inputs, local_outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i][device] = local_outputs[i];
  }
  bool is_sound = true;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Piece total = collect(outputs[i], 0, out_words[i], hierarchy, {}, is_sound);
    is_sound = is_sound && agree(total, run.outputs[i]);
  }
  return is_sound;
}

// "matmul (S(0), B) (B, S(1)) -> (S(0), S(1))".
std::string text_of(const GlobalRun& run, const std::vector<const SbpSignature*>& rows) {
  std::string text = run.def->kind;
  for (const NdSbp& words : words_of(rows, false, run.inputs.size()))
    text += " " + to_string(words);
  text += " ->";
  for (const NdSbp& words : words_of(rows, true, run.outputs.size()))
    text += " " + to_string(words);
  return text;
}

// Calls `visit(run, rows, random)` for every example of every kind.
template <typename Visit>
void for_each_example(const std::string& stream, const Visit& visit) {
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds()) {
    const OperatorDef& def = registry.get(kind);
    if (def.examples == nullptr) continue;
    Random random(stream + kind);
    for (const OperatorExample& example : def.examples()) {
      const GlobalRun run = run_globally(def, example, random);
      visit(run,
            def.signatures(example.inputs, def.infer(example.inputs, example.attributes),
                           example.attributes),
            random);
    }
  }
}

// Runs a product of rows, one per axis, unless it does not fit the mesh.
void check(const GlobalRun& run, const std::vector<const SbpSignature*>& rows,
           const Hierarchy& hierarchy, Random& random) {
  if (!fits(rows, hierarchy)) return;
  CAPTURE(text_of(run, rows));
  CAPTURE(hierarchy[0]);
  CHECK(holds(run, rows, hierarchy, random));
}

using Rows = std::vector<SbpSignature>;

TEST_CASE("every claimed row gives the global result over 2, 3 and 4 parts") {
  for_each_example("one axis", [](const GlobalRun& run, const Rows& rows, Random& random) {
    for (const SbpSignature& row : rows)
      for (const std::int64_t parts : {2, 3, 4}) check(run, {&row}, {parts}, random);
  });
}

TEST_CASE("products of claimed rows give the global result on two axes") {
  for_each_example("two axes", [](const GlobalRun& run, const Rows& rows, Random& random) {
    for (const SbpSignature& major : rows)
      for (const SbpSignature& minor : rows)
        for (const std::int64_t parts : {2, 3}) check(run, {&major, &minor}, {parts, 2}, random);
  });
}

// The suite must be able to fail: rows that look right and are not.
TEST_CASE("unsound rows are caught") {
  const auto is_caught = [](const std::string& kind, std::size_t example, const SbpSignature& row,
                            std::int64_t parts) {
    Random random("unsound" + kind);
    const OperatorDef& def = builtin_operators().get(kind);
    const GlobalRun run = run_globally(def, def.examples()[example], random);
    return !holds(run, {&row}, {parts}, random);
  };
  const Sbp b = Sbp::broadcast(), p = Sbp::partial(), p_max = Sbp::partial(ReduceOp::kMax);
  const auto s = [](std::size_t dim) { return Sbp::split(dim); };
  CHECK(is_caught("matmul", 0, {{p, p}, {p}}, 2));                           // bilinear (G13)
  CHECK(is_caught("bias_add", 0, {{p, b}, {p}}, 2));                         // bias twice (G14)
  CHECK(is_caught("gelu", 0, {{p}, {p}}, 2));                                // not linear (G12)
  CHECK(is_caught("mul", 0, {{p_max, b}, {p_max}}, 2));                      // sign unknown
  CHECK(is_caught("layer_norm", 0, {{s(2), s(0), s(0)}, {s(2), b, b}}, 2));  // G20
  CHECK(is_caught("embedding", 0, {{b, s(0)}, {b}}, 2));                     // rows of other shards
  // Query heads without their group.
  CHECK(is_caught("attention", 1, {{s(2), b, b}, {s(2), s(2)}}, 2));
  CHECK(is_caught("reshape", 0, {{s(1)}, {s(1)}}, 3));  // 12 -> 4x3 over 3 parts
  CHECK(is_caught("reshape", 1, {{s(2)}, {s(1)}}, 3));  // a later dim of a group (G07)
  CHECK(is_caught("pick", 0, {{s(2), b}, {b}}, 2));
  CHECK(is_caught("cross_entropy", 0, {{s(0), s(0), s(0), s(0), s(0)}, {b, b}}, 2));
}

}  // namespace
}  // namespace sextant
