// Products of one-axis rows.
#include "core/base/check.h"
#include "sbp/inference.h"

#include <algorithm>
#include <optional>

namespace sextant {
namespace {

bool splits_nothing(const SbpSignature& row) {
  const auto is_broadcast = [](const Sbp& word) { return word.is_broadcast(); };
  return std::all_of(row.inputs.begin(), row.inputs.end(), is_broadcast) &&
         std::all_of(row.outputs.begin(), row.outputs.end(), is_broadcast);
}

bool holds_two_reductions(const NdSbp& words) {
  std::optional<ReduceOp> first;
  for (const Sbp& word : words) {
    if (!word.is_partial()) continue;
    if (first && *first != word.reduce) return true;
    first = word.reduce;
  }
  return false;
}

// Axes that split the dim that `axis` splits, this one included.
std::size_t splits_of_dim(const NdSbp& words, std::size_t axis) {
  return static_cast<std::size_t>(std::count_if(words.begin(), words.end(), [&](const Sbp& word) {
    return word.is_split() && word.dim == words[axis].dim;
  }));
}

// Every tensor of the operator with its splits nested in the given order of axes, outermost first.
NdSbp nested(NdSbp words, const std::vector<std::size_t>& outermost_first) {
  const NdSbp plain = words;
  for (std::size_t axis = 0; axis < words.size(); ++axis) {
    if (!plain[axis].is_split() || splits_of_dim(plain, axis) < 2) continue;
    int position = 0;
    for (const std::size_t other : outermost_first) {
      if (plain[other].is_split() && plain[other].dim == plain[axis].dim) ++position;
      if (other == axis) break;
    }
    words[axis].nesting = static_cast<std::uint8_t>(position);
  }
  return canonical(std::move(words));
}

class Products {
 public:
  Products(const std::vector<SbpSignature>& rows, std::span<const std::int64_t> hierarchy)
      : rows_(rows), hierarchy_(hierarchy), chosen_(hierarchy.size(), nullptr) {
    const auto at = std::find_if(rows.begin(), rows.end(), splits_nothing);
    require(at != rows.end(), ErrorCode::kInternal, "an operator without a row of broadcasts");
    whole_ = &*at;
  }

  std::vector<OpWords> run() {
    choose(0);
    return std::move(products_);
  }

 private:
  void choose(std::size_t axis) {
    if (axis == hierarchy_.size()) return add();
    if (hierarchy_[axis] == 1) {
      chosen_[axis] = whole_;
      return choose(axis + 1);
    }
    for (const SbpSignature& row : rows_) {
      chosen_[axis] = &row;
      choose(axis + 1);
    }
  }

  void add() {
    OpWords words;
    const auto collect = [&](std::size_t count, auto word_of, std::vector<NdSbp>& all) {
      for (std::size_t i = 0; i < count; ++i) {
        all.emplace_back();
        for (const SbpSignature* row : chosen_) all.back().push_back(word_of(*row, i));
      }
    };
    collect(
        whole_->inputs.size(), [](const SbpSignature& row, std::size_t i) { return row.inputs[i]; },
        words.inputs);
    collect(
        whole_->outputs.size(),
        [](const SbpSignature& row, std::size_t i) { return row.outputs[i]; }, words.outputs);
    for (const auto* side : {&words.inputs, &words.outputs})
      if (std::any_of(side->begin(), side->end(), holds_two_reductions)) return;
    add_nesting_orders(words);
  }

  // The rows of an outer axis act on the whole operator, those of an inner one on its parts: any
  // order of the axes is as good, as long as all tensors keep to it and no row cuts the groups of
  // one inside of it.
  void add_nesting_orders(const OpWords& words) {
    std::vector<std::size_t> order;
    for (std::size_t axis = 0; axis < hierarchy_.size(); ++axis)
      if (splits_with_others(words, axis)) order.push_back(axis);
    if (order.empty()) {
      if (fits(chosen_, hierarchy_, order)) products_.push_back(words);
      return;
    }
    const std::size_t first = products_.size();
    do {
      if (!fits(chosen_, hierarchy_, order)) continue;
      OpWords product = words;
      for (auto* side : {&product.inputs, &product.outputs})
        for (NdSbp& tensor : *side) tensor = nested(std::move(tensor), order);
      if (std::find(products_.begin() + static_cast<std::ptrdiff_t>(first), products_.end(),
                    product) == products_.end())
        products_.push_back(std::move(product));
    } while (std::next_permutation(order.begin(), order.end()));
  }

  static bool splits_with_others(const OpWords& words, std::size_t axis) {
    for (const auto* side : {&words.inputs, &words.outputs})
      for (const NdSbp& tensor : *side)
        if (tensor[axis].is_split() && splits_of_dim(tensor, axis) > 1) return true;
    return false;
  }

  const std::vector<SbpSignature>& rows_;
  std::span<const std::int64_t> hierarchy_;
  const SbpSignature* whole_ = nullptr;
  std::vector<const SbpSignature*> chosen_;
  std::vector<OpWords> products_;
};

}  // namespace

std::vector<OpWords> nd_signatures(const OperatorDef& def, std::span<const TensorType> inputs,
                                   std::span<const TensorType> outputs,
                                   const Attributes& attributes,
                                   std::span<const std::int64_t> hierarchy) {
  return nd_products(def.signatures(inputs, outputs, attributes), hierarchy);
}

std::vector<OpWords> nd_products(const std::vector<SbpSignature>& rows,
                                 std::span<const std::int64_t> hierarchy) {
  if (rows.empty()) return {};
  return Products(rows, hierarchy).run();
}

std::optional<std::size_t> ring_axis(const OperatorDef& def, std::span<const TensorType> inputs,
                                     std::span<const TensorType> outputs,
                                     const Attributes& attributes, const OpWords& words,
                                     std::span<const std::int64_t> hierarchy) {
  if (!def.has_ring) return std::nullopt;
  for (const SbpSignature& row : def.signatures(inputs, outputs, attributes))
    for (std::size_t axis = 0; axis < hierarchy.size(); ++axis)
      if (row.ring != 0 && row.ring == hierarchy[axis] && words.inputs[0][axis] == row.inputs[0] &&
          words.outputs[0][axis] == row.outputs[0])
        return axis;
  return std::nullopt;
}

}  // namespace sextant
