// First which products are cut, then the graph once more with their pieces.
//
// y = x w, pending over tp and read as B, in two pieces:
//   x -> slice -> matmul -> (all_reduce) -> concat -> y
//   x -> slice -> matmul -> (all_reduce) ->
// Read as split along the dim that is cut (sequence parallelism), over n parts: x is seen as
// [batch, n, sequence / n, k] and cut in its third dim, so that a piece holds a share of each part.
#include "compiler/words/product_pieces.h"

#include "compiler/strategy/schedule.h"
#include "compiler/training/autodiff.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "core/base/divisors.h"
#include "core/base/nearest.h"
#include "core/graphs/graph_rewriter.h"
#include "core/graphs/operator.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace sextant {
namespace {

// What is cut as one: a product, or a sum of products, with nothing else inside.
struct Group {
  std::vector<OpId> members;  // in order of the graph; the last makes what is boxed
  NdSbp boxed;                // the words in which that is read
  std::int64_t parts = 1;     // that these words make of the dim that is cut
  std::int64_t extent = 0;    // of the dim in each of them

  OpId root() const { return members.back(); }
  bool has(OpId op) const { return std::binary_search(members.begin(), members.end(), op); }
};

class GroupFinder {
 public:
  GroupFinder(const LogicalGraph& training, const Strategy& strategy,
              const std::vector<int>& stage_of_layer, const WordAssignment& inferred,
              const StrategyWords& words)
      : training_(training),
        strategy_(strategy),
        stage_of_layer_(stage_of_layer),
        inferred_(inferred),
        words_(words),
        tp_(axes_of(strategy).tensor_parallel()),
        cuts_backward_(splits_backward(strategy.schedule) || strategy.sequence_parallel),
        rates_(rates_of(training)) {}

  std::map<OpId, Group> find() {  // by root
    std::map<OpId, Group> groups;
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      std::optional<Group> group = group_of(OpId(index));
      if (group) groups.emplace(OpId(index), std::move(*group));
    }
    while (drop_unequal_repetitions(groups)) {
    }
    require(!groups.empty(), ErrorCode::kInfeasible,
            "pieces={}: no product of the model is pending over tp={} and boxed for its readers",
            strategy_.pieces, strategy_.tp);
    for (const auto& [root, group] : groups) require_pieces(group);
    return groups;
  }

 private:
  const NdSbp& made(TensorId tensor) const {
    const LogicalTensor& logical = training_.tensor(tensor);
    return inferred_.of(logical.producer).outputs[logical.output_index];
  }
  bool is_pending(TensorId tensor) const {
    return std::all_of(tp_.begin(), tp_.end(),
                       [&](std::size_t axis) { return made(tensor)[axis] == Sbp::partial(); }) &&
           training_.tensor(tensor).type.shape.rank() >= 2 &&
           words_.constraints.tensors.count(tensor) == 0;
  }
  int stage(const LogicalOp& op) const { return at(stage_of_layer_, op.layer); }

  std::optional<Group> group_of(OpId root) const {
    const LogicalOp& op = training_.op(root);
    if (rates_[root.index()] == Rate::kPerStep || op.outputs.size() != 1) return std::nullopt;
    if (op.phase == Phase::kInputGrad && !cuts_backward_) return std::nullopt;
    const std::optional<NdSbp> boxed = boxed_words(op);
    Group group;
    if (!boxed || !collect(root, group)) return std::nullopt;
    std::sort(group.members.begin(), group.members.end());
    const Shape& shape = training_.tensor(op.outputs[0]).type.shape;
    const std::size_t dim = shape.rank() - 2;
    const std::vector<MeshAxis> axes = mesh_axes(strategy_);
    for (std::size_t axis = 0; axis < axes.size(); ++axis)
      if ((*boxed)[axis].is_split() && (*boxed)[axis].dim == dim) group.parts *= axes[axis].extent;
    group.boxed = *boxed;
    group.extent = shape[dim];
    return group;
  }

  // In which all readers on the stage want it, if that differs from how it is made over tp alone.
  std::optional<NdSbp> boxed_words(const LogicalOp& op) const {
    const TensorId tensor = op.outputs[0];
    const auto uses = training_.uses(tensor);
    if (!is_pending(tensor) || uses.empty()) return std::nullopt;
    NdSbp boxed = inferred_.of(uses[0].op).inputs[uses[0].input];
    for (const LogicalGraph::Use& use : uses)
      if (inferred_.of(use.op).inputs[use.input] != boxed ||
          stage(training_.op(use.op)) != stage(op) || rates_[use.op.index()] == Rate::kPerStep)
        return std::nullopt;
    const Sbp inner = boxed[tp_.back()];
    NdSbp whole = boxed;
    for (const std::size_t axis : tp_) {
      if (boxed[axis].is_partial()) return std::nullopt;
      whole[axis] = Sbp::partial();
    }
    // A split over tp inside of another one has a nesting position that the other one needs no
    // more.
    for (Sbp& word : whole)
      if (word.is_split() && word.dim == inner.dim && inner.is_split()) word.nesting = 0;
    return whole == made(tensor) ? std::optional(std::move(boxed)) : std::nullopt;
  }

  // The products that a pending tensor is the sum of; false if it is something else.
  bool collect(OpId id, Group& group) const {
    const LogicalOp& op = training_.op(id);
    group.members.push_back(id);
    if (op.role == OperatorRole::kProduct) return true;
    if (op.role != OperatorRole::kSum) return false;
    const LogicalTensor& sum = training_.tensor(op.outputs[0]);
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
      const LogicalTensor& term = training_.tensor(input);
      return term.type.shape == sum.type.shape && is_pending(input) &&
             training_.uses(input).size() == 1 && made(input) == made(op.outputs[0]) &&
             stage(training_.op(term.producer)) == stage(op) &&
             training_.op(term.producer).phase == op.phase &&
             training_.op(term.producer).layer == op.layer && collect(term.producer, group);
    });
  }

  // A repetition has the words of what it repeats, so both are cut or none.
  bool drop_unequal_repetitions(std::map<OpId, Group>& groups) const {
    std::map<OpId, OpId> root_of;  // by member
    for (const auto& [root, group] : groups)
      for (const OpId member : group.members) root_of[member] = root;
    const auto equal = [&](OpId a, OpId b) {
      const auto of_a = root_of.find(a), of_b = root_of.find(b);
      if (of_a == root_of.end() || of_b == root_of.end())
        return of_a == root_of.end() && of_b == root_of.end();
      const Group &first = groups.at(of_a->second), &second = groups.at(of_b->second);
      return std::equal(
          first.members.begin(), first.members.end(), second.members.begin(), second.members.end(),
          [&](OpId own, OpId original) { return training_.op(own).recompute_of == original; });
    };
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const std::optional<OpId>& original = training_.ops()[index].recompute_of;
      if (!original || equal(OpId(index), *original)) continue;
      for (const OpId op : {OpId(index), *original})
        if (const auto found = root_of.find(op); found != root_of.end())
          groups.erase(found->second);
      return true;
    }
    return false;
  }

  void require_pieces(const Group& group) const {
    const LogicalOp& op = training_.op(group.root());
    const std::string dim = fmt::format("pieces={}: operator '{}' ({}) makes {} along dim {} of {}",
                                        strategy_.pieces, op.name, op.kind, group.extent,
                                        training_.tensor(op.outputs[0]).type.shape.rank() - 2,
                                        to_string(training_.tensor(op.outputs[0]).type.shape));
    require(group.extent % group.parts == 0, ErrorCode::kInfeasible,
            "{}, which is boxed to {}: pieces want {} equal parts; parts that would do: {}", dim,
            to_string(group.boxed), group.parts, comma_list(divisors_of(group.extent)));
    const std::int64_t most = group.extent / group.parts;
    require(strategy_.pieces <= most, ErrorCode::kInfeasible, "{}{}; pieces that would do: 1 to {}",
            dim, group.parts == 1 ? "" : fmt::format(" in {} parts", group.parts), most);
  }

  const LogicalGraph& training_;
  const Strategy& strategy_;
  const std::vector<int>& stage_of_layer_;
  const WordAssignment& inferred_;
  const StrategyWords& words_;
  const std::vector<std::size_t> tp_;
  // Weight gradients that run in the same cell hide what backward reduces, at no price; not where
  // the schedule puts them elsewhere, and not the twice as many collectives of sequence
  // parallelism.
  const bool cuts_backward_;
  const std::vector<Rate> rates_;
};

class Cutter {
 public:
  Cutter(const LogicalGraph& training, std::int64_t pieces, const std::map<OpId, Group>& groups,
         const WordAssignment& inferred, const StrategyWords& words)
      : training_(training),
        pieces_(pieces),
        groups_(groups),
        inferred_(inferred),
        words_(words),
        is_member_(training.ops().size(), false),
        rewriter_(training) {
    for (const auto& [root, group] : groups)
      for (const OpId member : group.members) is_member_[member.index()] = true;
    result_.constraints.whole_groups = words.constraints.whole_groups;
  }

  GraphWithWords run() {
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const auto group = groups_.find(OpId(index));
      if (group != groups_.end())
        cut(group->second);
      else if (!is_member_[index])
        copy(OpId(index));
    }
    return {std::move(rewriter_).finish(), std::move(result_)};
  }

 private:
  LogicalGraph& graph() { return rewriter_.graph(); }
  WordConstraints& constraints() { return result_.constraints; }
  const Shape& shape(TensorId tensor) { return graph().tensor(tensor).type.shape; }

  void copy(OpId id) {
    const OpId copied = rewriter_.copy(id);
    for (const TensorId output : training_.op(id).outputs) keep_words(output);
    if (words_.constraints.shared_groups.count(id) != 0) constraints().shared_groups.insert(copied);
    for (std::size_t i = 0; i < training_.op(id).inputs.size(); ++i) {
      copy_entry(words_.constraints.inputs, {id, i}, {copied, i}, constraints().inputs);
      copy_entry(words_.constraints.inputs_on_axis, {id, i}, {copied, i},
                 constraints().inputs_on_axis);
    }
  }

  template <typename Key, typename Value>
  static void copy_entry(const std::map<Key, Value>& from, const Key& key, const Key& to,
                         std::map<Key, Value>& result) {
    if (const auto found = from.find(key); found != from.end()) result.emplace(to, found->second);
  }

  // What is said of a tensor holds for its copy.
  void keep_words(TensorId original) {
    const TensorId tensor = rewriter_.copied(original);
    copy_entry(words_.constraints.tensors, original, tensor, constraints().tensors);
    copy_entry(words_.times.sum_in, original, tensor, result_.times.sum_in);
    if (words_.times.per_use.count(original) != 0) result_.times.per_use.insert(tensor);
  }

  // An operator of a group, which reads its inputs in these words. A repetition has those of what
  // it repeats.
  TensorId add(const Group& group, const LogicalOp& origin, std::string kind,
               const std::string& name, std::vector<TensorId> inputs, std::vector<NdSbp> words,
               Attributes attributes) {
    const LogicalOp& root = training_.op(group.root());
    std::vector<OpId>& made = made_[group.root()];
    std::optional<OpId> repeats;
    if (root.recompute_of) repeats = made_.at(*root.recompute_of).at(made.size());
    const OpId id = rewriter_.add_part(origin, std::move(kind), unused_name(graph(), name),
                                       std::move(inputs), std::move(attributes), repeats);
    made.push_back(id);
    for (std::size_t i = 0; i < words.size() && !repeats; ++i)
      constraints().inputs[{id, i}] = std::move(words[i]);
    return graph().output(id);
  }

  void cut(const Group& group) {
    const LogicalOp& root = training_.op(group.root());
    const std::size_t dim = training_.tensor(root.outputs[0]).type.shape.rank() - 2;
    cut_dim_ = group.parts == 1 ? dim : dim + 1;
    std::vector<TensorId> joined;
    std::vector<std::int64_t> extents;
    for (std::int64_t piece = 0; piece < pieces_; ++piece) {
      const Interval part = balanced_part(group.extent / group.parts, pieces_, piece);
      extents.push_back(part.extent);
      joined.push_back(add_piece(group, piece, part));
    }
    const std::string name = root.name + (group.parts == 1 ? "" : ".joined");
    TensorId whole =
        add(group, root, "concat", name, joined,
            std::vector<NdSbp>(joined.size(), in_parts(group, group.boxed, dim)),
            {{"dim", static_cast<std::int64_t>(cut_dim_)}, {"extents", std::move(extents)}});
    if (group.parts > 1)
      whole = add(group, root, "reshape", root.name, {whole}, {in_parts(group, group.boxed, dim)},
                  {{"shape", training_.tensor(root.outputs[0]).type.shape.extents()}});
    rewriter_.stand_for(group.root(), graph().tensor(whole).producer);
    keep_words(root.outputs[0]);
  }

  // Products and sums of one piece.
  TensorId add_piece(const Group& group, std::int64_t piece, const Interval& part) {
    std::map<TensorId, TensorId> made;  // by the whole
    TensorId last;
    for (const OpId member : group.members) {
      const LogicalOp& op = training_.op(member);
      const OpWords& words = inferred_.of(member);
      std::vector<TensorId> inputs;
      std::vector<NdSbp> input_words;
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const auto term = made.find(op.inputs[i]);
        const bool is_weight = op.role == OperatorRole::kProduct && i == 1;
        if (term != made.end())
          inputs.push_back(term->second);
        else
          inputs.push_back(is_weight ? rewriter_.copied(op.inputs[i])
                                     : add_slice(group, op, piece, part));
        input_words.push_back(is_weight ? words.inputs[i]
                                        : in_parts(group, words.inputs[i], row_dim(op)));
      }
      last = add(group, op, op.kind, fmt::format("{}.piece{}", op.name, piece), std::move(inputs),
                 std::move(input_words), op.attributes);
      made[op.outputs[0]] = last;
    }
    return last;
  }

  std::size_t row_dim(const LogicalOp& op) const {
    return training_.tensor(op.outputs[0]).type.shape.rank() - 2;
  }

  TensorId add_slice(const Group& group, const LogicalOp& product, std::int64_t piece,
                     const Interval& part) {
    const OpId id = training_.tensor(product.outputs[0]).producer;
    const NdSbp words = inferred_.of(id).inputs[0];
    TensorId x = rewriter_.copied(product.inputs[0]);
    // Each piece for itself, so that a device that reads strided operands copies nothing.
    if (group.parts > 1) x = add_view(group, product, piece, x, words);
    return add(group, product, "slice", fmt::format("{}.rows{}", product.name, piece), {x},
               {in_parts(group, words, row_dim(product))},
               {{"dim", static_cast<std::int64_t>(cut_dim_)},
                {"start", part.offset},
                {"stop", part.end()}});
  }

  TensorId add_view(const Group& group, const LogicalOp& product, std::int64_t piece, TensorId x,
                    const NdSbp& words) {
    std::vector<std::int64_t> extents = shape(x).extents();
    const auto dim = static_cast<std::ptrdiff_t>(row_dim(product));
    extents[row_dim(product)] /= group.parts;
    extents.insert(extents.begin() + dim, group.parts);
    return add(group, product, "reshape", fmt::format("{}.parts{}", product.name, piece), {x},
               {words}, {{"shape", std::move(extents)}});
  }

  // The words of a tensor for the view of it that has a dim of parts before the one that is cut.
  static NdSbp in_parts(const Group& group, NdSbp words, std::size_t dim) {
    if (group.parts == 1) return words;
    for (Sbp& word : words)
      if (word.is_split() && word.dim > dim) ++word.dim;
    return words;
  }

  const LogicalGraph& training_;
  const std::int64_t pieces_;
  const std::map<OpId, Group>& groups_;
  const WordAssignment& inferred_;
  const StrategyWords& words_;
  std::vector<bool> is_member_;
  GraphRewriter rewriter_;
  StrategyWords result_;
  std::map<OpId, std::vector<OpId>> made_;  // by root, what the group became, in order
  std::size_t cut_dim_ = 0;                 // of the group at hand
};

}  // namespace

GraphWithWords cut_products(const LogicalGraph& training, const Strategy& strategy,
                            const std::vector<int>& stage_of_layer, const WordAssignment& inferred,
                            const StrategyWords& words) {
  const std::map<OpId, Group> groups =
      GroupFinder(training, strategy, stage_of_layer, inferred, words).find();
  return Cutter(training, strategy.pieces, groups, inferred, words).run();
}

}  // namespace sextant
