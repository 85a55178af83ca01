// Communications by their scripts (core/collective_script), over the members' buffers: the library
// of collectives that a machine without GPUs lacks. An implementation beside run_collective that
// shares nothing with it but the reduction of two elements.
#pragma once

#include "backends/cpu/collectives.h"
#include "core/collective_script/collective_script.h"

#include <span>

namespace sextant {

// Does what run_collective does; adds to `traffic` what the exchange sent.
void run_scripts(const CollectiveCall& call, Traffic& traffic);

}  // namespace sextant
