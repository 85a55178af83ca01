// The host's side of a boxing graph: brings the parts of the source, takes those of the target.
#pragma once

#include "core/graphs/host_actors.h"
#include "sbp/boxing.h"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace sextant {

// What a caller hands in as one device's part: its extents and its elements, row-major.
struct LocalPiece {
  Shape shape;
  std::vector<std::byte> bytes;
};

// Pieces that devices bring, in the order of the placement, are those that the words give them.
// Throws Error(kBadInput) that names every rank whose piece is another one, with the extents it has
// and those it should have: no rank goes on while another is refused.
void require_pieces(const TensorType& global, const NdSbp& words, const Placement& placement,
                    std::span<const LocalPiece> pieces);

class BoxingHost : public HostActors {
 public:
  // `pieces` in the order of the source's devices. Throws as require_pieces.
  BoxingHost(const BoxingRequest& request, std::vector<LocalPiece> pieces);

  void act(const HostAct& act) override;

  // By the target's devices, after the run.
  const std::vector<std::vector<std::byte>>& results() const { return results_; }

 private:
  const Placement source_, target_;
  const std::vector<LocalPiece> pieces_;
  std::vector<std::vector<std::byte>> results_;
};

}  // namespace sextant
