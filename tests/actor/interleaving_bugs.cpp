// Each spoils the first place that it fits; a graph without one has not got the bug.
#include "tests/actor/interleaving_bugs.h"

#include <algorithm>
#include <cstddef>

namespace sextant::testing {
namespace {

template <typename Values, typename Fits, typename Spoil>
void spoil_first(Values& all, const Fits& fits, const Spoil& spoil) {
  const auto found = std::find_if(all.begin(), all.end(), fits);
  if (found != all.end()) spoil(*found);
}

// Rings lie behind each other; one that grows moves the others.
void lay_out_rings(ProgramTables& tables) {
  tables.num_frame_counters = tables.num_channel_fences = 0;
  for (FrameQuota& frame : tables.frames) {
    frame.ring = tables.num_frame_counters;
    tables.num_frame_counters += frame.num_registers;
  }
  for (Channel& channel : tables.channels) {
    channel.ring = tables.num_channel_fences;
    tables.num_channel_fences +=
        tables.frames[static_cast<std::size_t>(channel.frame)].num_registers;
  }
}

void give_credit_more(ProgramTables& tables) {
  spoil_first(
      tables.frames, [](const FrameQuota& f) { return !f.initially_full && f.num_channels > 0; },
      [](FrameQuota& f) { ++f.num_registers; });
  lay_out_rings(tables);
}

void count_reader_less(ProgramTables& tables) {
  spoil_first(
      tables.frames, [](const FrameQuota& f) { return !f.initially_full && f.num_channels > 1; },
      [](FrameQuota& f) { --f.num_channels; });
}

void ack_early(ProgramTables& tables) {
  spoil_first(
      tables.channels, [](const Channel& c) { return !c.acks_itself() && c.consume_for > 1; },
      [](Channel& c) { --c.consume_for; });
}

void lose_ack_of_state(ProgramTables& tables) {
  spoil_first(
      tables.channels,
      [&](const Channel& c) {
        return !c.acks_itself() && tables.frames[static_cast<std::size_t>(c.frame)].initially_full;
      },
      [](Channel& c) { c.consume_for = 1 << 20; });
}

void req_early(ProgramTables& tables) {
  spoil_first(
      tables.frames, [](const FrameQuota& f) { return f.acts_per_content > 1; },
      [](FrameQuota& f) { --f.acts_per_content; });
}

void start_state_empty(ProgramTables& tables) {
  spoil_first(
      tables.frames, [](const FrameQuota& f) { return f.initially_full; },
      [](FrameQuota& f) { f.initially_full = false; });
}

void wait_for_no_input(ProgramTables& tables) {
  spoil_first(
      tables.sites, [](const Site& s) { return !s.is_host() && s.num_inputs > 0; },
      [](Site& s) { s.num_inputs = 0; });
}

void leave_guards_out(ProgramTables& tables) {
  for (RunEntry& run : tables.runs) run.num_guards = 0;
}

void guard_early(ProgramTables& tables) {
  for (GuardWait& guard : tables.guards) --guard.position;
}

constexpr NamedBug kBugs[] = {
    {PlantedBug::kWrongCredit, "a frame has a credit more than registers", give_credit_more},
    {PlantedBug::kReaderNotCounted, "one of the readers of a frame is not counted",
     count_reader_less},
    {PlantedBug::kEarlyAck, "Ack one act before the last on a content", ack_early},
    {PlantedBug::kAckOfStateLost, "readers of state never ack it", lose_ack_of_state},
    {PlantedBug::kEarlyReq, "Req one act before the last of an accumulation", req_early},
    {PlantedBug::kStateStartsEmpty, "state starts empty", start_state_empty},
    {PlantedBug::kReaderWaitsForNothing, "a reader does not wait for its inputs",
     wait_for_no_input},
    {PlantedBug::kGuardLeftOut, "guards left out", leave_guards_out},
    {PlantedBug::kGuardTooEarly, "guards name the launch before", guard_early},
    {PlantedBug::kLostAck, "lost Ack", nullptr},
    {PlantedBug::kDoubleAck, "double Ack", nullptr},
    {PlantedBug::kLostReq, "lost Req", nullptr},
    {PlantedBug::kDoubleReq, "double Req", nullptr},
    {PlantedBug::kCreditWithoutFence, "a loader does not wait for the fences of its credits",
     nullptr},
    {PlantedBug::kInputWithoutFence, "a host actor does not wait for the fences of its inputs",
     nullptr},
    {PlantedBug::kArrivalsNotInOrder, "network arrivals are not put in order", nullptr},
    {PlantedBug::kRepeatsNotDropped, "repeated network arrivals are not dropped", nullptr},
    {PlantedBug::kWaitsLeftOut, "launches do not wait for other queues", nullptr},
    {PlantedBug::kWaitsOneEarly, "launches wait for the launch before the one that matters",
     nullptr},
    {PlantedBug::kQueueOvertakesItself, "a queue starts a launch before the last one is over",
     nullptr},
    {PlantedBug::kGroupStartsWithFirst, "a launch group starts when its first member may", nullptr},
    {PlantedBug::kMeetingWithoutOne, "a communication is over with one member missing", nullptr},
    {PlantedBug::kMeetingsNotToldApart, "occurrences of a communication are not told apart",
     nullptr},
    {PlantedBug::kEarlyStop, "a host thread ends with Stop, whatever it owes", nullptr},
    {PlantedBug::kNoDrain, "a rank ends when it has issued all, not when all is done", nullptr},
    {PlantedBug::kHostCalledBusy, "post calls a host thread busy that has done all", nullptr},
    {PlantedBug::kHostToldWithoutLock, "post tells the host thread without the lock", nullptr},
    {PlantedBug::kHostNotDrained, "drain does not wait until what was posted is taken", nullptr},
    {PlantedBug::kReadsNotHeld, "reads are not held back until their launches are made", nullptr},
};

}  // namespace

std::span<const NamedBug> planted_bugs() { return kBugs; }

}  // namespace sextant::testing
