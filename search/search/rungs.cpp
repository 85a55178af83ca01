// Rungs follow the levels of the tree: only of a leaf are its own layers known.
#include "search/search/rungs.h"

namespace sextant {
namespace {

NodeFacts::Share share_at(Rung rung) {
  if (rung == Rung::kWholeSequences) return NodeFacts::Share::kOfWholeSequences;
  return rung == Rung::kLayers ? NodeFacts::Share::kOfAllSamples : NodeFacts::Share::kOfMicroBatch;
}

}  // namespace

std::optional<Rung> Rungs::next(const OpenNode& open, bool has_plan) const {
  const bool is_leaf = open.node.level == Level::kPieces;
  // There is nothing to cut yet, but its own layers say which leaf is the most promising.
  if (!has_plan) {
    if (!is_leaf || open.rung == Rung::kOwnLayers) return std::nullopt;
    return Rung::kOwnLayers;
  }
  switch (open.rung) {
    case Rung::kOwnWork:
      if (open.node.strategy.cp > 1 && facts_.has_shares())
        return unless_below(open, Rung::kWholeSequences);
      return unless_below(open, Rung::kLayers);
    case Rung::kWholeSequences:
      return unless_below(open, Rung::kLayers);
    case Rung::kLayers:
      return unless_below(open, Rung::kMicroBatchLayers);
    case Rung::kMicroBatchLayers:
      return is_leaf ? std::optional(Rung::kOwnLayers) : std::nullopt;
    case Rung::kOwnLayers:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Duration> Rungs::bound_at(Rung rung, const OpenNode& open) {
  if (rung == Rung::kOwnLayers) return facts_.bound_with_layers(open.node.strategy);
  return facts_.bound_with_choices(open.node, space_.layer_choices(open.node), share_at(rung),
                                   open.bound);
}

// Below a micro-batch much is cut for its memory, at less than staging takes.
std::optional<Rung> Rungs::unless_below(const OpenNode& open, Rung rung) const {
  if (open.node.level == Level::kMicroBatch && !knows(open, rung)) return std::nullopt;
  return rung;
}

bool Rungs::knows(const OpenNode& open, Rung rung) const {
  return facts_.knows_choices(space_.layer_choices(open.node), share_at(rung));
}

}  // namespace sextant
