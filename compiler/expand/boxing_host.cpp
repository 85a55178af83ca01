// Copies between the caller's pieces and the registers of host actors.
#include "compiler/expand/boxing_host.h"

#include "core/base/check.h"

#include <cstring>
#include <string>
#include <utility>

namespace sextant {
namespace {

// "rank 1: got 3x5, wanted 2x5"; empty if the piece is right.
std::string refusal_of(const TensorType& global, const Shape& wanted, Rank rank,
                       const LocalPiece& piece) {
  const Bytes size = size_of(TensorType{wanted, global.dtype});
  if (piece.shape != wanted)
    return fmt::format("rank {}: got {}, wanted {}", rank.value, to_string(piece.shape),
                       to_string(wanted));
  if (static_cast<std::int64_t>(piece.bytes.size()) != size.value)
    return fmt::format("rank {}: got {} bytes for {}, wanted {}", rank.value, piece.bytes.size(),
                       to_string(wanted), size.value);
  return {};
}

}  // namespace

void require_pieces(const TensorType& global, const NdSbp& words, const Placement& placement,
                    std::span<const LocalPiece> pieces) {
  require(pieces.size() == placement.ranks.size(), ErrorCode::kBadInput,
          "{} pieces for the {} devices of {}", pieces.size(), placement.ranks.size(),
          to_string(placement));
  const std::vector<std::int64_t> hierarchy = placement.hierarchy();
  std::string refusals;
  for (std::size_t device = 0; device < pieces.size(); ++device) {
    const Shape wanted =
        shard_of(global.shape, words, hierarchy, placement.coordinates_of(device)).local_shape();
    const std::string refusal = refusal_of(global, wanted, placement.ranks[device], pieces[device]);
    if (refusal.empty()) continue;
    refusals += (refusals.empty() ? "" : "; ") + refusal;
  }
  require(refusals.empty(), ErrorCode::kBadInput, "pieces that are not {}@{} of {} {}: {}",
          to_string(words), to_string(placement), to_string(global.shape), to_string(global.dtype),
          refusals);
}

BoxingHost::BoxingHost(const BoxingRequest& request, std::vector<LocalPiece> pieces)
    : source_(*request.from_placement),
      target_(*request.to_placement),
      pieces_(std::move(pieces)),
      results_(target_.ranks.size()) {
  require_pieces(request.type, request.from, source_, pieces_);
}

// One rank per thread: each writes its own entry of the results.
void BoxingHost::act(const HostAct& act) {
  if (act.actor->kind == "output") {
    const std::span<const std::byte> part = act.inputs[0];
    results_[target_.index_of(act.rank).value()].assign(part.begin(), part.end());
    return;
  }
  const std::vector<std::byte>& bytes = pieces_[source_.index_of(act.rank).value()].bytes;
  require(bytes.size() == act.outputs[0].size() || act.outputs[0].empty(), ErrorCode::kInternal,
          "rank {} has a register of {} bytes for a piece of {}", act.rank.value,
          act.outputs[0].size(), bytes.size());
  if (!act.outputs[0].empty())
    std::memcpy(act.outputs[0].data(), bytes.data(), act.outputs[0].size());
}

}  // namespace sextant
