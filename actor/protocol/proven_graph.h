// A graph of which the dry run has shown that it can run, with all that was worked out for it.
// Whoever records, times or runs the graph goes on from there instead of working it out again.
#pragma once

#include "actor/protocol/dry_run.h"
#include "actor/protocol/graph_tables.h"
#include "actor/protocol/rank_classes.h"
#include "core/graphs/physical_graph.h"

#include <memory>

namespace sextant {

// A handle: copies share what they stand for. Having one means that dry_run() passed, for one rank
// per class; that the graph is valid and its bytes are ordered is prove()'s (actor/proof).
class ProvenGraph {
 public:
  // Throws what dry_run() throws. `graph` outlives every copy and does not change.
  explicit ProvenGraph(const PhysicalGraph& graph);
  // Keeps the graph. Throws what dry_run() throws.
  explicit ProvenGraph(std::shared_ptr<const PhysicalGraph> graph);
  // Keeps the graph and tables of it that others use too. Throws what dry_run() throws.
  ProvenGraph(std::shared_ptr<const PhysicalGraph> graph,
              std::shared_ptr<const GraphTables> tables);

  const PhysicalGraph& graph() const { return *facts_->graph; }
  const GroupMembers& members() const { return facts_->members; }
  // Of the graph alone: devices and links may tell more ranks apart.
  const RankClasses& classes() const { return facts_->classes; }
  const GraphTables& tables() const { return *facts_->tables; }
  const DryRun& dry_run() const { return *facts_->dry; }
  // The dry run of these classes: the one that is there, where they are its own. Throws what
  // dry_run() throws.
  std::shared_ptr<const DryRun> dry_run_of(const RankClasses& classes) const;

 private:
  struct Facts {
    Facts(std::shared_ptr<const PhysicalGraph> of, std::shared_ptr<const GraphTables> its_tables);
    std::shared_ptr<const PhysicalGraph> graph;
    std::shared_ptr<const GraphTables> tables;
    GroupMembers members;
    RankClasses classes;
    std::shared_ptr<const DryRun> dry;
  };
  std::shared_ptr<const Facts> facts_;
};

// A graph of somebody else, who keeps it.
std::shared_ptr<const PhysicalGraph> refer_to(const PhysicalGraph& graph);

}  // namespace sextant
