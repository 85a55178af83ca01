// A row per operator, a frame per word: colour tells splits, partial values and copies apart.
#include "cli/pages/words_part.h"

#include "cli/layer_names.h"
#include "io/pages/html_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

constexpr std::size_t kWordRowsShown = 80;

bool is_told(const StagedOp& op) {
  return op.phase == Phase::kForward && op.role != OperatorRole::kCast && !op.communication &&
         !is_boxing(op) && !op.out.empty();
}

Markup words_markup(const NdSbp& words) {
  Markup all;
  for (const Sbp& word : words)
    all += text_element("span",
                        word.is_split()     ? "word split"
                        : word.is_partial() ? "word partial"
                                            : "word",
                        to_string(word));
  return element("span", "words", all);
}

Markup inputs_markup(const std::vector<NdSbp>& inputs) {
  Markup all;
  for (const NdSbp& words : inputs) all += element("div", "", words_markup(words));
  return all;
}

std::string layers_of(const std::set<int>& layers) {
  if (layers.size() == 1) return fmt::format("{}", *layers.begin());
  const int first = *layers.begin(), last = *layers.rbegin();
  const bool is_range = static_cast<int>(layers.size()) == last - first + 1;
  return is_range ? fmt::format("{}-{}", first, last)
                  : fmt::format("{} of {} to {}", layers.size(), first, last);
}

std::string axes_sentence(const StagedGraph& graph) {
  std::string names;
  for (const MeshAxis& axis : graph.placements.front().axes)
    names += (names.empty() ? "" : ", ") + fmt::format("{} ({})", axis.name, axis.extent);
  return fmt::format(
      "One word per axis of a stage's mesh: {}. S(d) splits dimension d over the axis, B is a full "
      "copy on each of its members, P is a value that has yet to be reduced over it. Casts keep "
      "words and are left out.",
      names);
}

}  // namespace

std::vector<WordRow> word_rows(const StagedGraph& graph) {
  std::vector<WordRow> rows;
  std::map<std::tuple<std::string, std::string, std::vector<NdSbp>, NdSbp>, std::size_t> known;
  for (const StagedOp& op : graph.ops) {
    if (!is_told(op)) continue;
    const auto words_of = [&](StagedTensorId tensor) { return graph.tensors[tensor].words; };
    WordRow row{without_layer_number(op.name), op.kind, {}, words_of(op.out.front()), {}, {}};
    for (const StagedTensorId input : op.in) row.inputs.push_back(words_of(input));
    const auto [entry, is_new] =
        known.try_emplace({row.name, row.kind, row.inputs, row.result}, rows.size());
    if (is_new) rows.push_back(std::move(row));
    rows[entry->second].layers.insert(op.layer);
    rows[entry->second].stages.insert(op.stage);
  }
  return rows;
}

PagePart words_part(const PlanView& plan) {
  const std::vector<WordRow> rows = word_rows(plan.staged);
  HtmlTable table({{"operator", false},
                   {"kind", false},
                   {"layers", false},
                   {"stages", false},
                   {"reads", false},
                   {"makes", false}});
  const std::size_t shown = std::min(rows.size(), kWordRowsShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const WordRow& row = rows[i];
    table.add({code_of(row.name), Markup(row.kind), Markup(layers_of(row.layers)),
               Markup(layers_of(row.stages)), inputs_markup(row.inputs), words_markup(row.result)});
  }
  Markup body = paragraph(axes_sentence(plan.staged));
  body += figure_of(table.markup(true) + left_out(rows.size(), shown, "row"), {plan.counted()});
  return {"Words per layer", body};
}

}  // namespace sextant
