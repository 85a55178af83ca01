// Staged graph -> physical graph: blocks and instances, programs per class of ranks, schedule,
// issue order, memory plan, guards, checks.
#pragma once

#include "actor/protocol/graph_tables.h"
#include "actor/protocol/proven_graph.h"
#include "compiler/memory/memory_plan.h"
#include "compiler/memory/spare_memory.h"
#include "compiler/order/buckets.h"
#include "compiler/order/issue_order.h"
#include "compiler/strategy/strategy.h"
#include "compiler/words/staged_graph.h"
#include "core/base/stop_poll.h"
#include "core/costs/cost_model.h"
#include "core/graphs/operator.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sextant {

struct BoxingTables;  // compiler/words/stage.h

enum class SlotLifetime : std::uint8_t { kIssueOrder, kModelled };

struct ExpandOptions {
  Schedule schedule = Schedule::kOneFOneB;
  SlotLifetime slot_lifetime = SlotLifetime::kModelled;
  TransferOrder transfer_order = TransferOrder::kEarly;
  bool launch_groups = false;  // merge neighbouring opposite transfers
  BucketLimits buckets = {};   // collectives that start together
  bool join_runs = true;       // neighbouring runs of what happens once per step
  bool fusion = true;          // operators that the device has one kernel for become one
  bool plan_memory = true;     // false: unique addresses, no reuse (a reference for tests)
  bool in_place = true;        // an output may take over the bytes of an input that dies with it
  // What collectives read and write lies at equal offsets on all ranks of their group: every rank
  // class of a stage gives a tensor the room of the largest part.
  bool symmetric = true;
  // Of a device; a plan whose arenas are larger is refused. Not in plan files: it is the cluster's.
  std::optional<Bytes> memory = {};
  // What arenas may grow to so that no guard delays the step (compiler/memory/spare_memory.h);
  // without it, and with lives by issue order, they are as small as they can be. Not in plan files
  // either.
  std::optional<ArenaRoom> room = {};
  // Proof that the result is valid, runs and orders its bytes. A search may leave it to the one
  // plan it returns: what is checked is this compiler's own work, and cannot depend on the input.
  bool checks = true;
  // Waits that make reuse of bytes safe. Without them the graph says how much memory it needs, and
  // must not be run.
  bool guards = true;
  GraphHeader header = {};  // of the graph that comes out; not in plan files
  StopPoll stop = {};       // the compile then throws CompileStopped
  bool operator==(const ExpandOptions&) const = default;
};

// Throws Error(kInfeasible) when the order cannot run, and when the memory of a device does not
// suffice (compiler/memory/memory_report.h). The result passes prove(); with `checks` this was
// tried, and a failure is Error(kInternal).
PhysicalGraph expand(const StagedGraph& staged, const CostModel& cost, const NetworkModel& network,
                     const ExpandOptions& options);
// The same with other operators than the built-in ones.
PhysicalGraph expand(const StagedGraph& staged, const OperatorRegistry& registry,
                     const CostModel& cost, const NetworkModel& network,
                     const ExpandOptions& options);

// The graph with how the memory of each program was packed, and with its proof.
class ExpandedGraph {
 public:
  ExpandedGraph(std::shared_ptr<PhysicalGraph> graph, std::vector<PackedProgram> packed,
                std::shared_ptr<const GraphTables> tables, std::optional<ProvenGraph> proven);

  const PhysicalGraph& graph() const { return *graph_; }
  const std::vector<PackedProgram>& packed() const { return packed_; }  // by program
  // For those who record the graph; nothing without `checks`.
  const std::optional<ProvenGraph>& proven() const { return proven_; }
  // Of the graph, as far as expansion has made them: a proof goes on from there.
  const std::shared_ptr<const GraphTables>& tables() const { return tables_; }
  std::shared_ptr<const PhysicalGraph> shared_graph() const { return graph_; }
  // By program: the arenas it cannot do without; what else it takes is spare.
  std::vector<Bytes> tight_arenas() const;

  // Nobody has a copy of proven(), tables() or shared_graph().
  PhysicalGraph take_graph() &&;

 private:
  std::shared_ptr<PhysicalGraph> graph_;
  std::vector<PackedProgram> packed_;
  std::shared_ptr<const GraphTables> tables_;
  std::optional<ProvenGraph> proven_;
};
ExpandedGraph expand_and_report(const StagedGraph& staged, const OperatorRegistry& registry,
                                const CostModel& cost, const NetworkModel& network,
                                const ExpandOptions& options);
// The same of a graph that nobody needs any more.
ExpandedGraph expand_and_report(StagedGraph&& staged, const OperatorRegistry& registry,
                                const CostModel& cost, const NetworkModel& network,
                                const ExpandOptions& options);

// The whole compiler: stages, words, boxing, expansion. The schedule is the strategy's.
PhysicalGraph compile(const LogicalGraph& training, const Strategy& strategy,
                      std::int64_t global_batch, const CostModel& cost, const NetworkModel& network,
                      ExpandOptions options = {});
ExpandedGraph compile_and_report(const LogicalGraph& training, const Strategy& strategy,
                                 std::int64_t global_batch, const CostModel& cost,
                                 const NetworkModel& network, ExpandOptions options = {});
// The same, with boxing plans of these models that several compiles share.
PhysicalGraph compile(const LogicalGraph& training, const Strategy& strategy,
                      std::int64_t global_batch, const CostModel& cost, const NetworkModel& network,
                      BoxingTables& tables, ExpandOptions options = {});
ExpandedGraph compile_and_report(const LogicalGraph& training, const Strategy& strategy,
                                 std::int64_t global_batch, const CostModel& cost,
                                 const NetworkModel& network, BoxingTables& tables,
                                 ExpandOptions options = {});

}  // namespace sextant
