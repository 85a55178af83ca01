// A guess at the time and the memory of a strategy in closed form. It decides in which order plans
// are compiled and nothing else: it is never shown, and it is no bound.
#pragma once

#include "core/costs/arena_room.h"
#include "core/costs/cluster.h"
#include "search/bounds/bounds.h"
#include "search/space/space.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace sextant {

// What tensor, expert and context parallelism move, from the words that Megatron's rule for
// parameters gives forward. Bytes are of one sample, whole; by layer.
class CommunicationSketch {
 public:
  // `samples`: of the graph.
  CommunicationSketch(const LogicalGraph& training, std::int64_t samples, const LeastCosts& costs);

  struct Layer {
    double pending = 0;          // results that are summed over tp in forward
    double gathered = 0;         // operands of split products that tp leaves whole
    double routed = 0;           // to experts and back, where tp leaves their rows whole
    double routed_in_parts = 0;  // and where it splits them
    double keys = 0;             // keys and values
    double heads = 0;            // all that attention reads and makes
    double passed = 0;           // to the next layer
    // Activations that tp leaves whole, as a share of all that forward makes; those of them that
    // sequence parallelism does not split either: they have no dims of samples and sequence.
    // Seconds that forward takes to make the latter.
    double whole = 0, unsplit = 0, unsplit_seconds = 0;
    bool operator==(const Layer&) const = default;
  };
  const std::vector<Layer>& layers() const { return layers_; }

 private:
  std::vector<Layer> layers_;
};

struct Guess {
  double seconds = 0;
  double bytes = 0;  // on the worst stage, with communicators, without other libraries
  // Seconds, part of the above: transfers between stages and replicas that nothing hides. Bounds
  // know little of them.
  double outside = 0;
};

class Estimator {
 public:
  Estimator(const Cluster& cluster, const LeastCosts& costs, CommunicationSketch sketch)
      : cluster_(cluster),
        costs_(costs),
        sketch_(std::move(sketch)),
        per_communicator_(arena_room(cluster).per_communicator) {}

  // Of a node: what is undecided is taken at its best.
  Guess guess(const GraphProfile& profile, const SpaceNode& node,
              const std::vector<LayerPlace>& places, std::int64_t micro_batches) const;

 private:
  // Seconds per micro-batch, of one layer or several; the optimizer's are per step.
  struct LayerSeconds {
    double forward = 0, backward = 0, weights = 0, again = 0, optimizer = 0;
    double all() const { return forward + backward + weights + again; }
    LayerSeconds& operator+=(const LayerSeconds& other);
  };
  LayerSeconds seconds_of(const GraphProfile::LayerWork& work,
                          const CommunicationSketch::Layer& moved, const SpaceNode& node,
                          bool repeats) const;
  static std::int64_t num_communicators(const Strategy& strategy);
  double gather_s(double bytes, std::int64_t parts, std::int64_t stride) const;
  double bandwidth(std::int64_t parts, std::int64_t stride) const;
  double latency(std::int64_t parts, std::int64_t stride) const;

  const Cluster& cluster_;
  const LeastCosts& costs_;
  CommunicationSketch sketch_;
  Bytes per_communicator_;
};

}  // namespace sextant
