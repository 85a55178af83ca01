// All numbers of a cluster that say where they come from, and whether what they say can be true.
#pragma once

#include "core/costs/cluster.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace sextant {

// Calls `visit(key, number)` for every number that the cluster states; the key is that of its field
// ("memory_bandwidth", "peak.bf16"), without the place of its owner.
void for_each_figure(Cluster& cluster,
                     const std::function<void(std::string_view key, Sourced& number)>& visit);

// How many there are of each provenance.
std::map<Provenance, std::int64_t> provenances_of(const Cluster& cluster);
std::string to_text(const std::map<Provenance, std::int64_t>& provenances);  // "9 published, ..."

// A number that names a built-in's source and has another value than any built-in has from there
// was edited: it becomes assumed, and its source says so. Sources that no built-in has are
// believed.
void mark_edited_figures(Cluster& cluster);

}  // namespace sextant
