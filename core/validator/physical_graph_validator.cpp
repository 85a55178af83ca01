// The validator of physical graphs: the list of rules, and the order in which topics are checked.
#include "core/graphs/physical_graph.h"
#include "core/validator/findings.h"

namespace sextant {

// Indices and counts (validator/indices.cpp). The other topics are only checked when these hold.
// - I1  the version is the one this program knows
// - I2  placements have extents of at least one, as many devices as coordinates, all different
// - I3  devices of placements are ranks of the graph
// - I4  layouts name a placement
// - I5  layouts have one word per mesh axis, split dims that exist, in a clear order of nesting
// - I6  registers name a layout and a frame of their block
// - I7  actors read registers and ports of their block
// - I8  actors write registers of their block
// - I9  communications name layouts
// - I10 in-place aliases name an input and an output of the actor
// - I11 edges lead from a register to an actor, one content for one act or more
// - I12 readers of ports are actors of the block
// - I13 frames take one act per content or more
// - I14 instances name a block
// - I15 instances act at least once per step and belong to a layer
// - I16 instances bind every frame of their block
// - I17 frames have one register or more
// - I18 links lead from a register to a port, one content for one act or more
// - I19 runs name an instance
// - I20 runs hold one or more actors of their instance
// - I21 runs are an act of the step
// - I22 programs name a placement
// - I23 guards name two runs, and the same or the previous step
// - I24 ranks name a program
// - I25 group roles of ranks name a group
// - I26 members of groups are ranks of the graph
// - I27 sizes and offsets in blocks are between 0 and 2^60 bytes, so that sums cannot overflow
// - I28 sizes and offsets in programs are, too
// - I29 tensors inside fused actors name a layout
// - I30 operands of members are inputs, outputs or inner tensors of their actor
// - I31 an instance names every actor, register and member of its block, or none
// Blocks (validator/blocks.cpp)
// - B1  each register has exactly one writer
// - B2  data edges are what actors read from registers, each once
// - B3  readers of ports are the actors that read them, each once
// - B4  state is read before its writer updates it
// - B5  everything else is read after it was written
// - B6  an in-place output has the frame, offset and size of the register it takes over, no state
// - B7  nobody reads a register after it was taken over in place
// - B8  registers of a frame do not overlap, in-place aliases aside
// - B9  registers start at multiples of the alignment
// - B10 registers end inside their frame
// - B11 registers have the element type of their layout
// - B12 state is updated by every act of its writer
// Rates (validator/rates.cpp)
// - R1  the acts of a step are a whole number of contents
// - R2  edges: contents produced per step = contents consumed
// - R3  links: contents produced per step = contents consumed
// - R4  links join equal local types
// - R5  links join different instances
// - R6  each port is reached by exactly one link
// - R7  a register that is taken over in place is not read by other instances
// Memory (validator/memory.cpp)
// - M1  there is one slot entry per content of a step
// - M2  slots of contents exist
// - M3  slots start at multiples of the alignment
// - M4  slots lie in the arena
// - M5  state has one register in one slot
// - M6  the arena holds at least its lower bound
// - M7  there is one memory peak per class
// - M8  collectives find the buffers of all members at equal offsets, or all outside the symmetric
//       region (validator/symmetric.cpp)
// Issue order (validator/order.cpp)
// - O1  host actors are not in the order
// - O2  the actors of a run are on one queue
// - O3  a communication is alone in its run
// - O4  acts of an actor come in the order 0, 1, 2 ...
// - O5  an act of an instance goes through its actors in the order of the block
// - O6  every actor that is not on the host acts acts_per_step times
// - O7  guards of the same step look back
// Launch groups (validator/launch_groups.cpp)
// - L1  the runs of a launch group are neighbours
// - L2  the runs of a launch group are communications
// - L3  no run of a launch group reads what another writes
// - L4  no guard of the same step inside a launch group
// Bindings (validator/bindings.cpp)
// - G1  the ranks of a group are different
// - G2  no group is empty
// - G3  a rank is at its position in the placement of its program
// - G4  a rank has one group per role of its program
// - G5  a rank has different groups in different roles
// - G6  the ranks that name a group are its members
// - G7  every program is run by a rank
// Communications (validator/communications.cpp)
// - C1  only communications are on communication queues
// - C2  only transfers have halves
// - C3  what both sends and receives is on the collective queue, a half on one of its direction
// - C4  send halves read, receive halves write, all others read and write one register
// - C5  what is read is laid out as `from`, what is written as `to`
// - C6  `from` and `to` are of one global type, which is that of the communication
// - C7  the group role is one of the program's
// - C8  ranks with a send half hold `from` and not `to`, with a receive half `to` and not `from`,
// all
//       others both
// - C9  a collective stays on one placement
// - C10 the members of a shift hold parts of one size
// Agreement of group members (validator/agreement.cpp; invariant 8)
// - A1  they issue equally many communications
// - A2  they issue equal communications in equal order
// - A3  a transfer has senders and receivers
// Fused actors (validator/fusion.cpp)
// - F1  the members are of the kinds that the actor's kind names
// - F2  a fused actor is on the compute queue, keeps no state and takes over no bytes
// - F3  members read inputs, or what a member before them wrote
// - F4  members write outputs and inner tensors, each once
// - F5  every input is read by a member
// - F6  every output is written by a member
// - F7  every inner tensor is written and read by members
// - F8  no member reads an output that is a sum over several acts
// - F9  actors of a fused kind have members, others no inner tensors
// - F10 inner tensors have the element type of their layout
// - F11 siblings read one tensor where the actor's kind says
// Shapes (validator/shapes.cpp); what holds for registers holds for inner tensors
// - S1  registers are laid out on a placement that holds all ranks of the program
// - S2  the local shape of a register is what each rank of the class holds of the layout
std::vector<std::string> validate(const PhysicalGraph& graph) {
  validator::Findings findings;
  check_indices(graph, findings);
  if (!findings.empty()) return findings.messages();
  check_blocks(graph, findings);
  check_rates(graph, findings);
  check_memory(graph, findings);
  check_order(graph, findings);
  check_launch_groups(graph, findings);
  check_bindings(graph, findings);
  check_communications(graph, findings);
  check_fusion(graph, findings);
  // Both walk through group roles and positions.
  if (findings.empty()) {
    check_agreement(graph, findings);
    check_symmetric(graph, findings);
    check_shapes(graph, findings);
  }
  return findings.messages();
}

}  // namespace sextant
