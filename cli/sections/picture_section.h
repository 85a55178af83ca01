// `simulate --trace` and `--timeline`: the step as files to look at.
#pragma once

#include "cli/workflow.h"
#include "simulator/modes/simulate.h"

#include <string>
#include <vector>

namespace sextant {

struct PictureFiles {
  std::string trace;                    // Chrome's or Perfetto's; .gz: compressed; empty: none
  std::string timeline;                 // HTML page; empty: none
  std::vector<std::string> notes = {};  // of the page
};

// By its name: Perfetto's own format.
bool is_native_trace(const std::string& file);

// The trace needs the slices of `simulation`.
void write_pictures(const PictureFiles& files, const PlannedJob& planned,
                    const ExpandedGraph& expanded, const Timeline& timeline,
                    const Simulation& simulation);

}  // namespace sextant
