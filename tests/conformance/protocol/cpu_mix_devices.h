// CPU devices of any queue kind with the integer kernels of tests/support/mix_kernel.h.
#pragma once

#include "backends/cpu/cpu_backend.h"
#include "tests/conformance/protocol/protocol_suite.h"

namespace sextant::testing {

// A rendezvous that waits longer than `options.rendezvous_timeout_ms` ends the run with an error: a
// hang fails a test instead of stopping it.
DeviceFactory cpu_mix_devices(const CpuOptions& options);

}  // namespace sextant::testing
