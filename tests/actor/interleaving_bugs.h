// Bugs that a runtime may have, each planted by name: in the tables that the protocol runs on, or
// in what the scheduler does with messages, fences, queues and meetings, or in the host thread.
#pragma once

#include "actor/protocol/program_tables.h"

#include <cstdint>
#include <span>

namespace sextant::testing {

enum class PlantedBug : std::uint8_t {
  kNone,
  // In the tables.
  kWrongCredit,
  kReaderNotCounted,
  kEarlyAck,
  kAckOfStateLost,
  kEarlyReq,
  kStateStartsEmpty,
  kReaderWaitsForNothing,
  kGuardLeftOut,
  kGuardTooEarly,
  // Of messages.
  kLostAck,
  kDoubleAck,
  kLostReq,
  kDoubleReq,
  kCreditWithoutFence,
  kInputWithoutFence,
  kArrivalsNotInOrder,
  kRepeatsNotDropped,
  // Of queues and meetings.
  kWaitsLeftOut,
  kWaitsOneEarly,
  kQueueOvertakesItself,
  kGroupStartsWithFirst,
  kMeetingWithoutOne,
  kMeetingsNotToldApart,
  // Of Stop.
  kEarlyStop,
  kNoDrain,
  // Of the host thread (host_thread_run.h).
  kHostCalledBusy,
  kHostToldWithoutLock,
  kHostNotDrained,
  kReadsNotHeld,
};

struct NamedBug {
  PlantedBug bug;
  const char* name;
  void (*plant)(ProgramTables&);  // nullptr: the scheduler does it
};
// All but kNone.
std::span<const NamedBug> planted_bugs();

}  // namespace sextant::testing
