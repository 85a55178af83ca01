// The cheapest product of rows per operator, in topological order. Equal situations (kind, types,
// attributes, words of the inputs) are decided once, so a hundred equal layers cost like one.
#include "sbp/inference.h"

#include "core/base/check.h"
#include "core/base/divisors.h"
#include "core/base/nearest.h"
#include "core/tensors/mesh_boxes.h"
#include "sbp/boxing_plans.h"
#include "sbp/given_words.h"
#include "sbp/key.h"
#include "sbp/mesh_state.h"
#include "sbp/word_lists.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kImpossible = std::numeric_limits<std::int64_t>::max();

// How many readers in a row may hand a split on before one has an operand that is split so: a
// scale, a cast and a change of shape stand between the gradient of a mean and the operator before
// it.
constexpr int kLookAhead = 4;

using Candidate = WordCandidate;

struct Candidates {
  const WordList* list = nullptr;
  std::vector<std::optional<std::size_t>> taken;  // by candidate: number in the assignment
};

// A layout in which a tensor exists once an operator has made or wanted it.
struct Version {
  std::uint64_t mesh = 0;  // number of the placement
  MeshState state;
  bool operator==(const Version&) const = default;
};

struct Cost {
  // Moved in front of the operator, or owed for a reduction that it passes on.
  std::int64_t bytes = 0;
  std::int64_t later = 0;     // moved behind it, where its readers' words are given
  std::int64_t elements = 0;  // that the device with the largest parts reads and writes
  auto operator<=>(const Cost&) const = default;
};

class Inference {
 public:
  Inference(const LogicalGraph& graph, const std::vector<Placement>& stages,
            const std::vector<int>& stage_of_layer, const WordConstraints& constraints,
            BoxingPlans& plans)
      : graph_(graph),
        stages_(stages),
        stage_of_layer_(stage_of_layer),
        constraints_(constraints),
        given_(graph, stages, stage_of_layer, constraints),
        plans_(plans) {
    for (const Placement& stage : stages) {
      extents_.push_back(stage.hierarchy());
      Key key;
      for (const std::int64_t extent : extents_.back())
        key.push_back(static_cast<std::uint64_t>(extent));
      shape_of_mesh_.push_back(mesh_shapes_.of(key));
      meshes_.push_back(plans_.placement(stage));
    }
    for (const LogicalTensor& tensor : graph.tensors()) types_.push_back(plans_.type(tensor.type));
    versions_.resize(graph.tensors().size());
    plans_.word_lists().trim();
  }

  WordAssignment run() {
    for (std::size_t index = 0; index < graph_.ops().size(); ++index) decide(OpId(index));
    return std::move(assignment_);
  }

 private:
  const LogicalTensor& tensor(TensorId id) const { return graph_.tensor(id); }

  std::uint64_t type_number(TensorId id) const {
    return static_cast<std::uint64_t>(types_[id.index()].value);
  }

  std::size_t mesh_of(const LogicalOp& op) const {
    return sextant::mesh_of(op, stages_, stage_of_layer_);
  }

  void decide(OpId id) {
    const LogicalOp& op = graph_.op(id);
    if (op.recompute_of) return repeat(op);
    const std::size_t mesh = mesh_of(op);
    Candidates& candidates = candidates_of(op, mesh);
    const WordList& list = *candidates.list;
    if (list.all.empty()) return decide_source(op, mesh);
    describe_situation(id, mesh, list);
    auto known = decisions_.find(key_);
    if (known == decisions_.end()) {
      Key key = key_;
      known = decisions_.emplace(std::move(key), cheapest(id, mesh, list)).first;
    }
    const Candidate& chosen = list.all[known->second];
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
    const LogicalOp& original = graph_.op(*op.recompute_of);
    assignment_.add_copy_of(*op.recompute_of);
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      versions_[op.outputs[i].index()] = versions_[original.outputs[i].index()];
  }

  void decide_source(const LogicalOp& op, std::size_t mesh) {
    OpWords words;
    for (const TensorId output : op.outputs) {
      const MeshState state = given_.tensor(output).value_or(MeshState());
      require(!state.has_partial(), ErrorCode::kInfeasible,
              "operator '{}' ({}) cannot make '{}' partial: a source holds whole values", op.name,
              op.kind, tensor(output).name);
      words.outputs.push_back(state.words(extents_[mesh].size()));
      add_version(output, {mesh, state});
    }
    assignment_.add(std::move(words));
  }

  void add_version(TensorId id, const Version& version) {
    std::vector<Version>& versions = versions_[id.index()];
    if (std::find(versions.begin(), versions.end(), version) == versions.end())
      versions.push_back(version);
  }

  Candidates& candidates_of(const LogicalOp& op, std::size_t mesh) {
    key_ = {shape_of_mesh_[mesh], op.inputs.size()};
    append_text(key_, op.kind);
    for (const auto* side : {&op.inputs, &op.outputs})
      for (const TensorId id : *side) key_.push_back(type_number(id));
    for (const auto& [name, value] : op.attributes.entries()) {
      append_text(key_, name);
      append_value(key_, value);
    }
    const auto known = candidates_.find(key_);
    if (known != candidates_.end()) return *known->second;
    Key key = key_;
    return *candidates_.emplace(std::move(key), &shared_candidates(op, mesh)).first->second;
  }

  // Attributes may differ in what words do not depend on (the name of a parameter): lists are made
  // once per distinct rows.
  Candidates& shared_candidates(const LogicalOp& op, std::size_t mesh) {
    std::vector<TensorType> inputs, outputs;
    for (const TensorId id : op.inputs) inputs.push_back(tensor(id).type);
    for (const TensorId id : op.outputs) outputs.push_back(tensor(id).type);
    const std::vector<SbpSignature> rows =
        graph_.registry().get(op.kind).signatures(inputs, outputs, op.attributes);
    Key content = {extents_[mesh].size(), op.inputs.size()};
    for (const std::int64_t extent : extents_[mesh])
      content.push_back(static_cast<std::uint64_t>(extent));
    for (const auto* side : {&op.inputs, &op.outputs})
      for (const TensorId id : *side) content.push_back(type_number(id));
    for (const SbpSignature& row : rows) {
      content.push_back(static_cast<std::uint64_t>(row.divisible));
      content.push_back(static_cast<std::uint64_t>(row.ring));
      for (const auto* side : {&row.inputs, &row.outputs})
        for (const Sbp& word : *side)
          content.push_back(static_cast<std::uint64_t>(word.kind) << 16U |
                            static_cast<std::uint64_t>(word.dim) << 8U |
                            static_cast<std::uint64_t>(word.reduce));
    }
    const WordList& list = plans_.word_lists().list(
        content, [&] { return made_list(rows, inputs, outputs, extents_[mesh]); });
    Candidates& own = by_list_[list.number];
    own.list = &list;
    own.taken.resize(list.all.size());
    return own;
  }

  static WordList made_list(const std::vector<SbpSignature>& rows,
                            const std::vector<TensorType>& inputs,
                            const std::vector<TensorType>& outputs,
                            const std::vector<std::int64_t>& extents) {
    WordList list;
    list.invents = std::any_of(rows.begin(), rows.end(), makes_split_of_whole);
    for (OpWords& words : nd_products(rows, extents)) {
      Candidate candidate;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        candidate.inputs.emplace_back(words.inputs[i], extents, inputs[i].shape);
      for (std::size_t i = 0; i < outputs.size(); ++i)
        candidate.outputs.emplace_back(words.outputs[i], extents, outputs[i].shape);
      candidate.words = std::move(words);
      list.all.push_back(std::move(candidate));
    }
    return list;
  }

  // Everything that `cheapest` looks at, into key_.
  void describe_situation(OpId id, std::size_t mesh, const WordList& candidates) {
    const LogicalOp& op = graph_.op(id);
    key_ = {candidates.number, waits_for_step(op) ? 1U : 0U, shares_groups(id) ? 1U : 0U};
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const std::vector<Version>& versions = versions_[op.inputs[i].index()];
      key_.push_back(versions.size());
      for (const Version& version : versions) {
        key_.push_back(version.mesh == mesh ? 0 : shape_of_mesh_[version.mesh] + 1);
        key_.push_back(version.state.code());
      }
      given_.describe({id, i}, key_);
    }
    if (candidates.invents)
      for (const Candidate& candidate : candidates.all)
        key_.push_back(is_anchored(id, mesh, candidate) ? 1 : 0);
    for (const TensorId output : op.outputs) {
      describe_given(given_.tensor(output));
      for (const LogicalGraph::Use& use : graph_.uses(output)) {
        const std::optional<MeshState>& wanted = given_.input({use.op, use.input});
        if (!wanted) continue;
        const std::size_t there = mesh_of(graph_.op(use.op));
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
    Cost best_cost;
    for (std::size_t i = 0; i < candidates.all.size(); ++i) {
      const Candidate& candidate = candidates.all[i];
      if (!honours_given_words(id, candidate) || !is_anchored(id, mesh, candidate)) continue;
      Cost cost;
      cost.bytes = bytes_before(id, mesh, candidate);
      if (cost.bytes == kImpossible) continue;
      cost.bytes += owed(graph_.op(id), mesh, candidate);
      cost.later = bytes_behind(graph_.op(id), mesh, candidate);
      cost.elements = elements(graph_.op(id), mesh, candidate);
      if (best && cost >= best_cost) continue;
      best = i;
      best_cost = cost;
    }
    if (!best) refuse(id, mesh, candidates);
    if (constraints_.whole_groups) require_whole_groups(id, mesh, candidates.all[*best]);
    return *best;
  }

  bool shares_groups(OpId id) const { return constraints_.shared_groups.count(id) != 0; }

  // Would `parts` cut a group of the row, and is that to be refused rather than gathered?
  bool cuts_groups(OpId id, const SbpSignature& row, std::int64_t parts) const {
    if (row.divisible == 0 || row.divisible % parts == 0) return false;
    return !shares_groups(id) || parts % row.divisible != 0;
  }

  void require_whole_groups(OpId id, std::size_t mesh, const Candidate& chosen) const {
    const LogicalOp& op = graph_.op(id);
    for (const SbpSignature& row : rows_of(op))
      for (std::size_t axis = 0; axis < extents_[mesh].size(); ++axis)
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
          const std::int64_t parts = extents_[mesh][axis];
          if (!cuts_groups(id, row, parts) || !row.inputs[i].is_split() ||
              !chosen.inputs[i].is_broadcast(axis) || given_.says({id, i}, axis))
            continue;
          for (const Version& version : versions_[op.inputs[i].index()])
            if (version.mesh == mesh && version.state.is_split(axis) &&
                version.state.dim(axis) == row.inputs[i].dim)
              refuse_cut(id, i, stages_[mesh].axes[axis], row);
        }
  }

  [[noreturn]] void refuse_cut(OpId id, std::size_t input, const MeshAxis& axis,
                               const SbpSignature& row) const {
    const LogicalOp& op = graph_.op(id);
    std::string would_do = comma_list(divisors_of(row.divisible));
    if (shares_groups(id))
      would_do += fmt::format(", multiples of {} that cut no other groups", row.divisible);
    const std::string hint = fmt::format("{} that would do: {}", axis.name, would_do);
    throw Error(
        ErrorCode::kInfeasible,
        fmt::format("operator '{}' ({}) cannot keep {} of '{}' over {}={}: the parts would "
                    "cut one of {} groups; {}",
                    op.name, op.kind, to_string(row.inputs[input]), tensor(op.inputs[input]).name,
                    axis.name, axis.extent, row.divisible, hint),
        {hint});
  }

  bool honours_given_words(OpId id, const Candidate& candidate) const {
    const LogicalOp& op = graph_.op(id);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (!given_.allows({id, i}, candidate.inputs[i])) return false;
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const std::optional<MeshState>& given = given_.tensor(op.outputs[i]);
      if (given && candidate.outputs[i] != *given) return false;
    }
    return true;
  }

  static bool is_split(const Sbp& word) { return word.is_split(); }

  static bool makes_split_of_whole(const SbpSignature& row) {
    return std::all_of(row.inputs.begin(), row.inputs.end(),
                       [](const Sbp& word) { return word.is_broadcast(); }) &&
           std::any_of(row.outputs.begin(), row.outputs.end(), is_split);
  }

  // Words other than B are taken over, not invented: on every axis some input that the row splits
  // or reduces is so already, or is given so. Where all are read whole, what stands behind the
  // operator has to be split so.
  bool is_anchored(OpId id, std::size_t mesh, const Candidate& candidate) const {
    const LogicalOp& op = graph_.op(id);
    const auto is_given = [&](TensorId output) { return given_.tensor(output).has_value(); };
    if (std::any_of(op.outputs.begin(), op.outputs.end(), is_given)) return true;
    for (std::size_t axis = 0; axis < extents_[mesh].size(); ++axis) {
      bool wants = false, has = false;
      for (std::size_t i = 0; i < op.inputs.size() && !has; ++i) {
        if (candidate.inputs[i].is_broadcast(axis)) continue;
        wants = true;
        has = given_.says({id, i}, axis);
        for (const Version& version : versions_[op.inputs[i].index()])
          has = has || is_same_word(version.state, candidate.inputs[i], axis);
      }
      if (wants && !has) return false;
      if (!wants && !has && !is_awaited(op, candidate, axis)) return false;
    }
    return true;
  }

  // Whether every word of the outputs on this axis is B or awaited.
  bool is_awaited(const LogicalOp& op, const Candidate& candidate, std::size_t axis) const {
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      if (!candidate.outputs[i].is_broadcast(axis) &&
          !is_awaited(op.outputs[i], candidate.words.outputs[i][axis], axis, kLookAhead))
        return false;
    return true;
  }

  // Whether some reader of the tensor has an operand beside it that is split so that the reader
  // would take `word`, or is given that word, or hands it on to such a reader. So the gradient of a
  // sum is split as what was summed is: that is what the next gradient is computed from.
  bool is_awaited(TensorId id, const Sbp& word, std::size_t axis, int readers_ahead) const {
    for (const LogicalGraph::Use& use : graph_.uses(id)) {
      const std::optional<MeshState>& given = given_.input({use.op, use.input});
      if (given && says(*given, axis, word)) return true;
      for (const SbpSignature& row : rows_of(graph_.op(use.op)))
        if (row.inputs[use.input] == plain(word) &&
            is_row_awaited(graph_.op(use.op), use.input, row, axis, readers_ahead))
          return true;
    }
    return false;
  }

  bool is_row_awaited(const LogicalOp& reader, std::size_t input, const SbpSignature& row,
                      std::size_t axis, int readers_ahead) const {
    for (std::size_t beside = 0; beside < reader.inputs.size(); ++beside) {
      if (beside == input || !row.inputs[beside].is_split()) continue;
      for (const Version& version : versions_[reader.inputs[beside].index()])
        if (says(version.state, axis, row.inputs[beside])) return true;
    }
    if (readers_ahead == 0) return false;
    for (std::size_t i = 0; i < reader.outputs.size(); ++i)
      if (row.outputs[i].is_split() &&
          is_awaited(reader.outputs[i], row.outputs[i], axis, readers_ahead - 1))
        return true;
    return false;
  }

  static Sbp plain(const Sbp& word) { return word.is_split() ? Sbp::split(word.dim) : word; }
  static bool says(const MeshState& state, std::size_t axis, const Sbp& word) {
    return state.is_split(axis) && word.is_split() && state.dim(axis) == word.dim;
  }

  std::vector<SbpSignature> rows_of(const LogicalOp& op) const {
    std::vector<TensorType> inputs, outputs;
    for (const TensorId input : op.inputs) inputs.push_back(tensor(input).type);
    for (const TensorId output : op.outputs) outputs.push_back(tensor(output).type);
    return graph_.registry().get(op.kind).signatures(inputs, outputs, op.attributes);
  }

  std::int64_t bytes_before(OpId id, std::size_t mesh, const Candidate& candidate) {
    const LogicalOp& op = graph_.op(id);
    std::int64_t total = 0;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      std::int64_t best = kImpossible;
      const bool is_given = given_.input({id, i}).has_value();
      for (const Version& version : versions_[op.inputs[i].index()])
        if (is_given || !hides_a_split(version.state, candidate.inputs[i], mesh))
          best = std::min(best, boxing_bytes(op.inputs[i], version, {mesh, candidate.inputs[i]}));
      if (best == kImpossible) return kImpossible;
      total += best;
    }
    return total;
  }

  // A split that becomes a partial value costs nothing now and a reduction later.
  bool hides_a_split(const MeshState& from, const MeshState& to, std::size_t mesh) const {
    for (std::size_t axis = 0; axis < extents_[mesh].size(); ++axis)
      if (from.is_split(axis) && to.is_partial(axis)) return true;
    return false;
  }

  std::int64_t boxing_bytes(TensorId id, const Version& from, const Version& to) {
    if (from == to) return 0;
    return plans_
        .plan(types_[id.index()], meshes_[from.mesh], from.state, meshes_[to.mesh], to.state)
        .total_bytes.value;
  }

  // What reducing over `axis` alone costs.
  std::int64_t reduction_bytes(TensorId id, const MeshState& state, std::size_t axis,
                               std::size_t mesh) const {
    std::int64_t bytes = size_of(tensor(id).type).value * 2 * (extents_[mesh][axis] - 1);
    for (std::size_t other = 0; other < extents_[mesh].size(); ++other)
      if (other != axis && !state.is_split(other)) bytes *= extents_[mesh][other];
    return bytes;
  }

  // Weight gradients are summed over the micro-batches: their reductions are paid once per step.
  static bool waits_for_step(const LogicalOp& op) {
    return op.phase == Phase::kWeightGrad || op.phase == Phase::kOptimizer;
  }

  // An operator that passes a pending reduction on owes it, so that the reduction is not postponed
  // for nothing, but is where several become one (the sum of partial gradients).
  std::int64_t owed(const LogicalOp& op, std::size_t mesh, const Candidate& candidate) const {
    if (waits_for_step(op)) return 0;
    std::int64_t total = 0;
    for (std::size_t axis = 0; axis < extents_[mesh].size(); ++axis) {
      std::int64_t before = 0, behind = 0;
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        if (candidate.inputs[i].is_partial(axis))
          before += reduction_bytes(op.inputs[i], candidate.inputs[i], axis, mesh);
      for (std::size_t i = 0; i < op.outputs.size(); ++i)
        if (candidate.outputs[i].is_partial(axis))
          behind += reduction_bytes(op.outputs[i], candidate.outputs[i], axis, mesh);
      total += std::min(before, behind);
    }
    return total;
  }

  std::int64_t bytes_behind(const LogicalOp& op, std::size_t mesh, const Candidate& candidate) {
    std::int64_t total = 0;
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      for (const LogicalGraph::Use& use : graph_.uses(op.outputs[i])) {
        const std::optional<MeshState>& wanted = given_.input({use.op, use.input});
        if (wanted)
          total += boxing_bytes(op.outputs[i], {mesh, candidate.outputs[i]},
                                {mesh_of(graph_.op(use.op)), *wanted});
      }
    return total;
  }

  std::int64_t elements(const LogicalOp& op, std::size_t mesh, const Candidate& candidate) const {
    std::int64_t total = 0;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      total += elements_of_fullest(op.inputs[i], candidate.inputs[i], mesh);
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      total += elements_of_fullest(op.outputs[i], candidate.outputs[i], mesh);
    return total;
  }

  // What the device with the largest parts holds: memory and time are those of the fullest device,
  // so a dim of one element that is split over two gains nothing. The first parts are the largest.
  std::int64_t elements_of_fullest(TensorId id, const MeshState& state, std::size_t mesh) const {
    const Shape& shape = tensor(id).type.shape;
    std::array<Interval, kMaxRank> box{};
    for (std::size_t dim = 0; dim < shape.rank(); ++dim) box[dim].extent = shape[dim];
    constexpr std::array<std::int64_t, kMaxMeshAxes> kFirst{};
    Cuts(state, extents_[mesh]).narrow(box, kFirst);
    std::int64_t elements = 1;
    for (std::size_t dim = 0; dim < shape.rank(); ++dim) elements *= box[dim].extent;
    return elements;
  }

  static std::string text_of(const OpWords& words) {
    std::string text;
    for (const NdSbp& input : words.inputs) text += (text.empty() ? "" : ", ") + to_string(input);
    text += " -> ";
    for (std::size_t i = 0; i < words.outputs.size(); ++i)
      text += (i == 0 ? "" : ", ") + to_string(words.outputs[i]);
    return text;
  }

  [[noreturn]] void refuse(OpId id, std::size_t mesh, const WordList& candidates) const {
    const LogicalOp& op = graph_.op(id);
    std::string message =
        fmt::format("operator '{}' ({}) on {} has no words that fit; inputs:", op.name, op.kind,
                    to_string(stages_[mesh]));
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const std::vector<Version>& versions = versions_[op.inputs[i].index()];
      message += fmt::format("{} '{}'", i == 0 ? "" : ",", tensor(op.inputs[i]).name);
      for (std::size_t v = 0; v < versions.size(); ++v)
        message +=
            fmt::format("{} {}", v == 0 ? "" : " or",
                        to_string(versions[v].state.words(extents_[versions[v].mesh].size())));
      if (const std::optional<MeshState>& given = given_.input({id, i}))
        message += fmt::format(", given {}", to_string(given->words(extents_[mesh].size())));
      if (const auto given = constraints_.inputs_on_axis.find({id, i});
          given != constraints_.inputs_on_axis.end())
        message += fmt::format(", given {} on {}", to_string(given->second.word),
                               stages_[mesh].axes[given->second.axis].name);
    }
    for (const TensorId output : op.outputs)
      if (const auto pin = constraints_.tensors.find(output); pin != constraints_.tensors.end())
        message +=
            fmt::format("; output '{}' given {}", tensor(output).name, to_string(pin->second));
    message += "; candidates:";
    for (const Candidate& candidate : candidates.all)
      message += " [" + text_of(candidate.words) + "]";
    throw Error(ErrorCode::kInfeasible, message);
  }

  const LogicalGraph& graph_;
  const std::vector<Placement>& stages_;
  const std::vector<int>& stage_of_layer_;
  const WordConstraints& constraints_;
  GivenWords given_;
  std::vector<std::vector<std::int64_t>> extents_;  // by stage
  std::vector<std::uint64_t> shape_of_mesh_;        // by stage: equal extents, equal number
  BoxingPlans& plans_;
  std::vector<BoxedTypeId> types_;   // by tensor
  std::vector<BoxedMeshId> meshes_;  // by stage
  Interner mesh_shapes_;
  std::vector<std::vector<Version>> versions_;                // by tensor; the producer's first
  std::unordered_map<Key, Candidates*, KeyHash> candidates_;  // into by_list_
  std::unordered_map<std::uint64_t, Candidates> by_list_;
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
