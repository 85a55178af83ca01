// Weights of other programs that a new training begins with.
#pragma once

#include "actor/protocol/device.h"
#include "cli/console.h"
#include "core/graphs/physical_graph.h"
#include "io/weights/foreign_weights.h"
#include "models/any_model.h"

#include <optional>
#include <string>
#include <vector>

namespace sextant {

class RunWeights {
 public:
  RunWeights() = default;  // none: parameters begin as the seed says
  // Opens `path` and finds every parameter of the graph in it. Throws Error(kBadInput) naming the
  // tensor that is missing, of another shape or left over.
  RunWeights(const std::string& path, const AnyModel& model, const PhysicalGraph& graph);

  // Fills the parameters of all ranks that have a device; what no such rank has is not read.
  // `devices`, by rank, are prepared and have not begun.
  void load(const PhysicalGraph& graph, const std::vector<Device*>& devices) const;
  // A word that is the same in all processes that begin with the same files.
  const std::string& id() const { return id_; }
  void say(const Console& console) const;

 private:
  std::optional<ForeignWeights> weights_;
  std::string id_ = "none";
};

}  // namespace sextant
