// CPU devices that do what a GPU does with host actors and whole steps: several steps' host
// buffers, copied in and out by runs, and replays of a recorded step.
#pragma once

#include "tests/conformance/protocol/protocol_suite.h"

#include <atomic>
#include <cstdint>

namespace sextant::testing {

struct ReplayingOptions {
  bool capture = true;
  std::int32_t host_steps = 2;
  std::atomic<std::int64_t>* replays = nullptr;  // counts the steps that were replayed
};

// Wraps inline devices that `factory` makes. Replays launch the tape's entries with the tape's
// waits; those on the step before are left out, as a graph has it.
DeviceFactory replaying_devices(const DeviceFactory& factory, const ReplayingOptions& options);

}  // namespace sextant::testing
