// Operators whose output is their input, byte by byte, seen in another shape. An actor of such a
// kind that works in place moves nothing: both registers hold the value as long as anybody reads
// either.
#pragma once

#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace sextant {

// Whether operators of the kind move no element: reshapes.
bool is_view_kind(std::string_view kind);
// It has the bytes of its input.
bool is_view(const Actor& actor);
// By register of the block: the one that it is a view of, through all views between; itself if it
// is none.
std::vector<std::int32_t> view_roots(const Block& block);

}  // namespace sextant
