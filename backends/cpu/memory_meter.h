// What a rank's arena really held while it ran: counted where runs are executed, from the addresses
// they use, so that a plan's promise can be held against it. For inline queues, which execute one
// run at a time.
#pragma once

#include "actor/calls/operands.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

struct MemoryUse {
  Bytes most;                   // in use at one time
  std::vector<Bytes> by_class;  // then; kNumMemoryClasses entries
  Bytes reach;                  // end of the highest bytes that were used
};

// Counts pieces of the arena of the size of its alignment. A content takes its pieces when the
// first run that uses it begins, and gives them back when the last one of the step has ended; state
// and what host actors touch is there always. Pieces that two contents have at once count once.
class MemoryMeter {
 public:
  MemoryMeter(const PhysicalGraph& graph, Rank rank, const OperandResolver& resolver);

  // Around the work of a call of the run, by the thread that does it.
  void begin(RunId run, std::size_t call);
  void end(RunId run, std::size_t call);
  const MemoryUse& use() const { return use_; }

 private:
  struct Content {
    std::size_t first_piece = 0, num_pieces = 0;
    MemoryClass memory = MemoryClass::kActivations;
    std::int64_t uses = 0;  // calls of a step
    std::int64_t done = 0;  // calls of this step so far
    bool always = false;
  };

  void add_contents();
  void index_calls(const OperandResolver& resolver);
  bool is_of_host(InstanceId instance, std::size_t frame) const;
  std::size_t content_of(const BufferRef& buffer) const;
  void take(const Content& content);
  void give_back(const Content& content);
  void note();

  const PhysicalGraph& graph_;
  const RankProgram& program_;
  std::vector<Content> contents_;
  std::vector<std::vector<std::size_t>> first_content_;             // by instance and frame
  std::vector<std::vector<std::vector<std::size_t>>> contents_of_;  // by run and call
  std::vector<std::int32_t> tenants_;                               // by piece
  std::vector<Bytes> live_ = std::vector<Bytes>(kNumMemoryClasses);
  Bytes total_;
  MemoryUse use_;
};

}  // namespace sextant
