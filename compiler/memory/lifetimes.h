// When each content of a program is first written and last used, by walking its issue order; and
// how many contents of a frame are in flight at most: its number of registers.
#pragma once

#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// A frame of one instance of a program.
struct ProgramFrame {
  std::int32_t instance = 0;
  std::int32_t index = 0;  // in its block
  const Frame* frame = nullptr;
  std::int32_t contents_per_step = 1;
  std::int32_t first_content = 0;  // in Lifetimes::contents
  bool is_host = false;            // a host actor writes or reads it
  bool has_outer_readers = false;  // lives on when its instance has acted
};

// Use of one content, as run and as position: actors counted through the whole order. A launch
// group is one point: what it writes begins at its first run, what it reads ends at its last.
struct ContentLife {
  std::int32_t frame = 0;  // in Lifetimes::frames
  std::int32_t first_run = -1, last_run = -1;
  std::int64_t first = -1, last = -1;
  bool is_used() const { return first >= 0; }
};

struct Lifetimes {
  std::vector<ProgramFrame> frames;    // by instance, then by frame
  std::vector<ContentLife> contents;   // of all frames but state, which lives always
  std::vector<std::int32_t> in_order;  // contents by first use
};

// Needs the program's instances, links and order, nothing else of it.
Lifetimes find_lifetimes(const PhysicalGraph& graph, const RankProgram& program);

// Contents in flight at most: one is taken by the run that first writes it and given back after the
// last run that uses it. With modelled times of the runs (`begin`, `end`, or empty) it is given
// back when that run is over: what is issued after it may well start before. What host actors touch
// gets one more, so that they can work ahead.
std::int32_t contents_in_flight(const Lifetimes& lifetimes, const ProgramFrame& frame,
                                std::span<const Time> begin, std::span<const Time> end);

}  // namespace sextant
