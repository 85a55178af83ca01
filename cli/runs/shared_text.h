// The text that the processes of a run train on: each reads its share of it.
#pragma once

#include "cli/runs/run_processes.h"
#include "io/text_files.h"
#include "io/token_data.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

// Processes of one machine that have the same files share out the blocks that are looked through.
// All call it. Throws, in all, what one of them throws.
void look_through(RunProcesses& processes, TextFiles& text);

// Bytes of the text that each process has read so far. All call it.
std::vector<std::int64_t> gather_text_bytes(RunProcesses& processes,
                                            const std::optional<TokenData>& data);

}  // namespace sextant
