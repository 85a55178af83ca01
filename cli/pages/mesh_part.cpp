// Stages as cards, devices as squares in their nodes. Stages alike are one card, and of many nodes
// some are drawn.
#include "cli/pages/plan_part.h"
#include "core/text/counted_text.h"
#include "io/pages/bars.h"
#include "io/pages/html_table.h"
#include "io/pages/palette.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sextant {
namespace {

constexpr std::int64_t kNodesDrawn = 8;
constexpr std::int64_t kDevicesDrawn = 128;

struct StageCard {
  int first = 0, last = 0;  // stages
  std::set<int> layers;     // of the first
  Bytes arena;
  std::vector<Rank> ranks;  // of all of them
};

std::vector<std::set<int>> layers_by_stage(const StagedGraph& graph) {
  std::vector<std::set<int>> layers(graph.placements.size());
  for (const StagedOp& op : graph.ops)
    if (op.phase == Phase::kForward && !op.communication)
      layers[static_cast<std::size_t>(op.stage)].insert(op.layer);
  return layers;
}

// Neighbours with equally many layers and equal arenas are one card.
std::vector<StageCard> stage_cards(const PlanView& plan) {
  std::vector<StageCard> cards;
  const auto layers = layers_by_stage(plan.staged);
  for (std::size_t stage = 0; stage < plan.staged.placements.size(); ++stage) {
    const std::vector<Rank>& ranks = plan.staged.placements[stage].ranks;
    const Bytes arena = plan.graph().program_of(ranks.front()).arena.size;
    const bool is_alike = !cards.empty() && cards.back().arena == arena &&
                          cards.back().layers.size() == layers[stage].size();
    if (!is_alike)
      cards.push_back({static_cast<int>(stage), static_cast<int>(stage), layers[stage], arena, {}});
    StageCard& card = cards.back();
    card.last = static_cast<int>(stage);
    card.ranks.insert(card.ranks.end(), ranks.begin(), ranks.end());
  }
  return cards;
}

// "0-7, 24-31"
std::string ranges_of(const std::set<int>& numbers) {
  std::string text;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    while (std::next(last) != numbers.end() && *std::next(last) == *last + 1) ++last;
    text += text.empty() ? "" : ", ";
    text += first == last ? fmt::format("{}", *first) : fmt::format("{}-{}", *first, *last);
    first = std::next(last);
  }
  return text;
}

Markup card_picture(const StageCard& card, const PlanView& plan) {
  const int stages = card.last - card.first + 1;
  const std::string title = stages == 1 ? fmt::format("stage {}", card.first)
                                        : fmt::format("stages {} to {}", card.first, card.last);
  const std::string layers = stages == 1
                                 ? "layers " + ranges_of(card.layers)
                                 : fmt::format("{} each", counted(card.layers.size(), "layer"));
  const Bytes capacity = plan.tightest.capacity;
  const double share = static_cast<double>(card.arena.value) /
                       static_cast<double>(std::max<std::int64_t>(capacity.value, 1));
  std::string devices = device_list(card.ranks);
  if (devices.size() > 40)
    devices =
        fmt::format("{} from {}", counted(card.ranks.size(), "rank"), card.ranks.front().value);
  return element(
      "div", "stage",
      element("h4", colour_class(card.first), Markup(title)) + paragraph(layers) +
          paragraph("ranks " + devices) +
          paragraph(to_string(plan.staged.placements[static_cast<std::size_t>(card.first)])) +
          element("p", "", cell_bar(share, "arena " + to_text(card.arena), card.first)));
}

// By rank: the stage, and the coordinates in words.
struct DeviceUse {
  int stage = 0;
  std::string coordinates;
};

std::map<Rank, DeviceUse> device_uses(const StagedGraph& graph,
                                      const std::function<bool(Rank)>& is_drawn) {
  std::map<Rank, DeviceUse> uses;
  for (std::size_t stage = 0; stage < graph.placements.size(); ++stage) {
    const Placement& placement = graph.placements[stage];
    for (std::size_t i = 0; i < placement.ranks.size(); ++i) {
      if (!is_drawn(placement.ranks[i])) continue;
      std::string text = fmt::format("rank {}: stage {}", placement.ranks[i].value, stage);
      const std::vector<std::int64_t> coordinates = placement.coordinates_of(i);
      for (std::size_t axis = 0; axis < coordinates.size(); ++axis)
        text += fmt::format(", {} {}", placement.axes[axis].name, coordinates[axis]);
      uses[placement.ranks[i]] = {static_cast<int>(stage), text};
    }
  }
  return uses;
}

Markup device_square(std::int64_t rank, const std::map<Rank, DeviceUse>& uses) {
  const auto use = uses.find(Rank(static_cast<int>(rank)));
  const bool is_idle = use == uses.end();
  return element(
      "span",
      {{"class", is_idle ? "device idle" : "device " + colour_class(use->second.stage)},
       {"title", is_idle ? fmt::format("device {}: idle", rank) : use->second.coordinates}},
      Markup(fmt::format("{}", rank)));
}

Markup node_pictures(const PlanView& plan) {
  const Cluster& cluster = plan.planned.job.cluster;
  const std::int64_t per_node = cluster.devices_per_node;
  const std::int64_t drawn =
      std::clamp<std::int64_t>(kDevicesDrawn / per_node, 1, std::min(kNodesDrawn, cluster.nodes));
  const std::int64_t per_node_drawn = std::min(per_node, kDevicesDrawn);
  std::set<std::int64_t> chosen;  // evenly, so that every stage may be among them
  for (std::int64_t i = 0; i < drawn; ++i) chosen.insert(i * cluster.nodes / drawn);
  const auto uses =
      device_uses(plan.staged, [&](Rank rank) { return chosen.count(cluster.node_of(rank)) > 0; });
  Markup nodes;
  for (const std::int64_t node : chosen) {
    Markup devices;
    for (std::int64_t i = 0; i < per_node_drawn; ++i)
      devices += device_square(node * per_node + i, uses);
    nodes += element("div", "node",
                     text_element("span", "", fmt::format("node {}", node)) +
                         element("div", "devices", devices));
  }
  Markup body = element(
      "div",
      {{"class", "nodes"}, {"role", "img"}, {"aria-label", "devices by node, coloured by stage"}},
      nodes);
  body +=
      left_out(static_cast<std::size_t>(cluster.nodes), static_cast<std::size_t>(drawn), "node");
  if (per_node_drawn < per_node)
    body += note_of(
        fmt::format("the first {} of the {} devices of each node", per_node_drawn, per_node));
  return body;
}

Markup axes_table(const RankUse& use) {
  HtmlTable table({{"axis", false},
                   {"members of a group", true},
                   {"groups", true},
                   {"groups across nodes", true},
                   {"most nodes of a group", true}});
  for (const AxisReach& axis : use.axes)
    table.add_texts({std::string(to_string(axis.axis)), fmt::format("{}", axis.members),
                     fmt::format("{}", axis.groups), fmt::format("{}", axis.crossing),
                     fmt::format("{}", axis.most_nodes)});
  return table.is_empty() ? Markup() : table.markup();
}

}  // namespace

PagePart mesh_part(const PlanView& plan) {
  Markup cards;
  for (const StageCard& card : stage_cards(plan)) cards += card_picture(card, plan);
  Markup body = figure_of(element("div", "stages", cards), {plan.counted()});
  body += figure_of(node_pictures(plan), {plan.counted()});
  if (const Markup axes = axes_table(plan.use); !axes.is_empty())
    body += figure_of(axes, {plan.counted()});
  return {"Mesh and stages", body};
}

}  // namespace sextant
