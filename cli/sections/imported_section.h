// A cluster that was taken from other programs, as the verbs that take one hand it on.
#pragma once

#include "cli/console.h"
#include "simulator/cluster_files/cluster_import.h"

#include <string>

namespace sextant {

// Writes the cluster file, to standard output where `output` is empty and no document is wanted.
// What people are told goes to standard error, so that standard output is a cluster file:
// `heading`, the notes, and `next` where there is one.
void write_imported(const ImportedCluster& imported, const std::string& heading,
                    const std::string& next, const std::string& output,
                    const CommonOptions& common);

}  // namespace sextant
