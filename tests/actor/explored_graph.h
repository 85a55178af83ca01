// A physical graph with all that an interleaving of it reads and never changes: tables of the
// protocol, and which bytes every run and host act touches.
#pragma once

#include "actor/protocol/program_tables.h"
#include "core/graphs/physical_graph.h"
#include "tests/actor/interleaving_bugs.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sextant::testing {

// What an operand's bytes hold: which filling of which register, and how many acts added to it.
struct ContentTag {
  std::int32_t instance = -1, reg = -1, content = -1;
  std::int64_t version = -1;  // the step; of state how often it was updated
  std::int32_t parts = 0;
  bool operator==(const ContentTag&) const = default;
};
std::string to_text(const ContentTag& tag);

// One operand of one act, in units of the alignment of buffers.
struct Touch {
  std::size_t first = 0, count = 0;
  ContentTag tag;         // but for its version
  bool writes = false;    // leaves `tag`; else wants it
  bool is_state = false;  // a write wants the version before
};

struct ExploredProgram {
  std::shared_ptr<const ProgramTables> tables;
  std::vector<std::vector<Touch>> of_run;  // actor by actor, reads before writes
  Table<SiteId, std::vector<std::vector<Touch>>> of_host_act;  // by act of the step
  std::vector<Touch> state;
  std::size_t units = 0;  // of the arena
};

class ExploredGraph {
 public:
  // The bug is planted where it belongs: in the tables of the protocol, or later in the world.
  ExploredGraph(std::string name, PhysicalGraph graph, PlantedBug bug = PlantedBug::kNone);

  const std::string& name() const { return name_; }
  const PhysicalGraph& graph() const { return graph_; }
  PlantedBug bug() const { return bug_; }
  const ExploredProgram& of(Rank rank) const {
    return programs_[graph_.ranks[rank].program.index()];
  }

 private:
  std::string name_;
  PhysicalGraph graph_;
  PlantedBug bug_;
  std::vector<ExploredProgram> programs_;
};

}  // namespace sextant::testing
