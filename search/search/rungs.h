// Which bound of a node is asked for next, each dearer and no less than the one before
// (search/search/open_nodes.h). Whether it is worth asking is the search's to decide.
#pragma once

#include "core/base/units.h"
#include "search/bounds/node_facts.h"
#include "search/search/open_nodes.h"
#include "search/space/space.h"

#include <optional>

namespace sextant {

class Rungs {
 public:
  // Both outlive it.
  Rungs(NodeFacts& facts, const StrategySpace& space) : facts_(facts), space_(space) {}

  // The rung behind the one that the node is on; nothing where no more is known of it, or would
  // cost more than it cuts. `has_plan`: there is one that bounds can be compared with.
  std::optional<Rung> next(const OpenNode& open, bool has_plan) const;
  // The bound of a node with what the rung knows; nothing where a layer is not known.
  std::optional<Duration> bound_at(Rung rung, const OpenNode& open);

 private:
  std::optional<Rung> unless_below(const OpenNode& open, Rung rung) const;
  bool knows(const OpenNode& open, Rung rung) const;

  NodeFacts& facts_;
  const StrategySpace& space_;
};

}  // namespace sextant
