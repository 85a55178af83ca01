// Boxings that differ in nothing but the layer are one row.
#include "cli/sections/boxing_rows.h"

#include "cli/layer_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

class BoxingRows {
 public:
  BoxingRows(const StagedGraph& graph, const NetworkModel& network, const CostModel& cost)
      : graph_(graph), network_(network), cost_(cost) {}

  // The dearest first.
  std::vector<BoxingRow> run() {
    for (const BoxingCause& cause : boxing_causes(graph_)) add(cause);
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const BoxingRow& a, const BoxingRow& b) { return a.total() > b.total(); });
    return std::move(rows_);
  }

 private:
  const StagedOp& op(StagedOpId index) const { return graph_.ops[index]; }

  // What boxings of a row have in common, stages aside: these have equal meshes. Costs follow from
  // it, so they are asked for once per row: on 1,024 ranks of a stage each takes milliseconds.
  using RowKey = std::tuple<std::string, std::string, std::string, std::string,
                            std::vector<std::string>, std::string>;

  void add(const BoxingCause& cause) {
    const StagedOp& boxing = op(cause.boxing);
    BoxingRow row = describe(cause);
    const auto [known, is_new] = index_.try_emplace(
        RowKey{row.name, row.words, row.phase, row.producer, row.readers, type_of(boxing)},
        rows_.size());
    if (is_new) {
      row.cost = cost_of(graph_, boxing, network_, &cost_);
      rows_.push_back(std::move(row));
    }
    BoxingRow& shared = rows_[known->second];
    shared.first_stage = std::min(shared.first_stage, boxing.stage);
    shared.last_stage = std::max(shared.last_stage, boxing.stage);
    shared.per_step += acts_of(graph_, boxing);
  }

  std::string type_of(const StagedOp& boxing) const {
    const StagedTensorId any = boxing.in.empty() ? boxing.out[0] : boxing.in[0];
    const TensorType& type = graph_.tensors[any].global;
    const DType moved = boxing.communication ? boxing.communication->dtype : type.dtype;
    return fmt::format("{} {}", to_string(type.shape), to_string(moved));
  }

  BoxingRow describe(const BoxingCause& cause) const {
    const StagedOp& boxing = op(cause.boxing);
    BoxingRow row;
    row.name = without_layer_number(boxing.name);
    row.phase = to_string(boxing.phase);
    row.primitive = boxing.communication ? to_string(boxing.communication->primitive) : "local";
    row.axes = axes_of(boxing);
    row.words = words_of(cause, boxing);
    const StagedOp& producer = op(cause.producer);
    row.producer = fmt::format("{} ({}): {}", without_layer_number(producer.name), producer.kind,
                               to_string(cause.made));
    for (const BoxingCause::Reader& reader : cause.readers)
      row.readers.push_back(fmt::format("{}[{}] ({}): {}", without_layer_number(op(reader.op).name),
                                        reader.input, op(reader.op).kind,
                                        to_string(reader.wanted)));
    row.first_stage = row.last_stage = boxing.stage;
    return row;
  }

  std::string axes_of(const StagedOp& boxing) const {
    if (!boxing.communication) return "";
    const StagedCommunication& c = *boxing.communication;
    if (c.primitive == Primitive::kTransfer)
      return fmt::format("stage {} to {}", c.from_stage, c.to_stage);
    std::string axes;
    for (const std::size_t axis : c.group_axes)
      axes += (axes.empty() ? "" : ", ") +
              graph_.placements[static_cast<std::size_t>(c.from_stage)].axes[axis].name;
    return axes;
  }

  std::string words_of(const BoxingCause& cause, const StagedOp& boxing) const {
    const auto words = [&](StagedTensorId tensor) {
      return to_string(graph_.tensors[tensor].words);
    };
    return (boxing.in.empty() ? to_string(boxing.communication->from) : words(boxing.in[0])) +
           " -> " + words(op(cause.boxing).out[0]);
  }

  const StagedGraph& graph_;
  const NetworkModel& network_;
  const CostModel& cost_;
  std::map<RowKey, std::size_t> index_;
  std::vector<BoxingRow> rows_;
};

}  // namespace

std::vector<BoxingRow> boxing_rows(const StagedGraph& graph, const NetworkModel& network,
                                   const CostModel& cost) {
  return BoxingRows(graph, network, cost).run();
}

std::map<std::string, BoxingTotal> boxing_totals(const std::vector<BoxingRow>& rows) {
  std::map<std::string, BoxingTotal> totals;
  for (const BoxingRow& row : rows)
    for (const std::string& name : {row.primitive, std::string("all")}) {
      totals[name].acts += row.per_step;
      totals[name].moved += row.moved_per_step();
      totals[name].time += row.total();
    }
  return totals;
}

}  // namespace sextant
