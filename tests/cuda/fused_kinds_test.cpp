// Fused kinds without a CUDA kernel are those of products in pieces and no others, so that what is
// simulated for one GPU is what runs on one. Needs no GPU.
#include "core/graphs/fused_kinds.h"

#include "backends/cuda/cuda_kernel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

namespace sextant::fused_kinds_test {

TEST_CASE("CUDA has a kernel of every fused kind but those of products in pieces") {
  // A product is cut into pieces beside collectives of tensor parallelism. CUDA runs no
  // collectives yet; when it does, these want kernels or leave the list of GPU clusters.
  const auto is_of_pieces = [](const FusedKind& kind) {
    return std::any_of(kind.members().begin(), kind.members().end(), [](const auto& link) {
      return link.kind == "concat" || link.kind == "slice";
    });
  };
  const std::vector<std::string> kinds = cuda_kernels().kinds();
  for (const FusedKind& kind : fused_kinds()) {
    CAPTURE(std::string(kind.kind));
    const bool has_kernel = std::binary_search(kinds.begin(), kinds.end(), kind.kind);
    CHECK(has_kernel == !is_of_pieces(kind));
  }
}

}  // namespace sextant::fused_kinds_test
