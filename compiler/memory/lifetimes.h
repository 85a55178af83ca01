// When each content of a program is first written and last used, by walking its issue order; and
// how many contents of a frame are in flight at most: its number of registers.
#pragma once

#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// Entries of Lifetimes::frames and Lifetimes::contents.
using ProgramFrameId = Id<struct ProgramFrameTag>;
using ContentId = Id<struct ContentTag>;

// A frame of one instance of a program.
struct ProgramFrame {
  InstanceId instance;
  std::int32_t index = 0;  // in its block
  const Frame* frame = nullptr;
  std::int32_t contents_per_step = 1;
  ContentId first_content;
  bool is_host = false;            // a host actor writes or reads it
  bool has_outer_readers = false;  // lives on when its instance has acted
};

// Use of one content, as run and as position: actors counted through the whole order. A launch
// group is one point: what it writes begins at its first run, what it reads ends at its last.
struct ContentLife {
  ProgramFrameId frame;
  RunId first_run, last_run;
  std::int32_t first = 0, last = 0;  // of no meaning while unused
  bool is_used() const { return first_run.is_valid(); }
};

struct Lifetimes {
  Table<ProgramFrameId, ProgramFrame> frames;  // by instance, then by frame
  Table<ContentId, ContentLife> contents;      // of all frames but state, which lives always
  std::vector<ContentId> in_order;             // by first use
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
