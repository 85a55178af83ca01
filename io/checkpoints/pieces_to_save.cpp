// Boxes are told apart by their intervals.
#include "io/checkpoints/pieces_to_save.h"

#include "core/base/check.h"
#include "io/checkpoints/boxes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace sextant {
namespace {

struct Holder {
  std::size_t rank = 0, index = 0;  // of the rank's states
};
using Intervals = std::vector<std::pair<std::int64_t, std::int64_t>>;

Intervals intervals_of(const Shard& box) {
  Intervals intervals;
  for (const Interval& part : box.dims) intervals.emplace_back(part.offset, part.extent);
  return intervals;
}

struct StateBoxes {
  Shape shape;
  std::vector<Shard> boxes;
};

void require_wholes(const std::map<StateName, StateBoxes>& states) {
  for (const auto& [name, state] : states)
    require(tile(state.boxes, state.shape), ErrorCode::kInternal,
            "the {} boxes of state '{}' are not its whole once", state.boxes.size(),
            to_string(name));
}

}  // namespace

std::vector<std::vector<StateRegister>> pieces_to_save(const PhysicalGraph& graph) {
  std::vector<std::vector<StateRegister>> states;
  std::map<std::pair<StateName, Intervals>, std::vector<Holder>> holders;
  std::map<StateName, StateBoxes> boxes;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    states.push_back(state_registers(graph, Rank(rank)));
    for (std::size_t i = 0; i < states[rank].size(); ++i) {
      const StateRegister& state = states[rank][i];
      boxes[state.name].shape = state.global.shape;
      // A state without elements is still one.
      if (state.box.is_empty() && state.global.shape.elements() > 0) continue;
      std::vector<Holder>& of_box = holders[{state.name, intervals_of(state.box)}];
      if (of_box.empty() && !state.box.is_empty()) boxes[state.name].boxes.push_back(state.box);
      of_box.push_back({rank, i});
    }
  }
  require_wholes(boxes);
  std::vector<std::int64_t> bytes(states.size(), 0);
  std::vector<std::vector<std::size_t>> chosen(states.size());
  for (const auto& [key, of_box] : holders) {
    const Holder& owner = *std::min_element(
        of_box.begin(), of_box.end(),
        [&](const Holder& a, const Holder& b) { return bytes[a.rank] < bytes[b.rank]; });
    const StateRegister& state = states[owner.rank][owner.index];
    bytes[owner.rank] += state.box.elements() * size_of(state.global.dtype).value;
    chosen[owner.rank].push_back(owner.index);
  }
  std::vector<std::vector<StateRegister>> pieces(states.size());
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    std::sort(chosen[rank].begin(), chosen[rank].end());
    for (const std::size_t index : chosen[rank]) pieces[rank].push_back(states[rank][index]);
  }
  return pieces;
}

}  // namespace sextant
