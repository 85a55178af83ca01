// Members, classes and dry run in the order in which each needs the one before.
#include "actor/protocol/proven_graph.h"

#include <utility>

namespace sextant {

ProvenGraph::Facts::Facts(std::shared_ptr<const PhysicalGraph> of,
                          std::shared_ptr<const GraphTables> its_tables)
    : graph(std::move(of)),
      tables(std::move(its_tables)),
      members(*graph),
      classes(rank_classes(*graph, members)),
      dry(tables->known_dry_run()) {
  if (dry) return;
  dry = std::make_shared<const DryRun>(sextant::dry_run(*graph, members, classes, *tables));
  tables->keep(dry);
}

ProvenGraph::ProvenGraph(std::shared_ptr<const PhysicalGraph> graph,
                         std::shared_ptr<const GraphTables> tables)
    : facts_(std::make_shared<const Facts>(std::move(graph), std::move(tables))) {}

ProvenGraph::ProvenGraph(std::shared_ptr<const PhysicalGraph> graph)
    : ProvenGraph(graph, std::make_shared<const GraphTables>(*graph)) {}

ProvenGraph::ProvenGraph(const PhysicalGraph& graph) : ProvenGraph(refer_to(graph)) {}

std::shared_ptr<const DryRun> ProvenGraph::dry_run_of(const RankClasses& classes) const {
  if (classes.class_of == facts_->classes.class_of) return facts_->dry;
  return std::make_shared<const DryRun>(sextant::dry_run(graph(), members(), classes, tables()));
}

std::shared_ptr<const PhysicalGraph> refer_to(const PhysicalGraph& graph) {
  return {std::shared_ptr<const PhysicalGraph>(), &graph};
}

}  // namespace sextant
