// Lists of words by what makes them: rows, types and extents.
#include "sbp/inference_parts.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace sextant {
namespace {

std::uint64_t type_number(const BoxedNumbers& boxed, TensorId id) {
  return static_cast<std::uint64_t>(boxed.types[id.index()].value);
}

bool is_whole(const Sbp& word) { return word.is_broadcast(); }
bool is_split_word(const Sbp& word) { return word.is_split(); }

bool makes_split_of_whole(const SbpSignature& row) {
  return std::all_of(row.inputs.begin(), row.inputs.end(), is_whole) &&
         std::any_of(row.outputs.begin(), row.outputs.end(), is_split_word);
}

WordList list_of_rows(const std::vector<SbpSignature>& rows, const std::vector<TensorType>& inputs,
                      const std::vector<TensorType>& outputs,
                      const std::vector<std::int64_t>& extents) {
  WordList list;
  list.invents = std::any_of(rows.begin(), rows.end(), makes_split_of_whole);
  for (OpWords& words : nd_products(rows, extents)) {
    WordCandidate candidate;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      candidate.inputs.emplace_back(words.inputs[i], extents, inputs[i].shape);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      candidate.outputs.emplace_back(words.outputs[i], extents, outputs[i].shape);
    candidate.words = std::move(words);
    list.all.push_back(std::move(candidate));
  }
  return list;
}

}  // namespace

std::vector<SbpSignature> WordScene::rows_of(const LogicalOp& op) const {
  std::vector<TensorType> inputs, outputs;
  for (const TensorId input : op.inputs) inputs.push_back(tensor(input).type);
  for (const TensorId output : op.outputs) outputs.push_back(tensor(output).type);
  return graph.registry().get(op.kind).signatures(inputs, outputs, op.attributes);
}

Candidates& CandidateTable::of(const WordScene& scene, BoxedNumbers& boxed, const LogicalOp& op,
                               std::uint64_t shape) {
  key_ = {shape, op.inputs.size()};
  append_text(key_, op.kind);
  for (const auto* side : {&op.inputs, &op.outputs})
    for (const TensorId id : *side) key_.push_back(type_number(boxed, id));
  for (const auto& [name, value] : op.attributes.entries()) {
    append_text(key_, name);
    append_value(key_, value);
  }
  const auto known = of_op_.find(key_);
  if (known != of_op_.end()) return *known->second;
  Key key = key_;
  return *of_op_.emplace(std::move(key), &shared(scene, boxed, op)).first->second;
}

// What was asked for one graph of a search is asked for most others: the meshes have other numbers
// there, so their extents stand for them.
Candidates& CandidateTable::shared(const WordScene& scene, BoxedNumbers& boxed,
                                   const LogicalOp& op) {
  WordLists& lists = boxed.plans.word_lists();
  const std::vector<std::int64_t>& extents = scene.extents[scene.mesh_of(op)];
  Key question = key_;
  question.front() = extents.size();
  for (const std::int64_t extent : extents) question.push_back(static_cast<std::uint64_t>(extent));
  question.push_back(reinterpret_cast<std::uintptr_t>(&scene.graph.registry()));
  const WordList* list = lists.given(question);
  if (list == nullptr) {
    list = &made_list(scene, boxed, op);
    lists.give(question, *list);
  }
  Candidates& own = of_list_[list->number];
  own.list = list;
  own.taken.resize(list->all.size());
  return own;
}

// Attributes may differ in what words do not depend on (the name of a parameter): lists are made
// once per distinct rows.
const WordList& CandidateTable::made_list(const WordScene& scene, BoxedNumbers& boxed,
                                          const LogicalOp& op) {
  const std::vector<std::int64_t>& extents = scene.extents[scene.mesh_of(op)];
  std::vector<TensorType> inputs, outputs;
  for (const TensorId id : op.inputs) inputs.push_back(scene.tensor(id).type);
  for (const TensorId id : op.outputs) outputs.push_back(scene.tensor(id).type);
  const std::vector<SbpSignature> rows =
      scene.graph.registry().get(op.kind).signatures(inputs, outputs, op.attributes);
  Key content = {extents.size(), op.inputs.size()};
  for (const std::int64_t extent : extents) content.push_back(static_cast<std::uint64_t>(extent));
  for (const auto* side : {&op.inputs, &op.outputs})
    for (const TensorId id : *side) content.push_back(type_number(boxed, id));
  for (const SbpSignature& row : rows) {
    content.push_back(static_cast<std::uint64_t>(row.divisible));
    content.push_back(static_cast<std::uint64_t>(row.ring));
    for (const auto* side : {&row.inputs, &row.outputs})
      for (const Sbp& word : *side)
        content.push_back(static_cast<std::uint64_t>(word.kind) << 16U |
                          static_cast<std::uint64_t>(word.dim) << 8U |
                          static_cast<std::uint64_t>(word.reduce));
  }
  return boxed.plans.word_lists().list(
      content, [&] { return list_of_rows(rows, inputs, outputs, extents); });
}

}  // namespace sextant
