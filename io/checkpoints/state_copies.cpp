// Registers find their state by name.
#include "io/checkpoints/state_copies.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "io/checkpoints/boxes.h"

#include <map>
#include <string>
#include <utility>

namespace sextant {
namespace {

struct StateOfRank {
  Rank rank;
  StateRegister state;
};

std::map<StateName, std::vector<StateOfRank>> states_by_name(const PhysicalGraph& graph) {
  std::map<StateName, std::vector<StateOfRank>> states;
  for (const Rank rank : graph.ranks.keys())
    for (StateRegister& state : state_registers(graph, rank)) {
      std::vector<StateOfRank>& holders = states[state.name];
      holders.push_back({rank, std::move(state)});
    }
  return states;
}

std::vector<StateOfRank> wanted_of(std::vector<StateOfRank> holders, const HasRank& wanted) {
  if (wanted)
    std::erase_if(holders, [&](const StateOfRank& holder) { return !wanted(holder.rank); });
  return holders;
}

// Gives each holder its box of the whole.
void write_boxes(const std::vector<StateOfRank>& holders, const std::vector<std::byte>& global,
                 const WriteState& write) {
  for (const StateOfRank& holder : holders)
    write(holder.rank, holder.state, cut_box(global, holder.state.global, holder.state.box));
}

std::string text_of_type(const TensorType& type) {
  return fmt::format("{} {}", to_string(type.shape), to_string(type.dtype));
}

}  // namespace

Bytes size_of_box(const StateRegister& state) {
  return size_of(TensorType{state.box.local_shape(), state.global.dtype});
}

void require_states(const CheckpointReader& checkpoint, const PhysicalGraph& graph) {
  const std::string file = checkpoint.path() + "/" + kManifestFile;
  const auto needed = states_by_name(graph);
  std::map<StateName, TensorType> saved;
  std::vector<std::string> names;
  for (const CheckpointState& state : checkpoint.manifest().states) {
    saved.emplace(state.name, state.type);
    names.push_back(to_string(state.name));
  }
  for (const auto& [name, holders] : needed) {
    const auto found = saved.find(name);
    const std::string text = to_string(name);
    require(found != saved.end(), ErrorCode::kCheckpoint,
            "{}: has no state '{}', which this training has{}", file, text,
            did_you_mean(text, names));
    const TensorType& type = holders.front().state.global;
    require(found->second == type, ErrorCode::kCheckpoint,
            "{}: state '{}' is {}, in this training {}", file, text, text_of_type(found->second),
            text_of_type(type));
  }
  for (const auto& [name, type] : saved)
    require(needed.contains(name), ErrorCode::kCheckpoint,
            "{}: has a state '{}', which this training does not have", file, to_string(name));
}

void load_states(CheckpointReader& checkpoint, const PhysicalGraph& graph, const WriteState& write,
                 const HasRank& wanted) {
  require_states(checkpoint, graph);
  const auto holders = states_by_name(graph);
  for (const CheckpointState& state : checkpoint.manifest().states) {
    const std::vector<StateOfRank> here = wanted_of(holders.at(state.name), wanted);
    if (!here.empty()) write_boxes(here, checkpoint.read(state), write);
  }
}

std::map<std::string, TensorType> states_of_role(const PhysicalGraph& graph,
                                                 const std::string& role) {
  std::map<std::string, TensorType> types;
  for (const auto& [name, holders] : states_by_name(graph))
    if (name.role == role) types.emplace(name.owner, holders.front().state.global);
  return types;
}

void load_role(const PhysicalGraph& graph, const std::string& role,
               const std::function<std::vector<std::byte>(const std::string& owner)>& read,
               const WriteState& write, const HasRank& wanted) {
  for (const auto& [name, holders] : states_by_name(graph)) {
    if (name.role != role) continue;
    const std::vector<StateOfRank> here = wanted_of(holders, wanted);
    if (!here.empty()) write_boxes(here, read(name.owner), write);
  }
}

}  // namespace sextant
