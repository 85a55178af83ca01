// Counts of operators by layer; a fused one counts as its members.
#include "compiler/words/coverage.h"

#include "core/base/at.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace sextant {
namespace {

// Operators of one layer that look alike.
using Sort = std::tuple<Phase, std::string_view>;  // phase, kind

// A fused operator may do gradients of weights along with those for inputs.
Phase counted(Phase phase) { return phase == Phase::kWeightGrad ? Phase::kInputGrad : phase; }
using SortCounts = std::map<Sort, std::int64_t>;
using LayerCounts = std::map<int, SortCounts>;

LayerCounts counts_of(const PhysicalGraph& graph, const RankProgram& program) {
  LayerCounts counts;
  for (const Instance& instance : program.instances)
    for (const Actor& actor : graph.block_of(instance).actors) {
      SortCounts& own = counts[instance.layer];
      for (const ActorMember& member : actor.members) ++own[{counted(actor.phase), member.kind}];
      if (actor.members.empty()) ++own[{counted(actor.phase), actor.kind}];
    }
  return counts;
}

std::vector<LayerCounts> counts_of(const StagedGraph& staged) {
  std::vector<LayerCounts> counts(staged.placements.size());
  for (const StagedOp& op : staged.ops)
    ++at(counts, op.stage)[op.layer][{counted(op.phase), op.kind}];
  return counts;
}

std::int64_t total(const SortCounts& counts) {
  std::int64_t sum = 0;
  for (const auto& [sort, count] : counts) sum += count;
  return sum;
}

// What a program does of a layer beside what it should do; nothing when these are equal.
std::string difference(const RankProgram& program, int layer, const SortCounts& wanted,
                       const SortCounts& found) {
  if (wanted == found) return "";
  if (found.empty())
    return fmt::format("layer {} is missing from program '{}': none of its {} operators is there",
                       layer, program.name, total(wanted));
  if (wanted.empty())
    return fmt::format("layer {} is in program '{}' with {} operators, but not on its stage", layer,
                       program.name, total(found));
  SortCounts all = wanted;
  all.insert(found.begin(), found.end());
  const auto count_in = [](const SortCounts& counts, const Sort& sort) {
    const auto entry = counts.find(sort);
    return entry == counts.end() ? std::int64_t{0} : entry->second;
  };
  const auto differs = std::find_if(all.begin(), all.end(), [&](const auto& entry) {
    return count_in(wanted, entry.first) != count_in(found, entry.first);
  });
  const auto& [phase, kind] = differs->first;
  return fmt::format("layer {} is in program '{}' with {} operators '{}' ({}), wanted {}", layer,
                     program.name, count_in(found, differs->first), kind, to_string(phase),
                     count_in(wanted, differs->first));
}

// Names of logical operators that are on the stages, with the first stage of each.
class StagesOfOperators {
 public:
  StagesOfOperators(const LogicalGraph& training, const StagedGraph& staged) {
    for (const LogicalOp& op : training.ops()) stage_of_.try_emplace(op.name, -1);
    for (const StagedOp& op : staged.ops) {
      const auto entry = stage_of_.find(op.name);
      // Communications may be named after what they carry; sources are read where they are needed.
      if (op.communication || op.in.empty() || entry == stage_of_.end()) continue;
      if (entry->second >= 0 && entry->second != op.stage)
        broken_.push_back(fmt::format("operator '{}' of layer {} is on stage {} and on stage {}",
                                      op.name, op.layer, entry->second, op.stage));
      entry->second = op.stage;
    }
  }
  bool is_staged(const LogicalOp& op) const { return stage_of_.at(op.name) >= 0; }
  std::vector<std::string> take_broken() { return std::move(broken_); }

 private:
  std::unordered_map<std::string_view, int> stage_of_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> check_layers(const LogicalGraph& training, const StagedGraph& staged) {
  StagesOfOperators stages(training, staged);
  std::vector<std::string> broken = stages.take_broken();
  const auto num_layers = static_cast<std::size_t>(training.num_layers());
  std::vector<std::int64_t> forward(num_layers, 0);
  std::vector<bool> staged_layer(num_layers, false);
  for (const LogicalOp& op : training.ops()) {
    if (op.phase != Phase::kForward || op.inputs.empty()) continue;
    ++at(forward, op.layer);
    if (stages.is_staged(op)) at(staged_layer, op.layer) = true;
  }
  for (std::size_t layer = 0; layer < num_layers; ++layer)
    if (forward[layer] > 0 && !staged_layer[layer])
      broken.push_back(
          fmt::format("layer {} is missing: none of its {} forward operators is on a stage", layer,
                      forward[layer]));
  return broken;
}

std::vector<std::string> check_layers(const StagedGraph& staged, const PhysicalGraph& graph) {
  const std::vector<LayerCounts> wanted = counts_of(staged);
  std::vector<std::string> broken;
  for (const RankProgram& program : graph.programs) {
    const LayerCounts found = counts_of(graph, program);
    LayerCounts layers = wanted[program.placement.index()];
    layers.insert(found.begin(), found.end());
    for (const auto& [layer, counts] : layers) {
      const auto of = [&](const LayerCounts& all) {
        const auto entry = all.find(layer);
        return entry == all.end() ? SortCounts() : entry->second;
      };
      std::string text =
          difference(program, layer, of(wanted[program.placement.index()]), of(found));
      if (!text.empty()) broken.push_back(std::move(text));
    }
  }
  return broken;
}

}  // namespace sextant
