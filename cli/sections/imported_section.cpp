// Text, file and notes of imported clusters.
#include "cli/sections/imported_section.h"

#include "simulator/cluster_files/cluster_file.h"

#include <fmt/core.h>

#include <cstdio>

namespace sextant {

void write_imported(const ImportedCluster& imported, const std::string& heading,
                    const std::string& next, const std::string& output,
                    const CommonOptions& common) {
  const std::string text = to_json_text(imported.cluster);
  if (!common.quiet) {
    fmt::print(stderr, "{}\n", heading);
    for (const std::string& note : imported.notes) fmt::print(stderr, "note: {}\n", note);
    if (!next.empty()) fmt::print(stderr, "{}\n", next);
  }
  if (!output.empty())
    write_file_whole(output, text);
  else if (!common.json)
    fmt::print("{}", text);
}

}  // namespace sextant
