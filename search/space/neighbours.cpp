// Walks down the tree beside the choices of the strategy, one of them changed.
#include "search/space/neighbours.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

// How far apart two values of a choice are, in steps that are worth a try; of the choices that
// differ on this level alone.
double distance(Level level, const Strategy& a, const Strategy& b) {
  const auto octaves = [](std::int64_t x, std::int64_t y) {
    return std::abs(std::log2(static_cast<double>(x) / static_cast<double>(y)));
  };
  switch (level) {
    case Level::kMesh:
      return octaves(a.dp, b.dp) + octaves(a.tp, b.tp) + octaves(a.pp, b.pp) + octaves(a.cp, b.cp) +
             octaves(a.ep, b.ep) + (a.context == b.context ? 0 : 1);
    case Level::kMicroBatch:
      return octaves(a.micro_batch, b.micro_batch);
    case Level::kSchedule:
      return (a.schedule == b.schedule ? 0 : 1) + octaves(a.virtual_stages, b.virtual_stages);
    case Level::kRecompute:
      if (a.recompute.kind != b.recompute.kind) return 1;
      return octaves(std::max(a.recompute.layers, 1), std::max(b.recompute.layers, 1));
    case Level::kSequence:
      return a.sequence_parallel == b.sequence_parallel ? 0 : 1;
    case Level::kZero:
      return std::abs(a.zero - b.zero);
    case Level::kPieces:
      return octaves(a.pieces, b.pieces);
  }
  return 0;
}

// The child that is nearest to what the strategy has.
std::optional<SpaceNode> nearest_child(const std::vector<SpaceNode>& children,
                                       const Strategy& from) {
  const SpaceNode* best = nullptr;
  for (const SpaceNode& child : children)
    if (best == nullptr ||
        distance(child.level, child.strategy, from) < distance(best->level, best->strategy, from))
      best = &child;
  if (best == nullptr) return std::nullopt;
  return *best;
}

// The leaf below that follows the strategy as far as it can.
std::optional<Strategy> nearest_leaf(const StrategySpace& space, SpaceNode node,
                                     const Strategy& from) {
  while (node.level != Level::kPieces) {
    std::optional<SpaceNode> next = nearest_child(space.children(node), from);
    if (!next) return std::nullopt;
    node = std::move(*next);
  }
  return node.strategy;
}

}  // namespace

std::vector<Strategy> neighbours_in(const StrategySpace& space,
                                    const std::vector<SpaceNode>& meshes, const Strategy& from) {
  constexpr double kMeshSteps = 2.01;  // a factor of two from one axis to another is two octaves
  std::vector<Strategy> list;
  const auto add = [&](const SpaceNode& node) {
    auto leaf = nearest_leaf(space, node, from);
    if (leaf && *leaf != from && std::find(list.begin(), list.end(), *leaf) == list.end())
      list.push_back(std::move(*leaf));
  };
  const SpaceNode* own = nullptr;
  for (const SpaceNode& mesh : meshes) {
    const double steps = distance(Level::kMesh, mesh.strategy, from);
    if (steps == 0)
      own = &mesh;
    else if (steps <= kMeshSteps)
      for (const SpaceNode& sized : space.children(mesh))
        if (distance(Level::kMicroBatch, sized.strategy, from) <= 1.01) add(sized);
  }
  if (own == nullptr) return list;
  SpaceNode node = *own;
  while (node.level != Level::kPieces) {
    const std::vector<SpaceNode> children = space.children(node);
    for (const SpaceNode& child : children) add(child);
    const auto next = nearest_child(children, from);
    if (!next) break;
    node = *next;
  }
  return list;
}

}  // namespace sextant
