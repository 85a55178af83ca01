// Layouts first (which operands are split, and do the local shapes belong together), then the words
// of what is not split. Most candidates die on their first kernel.
#include "tests/conformance/signatures/signature_search.h"

#include "core/base/error.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace sextant {
namespace {

const Sbp kB = Sbp::broadcast(), kSum = Sbp::partial(), kMax = Sbp::partial(ReduceOp::kMax),
          kMin = Sbp::partial(ReduceOp::kMin);

using Words = std::vector<Sbp>;
using TypeList = std::vector<TensorType>;

// Visits every choice of one entry per list, the last varying fastest.
template <typename Visit>
void for_each_choice(const std::vector<Words>& options, const Visit& visit) {
  for (const Words& list : options)
    if (list.empty()) return;
  std::vector<std::size_t> at(options.size(), 0);
  Words chosen(options.size());
  while (true) {
    for (std::size_t i = 0; i < options.size(); ++i) chosen[i] = options[i][at[i]];
    visit(chosen);
    std::size_t i = options.size();
    while (i-- > 0) {
      if (++at[i] < options[i].size()) break;
      at[i] = 0;
    }
    if (i == static_cast<std::size_t>(-1)) return;
  }
}

// B for what is not split: box and shape are the same for B and P.
Sbp layout_of(const Sbp& word) { return word.is_split() ? word : kB; }

Words layouts_of(const Words& words) {
  Words layouts;
  for (const Sbp& word : words) layouts.push_back(layout_of(word));
  return layouts;
}

Words box_words(const TensorType& type) {
  Words words{kB};
  for (std::size_t dim = 0; dim < type.shape.rank(); ++dim) words.push_back(Sbp::split(dim));
  return words;
}

Shard box_of(const TensorType& type, const Sbp& word, std::int64_t parts, std::int64_t part) {
  return shard_of(type.shape, {word}, Hierarchy{parts}, Hierarchy{part});
}

TypeList local_types(const TypeList& types, const Words& words, std::int64_t parts,
                     std::int64_t part) {
  TypeList local;
  for (std::size_t i = 0; i < types.size(); ++i)
    local.push_back({box_of(types[i], words[i], parts, part).local_shape(), types[i].dtype});
  return local;
}

std::optional<TypeList> inferred(const OperatorDef& def, const TypeList& inputs,
                                 const Attributes& attributes) {
  try {
    return def.infer(inputs, attributes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// True when the list is the last extents of the shape.
bool ends_with(const Shape& shape, const std::vector<std::int64_t>& list) {
  return list.size() <= shape.rank() &&
         std::equal(list.rbegin(), list.rend(), shape.extents().rbegin());
}

// The attributes with the last extents of a local operand where they are those of the global one.
void add_localised_ends(const Attributes& global, const TypeList& operands, const TypeList& local,
                        std::vector<Attributes>& variants) {
  for (std::size_t i = 0; i < operands.size(); ++i)
    for (const auto& [name, value] : global.entries()) {
      const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
      if (list == nullptr || !ends_with(operands[i].shape, *list)) continue;
      const std::vector<std::int64_t>& extents = local[i].shape.extents();
      variants.push_back(global);
      variants.back().set(
          name,
          std::vector(extents.end() - static_cast<std::ptrdiff_t>(list->size()), extents.end()));
    }
}

// The attributes with local extents in place of global ones: lists that are the shape of an output,
// and, one at a time, lists that are the last extents of an operand and numbers that are the extent
// of a split dim of an output.
std::vector<Attributes> localised(const Attributes& global, const TypeList& inputs,
                                  const TypeList& local_inputs, const TypeList& outputs,
                                  const TypeList& local) {
  Attributes lists = global;
  std::vector<Attributes> variants;
  add_localised_ends(global, inputs, local_inputs, variants);
  add_localised_ends(global, outputs, local, variants);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const auto& [name, value] : global.entries()) {
      const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
      if (list != nullptr && *list == outputs[i].shape.extents())
        lists.set(name, local[i].shape.extents());
      const auto* number = std::get_if<std::int64_t>(&value);
      if (number == nullptr) continue;
      for (std::size_t dim = 0; dim < outputs[i].shape.rank(); ++dim) {
        if (*number != outputs[i].shape[dim] || *number == local[i].shape[dim]) continue;
        variants.push_back(global);
        variants.back().set(name, local[i].shape[dim]);
      }
    }
  }
  variants.push_back(std::move(lists));
  return variants;
}

// True when the shape rule gives `out` for `in` with one of the inputs taken whole.
bool holds_for_whole_input(const SignatureCase& on, const TypeList& in, const TypeList& out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    TypeList widened = in;
    widened[i] = on.on.inputs[i];
    if (inferred(*on.def, widened, on.on.attributes) == out) return true;
  }
  return false;
}

// True when the local shapes of every part belong together.
bool is_consistent(const SignatureCase& on, const Words& inputs, const Words& outputs,
                   std::int64_t parts, ShapeRule rule) {
  if (rule == ShapeRule::kBoxes) return on.def->needs_offsets;
  for (std::int64_t part = 0; part < parts; ++part) {
    const TypeList in = local_types(on.on.inputs, inputs, parts, part);
    const TypeList out = local_types(on.outputs, outputs, parts, part);
    if (inferred(*on.def, in, on.on.attributes) == out) continue;
    if (rule == ShapeRule::kInfer) return false;
    if (rule == ShapeRule::kWidened && holds_for_whole_input(on, in, out)) continue;
    const std::vector<Attributes> variants =
        localised(on.on.attributes, on.on.inputs, in, on.outputs, out);
    if (std::none_of(variants.begin(), variants.end(), [&](const Attributes& attributes) {
          return inferred(*on.def, in, attributes) == out;
        }))
      return false;
  }
  return true;
}

// Splits and whole tensors of inputs and outputs.
struct Layouts {
  Words inputs, outputs;
};

// Output boxes whose shapes the shape rule gives for the first part: few, and cheap to find.
std::vector<Words> output_options(const SignatureCase& on, const Words& inputs, std::int64_t parts,
                                  ShapeRule rule) {
  std::vector<Words> options;
  for (const TensorType& output : on.outputs) options.push_back(box_words(output));
  if (rule != ShapeRule::kInfer) return options;
  const auto local =
      inferred(*on.def, local_types(on.on.inputs, inputs, parts, 0), on.on.attributes);
  for (std::size_t i = 0; i < options.size(); ++i) {
    Words fitting;
    for (const Sbp& word : options[i])
      if (local && box_of(on.outputs[i], word, parts, 0).local_shape() == (*local)[i].shape)
        fitting.push_back(word);
    options[i] = fitting;
  }
  return options;
}

std::vector<Layouts> claimed_layouts(const SignatureCase& on) {
  std::vector<Layouts> layouts;
  for (const SbpSignature& row : on.rows)
    layouts.push_back({layouts_of(row.inputs), layouts_of(row.outputs)});
  return layouts;
}

std::vector<Layouts> all_layouts(const SignatureCase& on, std::int64_t parts, ShapeRule rule) {
  if (rule == ShapeRule::kNone) return claimed_layouts(on);
  std::vector<Layouts> layouts;
  std::vector<Words> input_options;
  for (const TensorType& input : on.on.inputs) input_options.push_back(box_words(input));
  for_each_choice(input_options, [&](const Words& inputs) {
    for_each_choice(output_options(on, inputs, parts, rule), [&](const Words& outputs) {
      if (is_consistent(on, inputs, outputs, parts, rule)) layouts.push_back({inputs, outputs});
    });
  });
  return layouts;
}

// One set of values and what each part holds of every operand under every word.
class Draw {
 public:
  Draw(const SignatureCase& on, std::int64_t parts, Shares shares, Random& random)
      : run(run_globally(on, shares, random)), parts_(parts), shares_(shares), random_(random) {
    for (const Piece& output : run.outputs) largest.push_back(largest_of(output.values));
  }

  const std::vector<PackedPiece>& input(std::size_t index, const Sbp& word) {
    return pieces(inputs_, run.inputs[index], index, word);
  }
  const std::vector<PackedPiece>& before(std::size_t index, const Sbp& word) {
    return pieces(before_, run.before[index], index, word);
  }
  const std::vector<Piece>& wanted(std::size_t index, const Sbp& word) {
    std::vector<Piece>& held = wanted_[{index, word}];
    if (held.empty()) held = distribute(run.outputs[index], {word}, {parts_}, random_);
    return held;
  }

  GlobalRun run;
  std::vector<double> largest;  // of each output

 private:
  using Held = std::map<std::pair<std::size_t, Sbp>, std::vector<PackedPiece>>;

  const std::vector<PackedPiece>& pieces(Held& held, const Piece& tensor, std::size_t index,
                                         const Sbp& word) {
    std::vector<PackedPiece>& found = held[{index, word}];
    if (found.empty())
      for (const Piece& piece : distribute(tensor, {word}, {parts_}, random_, shares_))
        found.push_back(pack(piece));
    return found;
  }

  std::int64_t parts_;
  Shares shares_;
  Random& random_;
  Held inputs_, before_;
  std::map<std::pair<std::size_t, Sbp>, std::vector<Piece>> wanted_;
};

// What is known of one output while the parts run: which words it may have had so far.
struct Verdict {
  bool may_be_box = true;          // B, or the split of the layout
  std::vector<double> reduced[3];  // sum, max, min of the parts so far
};

class Search {
 public:
  Search(const SignatureCase& on, std::int64_t parts)
      : on_(on),
        parts_(parts),
        runner_(on.def->kind, on.on.attributes),
        random_("search" + on.name),
        outputs_(on.outputs.size()) {
    for (int draw = 0; draw < kDraws; ++draw)
      draws_.emplace_back(on, parts, kKinds[static_cast<std::size_t>(draw) % std::size(kKinds)],
                          random_);
  }

  void add_rows(const Layouts& layouts, std::vector<SbpSignature>& rows) {
    std::vector<Words> options;
    for (std::size_t i = 0; i < layouts.inputs.size(); ++i)
      options.push_back(input_words(i, layouts.inputs[i]));
    std::set<Words> unsound;  // choices come after those with B in place of P
    for_each_choice(options, [&](const Words& inputs) {
      if (has_unsound_copy(inputs, unsound)) {
        unsound.insert(inputs);
        return;
      }
      const std::vector<Words> outputs = legal_outputs(inputs, layouts.outputs);
      if (outputs.empty()) {
        unsound.insert(inputs);
        return;
      }
      for_each_choice(outputs, [&](const Words& chosen) {
        SbpSignature row{.inputs = inputs, .outputs = chosen};
        if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(std::move(row));
      });
    });
  }

 private:
  // A scalar must have shown both its signs: 2^-11 that it does not.
  static constexpr int kDraws = 12;
  static constexpr Shares kKinds[] = {Shares::kFractions, Shares::kIntegers, Shares::kFractions,
                                      Shares::kExtremes};

  Words input_words(std::size_t input, const Sbp& layout) const {
    const DType dtype = on_.on.inputs[input].dtype;
    Words words{layout};
    const bool is_index = !is_floating(dtype) && dtype != DType::kBool && !on_.on.ranges.empty();
    if (layout.is_split() || is_index) return words;
    if (dtype != DType::kBool) words.push_back(kSum);
    words.push_back(kMax);
    words.push_back(kMin);
    return words;
  }

  // True when the same words with a copy in place of a maximum or minimum are unsound.
  static bool has_unsound_copy(const Words& inputs, const std::set<Words>& unsound) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != kMax && inputs[i] != kMin) continue;
      Words copy = inputs;
      copy[i] = kB;
      if (unsound.contains(copy)) return true;
    }
    return false;
  }

  // The strongest words of each output under which all draws equal the global run; empty when an
  // output has none.
  std::vector<Words> legal_outputs(const Words& inputs, const Words& layouts) {
    std::vector<Words> legal;
    for (const Sbp& layout : layouts) {
      legal.push_back({layout});
      if (layout.is_split() || on_.is_state(legal.size() - 1)) continue;
      for (const Sbp& word : {kSum, kMax, kMin})
        if (word != kSum || on_.outputs[legal.size() - 1].dtype != DType::kBool)
          legal.back().push_back(word);
    }
    for (Draw& draw : draws_)
      if (!narrow(draw, inputs, layouts, legal)) return {};
    for (Words& words : legal) keep_strongest(words);
    return legal;
  }

  static void keep_strongest(Words& words) {
    const Words all = words;
    std::erase_if(words, [&](const Sbp& word) {
      return std::any_of(all.begin(), all.end(), [&](const Sbp& other) {
        return other != word && is_free_step(other, word);
      });
    });
  }

  // Takes away the words that this draw refutes; false when an output has none left.
  bool narrow(Draw& draw, const Words& inputs, const Words& layouts, std::vector<Words>& legal) {
    std::vector<Verdict> verdicts(layouts.size());
    for (std::int64_t part = 0; part < parts_; ++part) {
      if (!run_part(draw, inputs, layouts, static_cast<std::size_t>(part))) return false;
      for (std::size_t i = 0; i < layouts.size(); ++i) {
        observe(draw, i, layouts[i], static_cast<std::size_t>(part), verdicts[i]);
        if (layouts[i].is_split() && !verdicts[i].may_be_box) return false;
      }
    }
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      std::erase_if(legal[i],
                    [&](const Sbp& word) { return !survives(draw, i, word, verdicts[i]); });
      if (legal[i].empty()) return false;
    }
    return true;
  }

  // False when the kernel refuses its operands.
  bool run_part(Draw& draw, const Words& inputs, const Words& layouts, std::size_t part) {
    in_.clear();
    out_.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) in_.push_back(&draw.input(i, inputs[i])[part]);
    for (std::size_t i = 0; i < layouts.size(); ++i)
      out_.push_back(draw.before(i, layouts[i])[part]);
    try {
      runner_.run(in_, out_);
    } catch (const Error&) {
      return false;
    }
    for (std::size_t i = 0; i < layouts.size(); ++i) unpack(out_[i], outputs_[i]);
    return true;
  }

  void observe(Draw& draw, std::size_t output, const Sbp& layout, std::size_t part,
               Verdict& verdict) const {
    const std::vector<double>& found = outputs_[output];
    if (verdict.may_be_box)
      verdict.may_be_box = agrees(draw, output, found, draw.wanted(output, layout)[part].values);
    if (layout.is_split()) return;
    for (const Sbp& word : {kSum, kMax, kMin}) {
      std::vector<double>& total = verdict.reduced[static_cast<std::size_t>(word.reduce)];
      if (part == 0) {
        total = found;
        continue;
      }
      for (std::size_t i = 0; i < total.size(); ++i)
        total[i] = reduced(word.reduce, total[i], found[i], on_.outputs[output].dtype);
    }
  }

  bool survives(const Draw& draw, std::size_t output, const Sbp& word,
                const Verdict& verdict) const {
    if (!word.is_partial()) return verdict.may_be_box;
    return agrees(draw, output, verdict.reduced[static_cast<std::size_t>(word.reduce)],
                  draw.run.outputs[output].values);
  }

  bool agrees(const Draw& draw, std::size_t output, const std::vector<double>& found,
              const std::vector<double>& wanted) const {
    const DType dtype = on_.outputs[output].dtype;
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!agree(found[i], wanted[i], draw.largest[output], dtype)) return false;
    return true;
  }

  const SignatureCase& on_;
  std::int64_t parts_;
  OperatorRunner runner_;
  Random random_;
  std::vector<Draw> draws_;
  // Of the part that runs.
  std::vector<const PackedPiece*> in_;
  std::vector<PackedPiece> out_;
  std::vector<std::vector<double>> outputs_;
};

}  // namespace

bool is_free_step(const Sbp& from, const Sbp& to) {
  return from == to || from.is_broadcast() || (from.is_split() && to.is_partial());
}

bool follows(const SbpSignature& row, const SbpSignature& claimed) {
  for (std::size_t i = 0; i < row.inputs.size(); ++i)
    if (!is_free_step(row.inputs[i], claimed.inputs[i])) return false;
  for (std::size_t i = 0; i < row.outputs.size(); ++i)
    if (!is_free_step(claimed.outputs[i], row.outputs[i])) return false;
  return true;
}

ShapeRule shape_rule_of(const std::vector<SignatureCase>& cases) {
  ShapeRule rule = ShapeRule::kInfer;
  for (const SignatureCase& on : cases)
    for (const SbpSignature& row : on.rows)
      for (const std::int64_t parts : {2, 3}) {
        const std::vector<const SbpSignature*> one = {&row};
        if (!fits(one, Hierarchy{parts})) continue;
        while (rule != ShapeRule::kNone &&
               !is_consistent(on, layouts_of(row.inputs), layouts_of(row.outputs), parts, rule))
          rule = static_cast<ShapeRule>(static_cast<int>(rule) + 1);
      }
  return rule;
}

std::vector<SbpSignature> sound_rows(const SignatureCase& on, std::int64_t parts, ShapeRule rule) {
  Search search(on, parts);
  std::vector<SbpSignature> rows;
  for (const Layouts& layouts : all_layouts(on, parts, rule)) search.add_rows(layouts, rows);
  return rows;
}

}  // namespace sextant
