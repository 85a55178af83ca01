// States between ranks and checkpoints. Whoever calls knows the devices; here they are functions.
#pragma once

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"
#include "core/graphs/state_registers.h"
#include "io/checkpoints/checkpoint_reader.h"

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sextant {

using WriteState = std::function<void(Rank, const StateRegister&, std::span<const std::byte> from)>;

// Bytes of the box that the rank holds.
Bytes size_of_box(const StateRegister& state);
// Whose boxes are wanted; nothing: every rank's.
using HasRank = std::function<bool(Rank)>;

// The states of the graph are those of the checkpoint, by name and type. Throws Error(kCheckpoint)
// naming the manifest and a state that is missing, left over or of another type.
void require_states(const CheckpointReader& checkpoint, const PhysicalGraph& graph);

// Gives every rank that is wanted its box of every state, empty ones too. One state at a time: its
// global tensor is read once and cut for every rank; what no such rank holds is not read.
void load_states(CheckpointReader& checkpoint, const PhysicalGraph& graph, const WriteState& write,
                 const HasRank& wanted = {});

// Types of the states of one role, by their owners.
std::map<std::string, TensorType> states_of_role(const PhysicalGraph& graph,
                                                 const std::string& role);
// Gives every rank that is wanted its box of every state of one role; `read` gives the whole of
// one, row-major, and is asked for what such a rank holds alone.
void load_role(const PhysicalGraph& graph, const std::string& role,
               const std::function<std::vector<std::byte>(const std::string& owner)>& read,
               const WriteState& write, const HasRank& wanted = {});

}  // namespace sextant
