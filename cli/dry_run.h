// Where --dry-run ends a verb: all is read and checked, nothing is computed, run or written.
#pragma once

#include "cli/console.h"

#include <string>
#include <vector>

namespace sextant {

// Says what the verb would do and which files it would write (empty names are none); with --json
// a document of the verb's own schema with `dry_run`, `would` and `writes`.
void say_dry_run(const std::string& verb, const std::string& would,
                 const std::vector<std::string>& files, const Console& console);

// Files in a folder for results; none where there is no folder.
std::vector<std::string> in_results(const CommonOptions& common,
                                    const std::vector<std::string>& files);

}  // namespace sextant
