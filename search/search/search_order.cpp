// Numbers that were tried on searches, not derived: they cost time where they are wrong, never a
// plan.
#include "search/search/search_order.h"

#include <fmt/core.h>

#include <algorithm>

namespace sextant {
namespace {

// Weight of what was learned last.
constexpr double kNew = 0.5;

// What is known of a leaf: its layers, and a guess of what is outside of them.
double seconds_with_layers(const OpenNode& leaf) {
  return to_seconds(*leaf.with_layers) + leaf.guess.outside;
}

// How much a recomputation makes backward repeat, for comparisons alone.
double amount_of(const Recompute& recompute) {
  switch (recompute.kind) {
    case Recompute::Kind::kNone:
      return 0.0;
    case Recompute::Kind::kSelective:
      return 0.5;
    case Recompute::Kind::kLayers:
      return static_cast<double>(recompute.layers);
    case Recompute::Kind::kFull:
      break;
  }
  return 1e9;
}

}  // namespace

void SearchOrder::Correction::learn(double seconds_ratio, double bytes_ratio) {
  const double share = has_plan ? kNew : 1;
  has_plan = true;
  time += share * (seconds_ratio - time);
  memory += share * (bytes_ratio - memory);
}

void SearchOrder::Correction::note_layers(double ratio) {
  if (!has_plan && ratio > time) time += kNew * (ratio - time);
}

SearchOrder::MeshKey SearchOrder::mesh_key(const Strategy& strategy) {
  return {strategy.tp, strategy.cp, strategy.ep, strategy.pp};
}

// Refusals mostly depend on these alone.
std::string SearchOrder::likeness(const Strategy& strategy) {
  return fmt::format("{} {} {} {} {} {}", strategy.tp, strategy.cp, to_string(strategy.context),
                     strategy.ep, strategy.sequence_parallel, strategy.pieces);
}

const SearchOrder::Correction& SearchOrder::correction_of(const Strategy& strategy) const {
  const auto own = corrections_.find(mesh_key(strategy));
  const bool is_known =
      own != corrections_.end() && (own->second.has_plan || !correction_.has_plan);
  return is_known ? own->second : correction_;
}

void SearchOrder::learn(const OpenNode& leaf, const Candidate& candidate, Bytes room) {
  const Guess& guess = leaf.guess;
  if (guess.seconds <= 0 || guess.bytes <= 0) return;
  const double time = to_seconds(candidate.step_time) / guess.seconds;
  // With communicators.
  const Bytes taken = room - (candidate.capacity - candidate.needed_memory);
  const double memory = static_cast<double>(taken.value) / guess.bytes;
  Correction& own = corrections_[mesh_key(candidate.strategy)];
  own.learn(time, memory);
  constexpr double kMostMemory = 1.25;
  correction_.learn(time, std::min(memory, kMostMemory));
  if (!leaf.with_layers) return;
  const double ratio = to_seconds(candidate.step_time) / seconds_with_layers(leaf);
  for (Correction* const correction : {&own, &correction_})
    correction->layers = kNew * ratio + (1 - kNew) * correction->layers.value_or(ratio);
}

void SearchOrder::note_layers(const OpenNode& leaf) {
  if (correction_.has_plan || leaf.guess.seconds <= 0) return;
  const double ratio = seconds_with_layers(leaf) / leaf.guess.seconds;
  const auto [own, is_new] = corrections_.try_emplace(mesh_key(leaf.node.strategy));
  own->second.note_layers(ratio);
  if (!is_new) return;
  // What guesses of all meshes seen so far miss, those of other meshes will miss too.
  least_ratio_ = std::min(least_ratio_.value_or(ratio), ratio);
  correction_.time = 1;
  for (std::size_t mesh = 0; mesh < corrections_.size(); ++mesh)
    correction_.note_layers(*least_ratio_);
}

double SearchOrder::seconds_of(const OpenNode& open) const {
  const Correction& correction = correction_of(open.node.strategy);
  if (!open.with_layers) return open.guess.seconds * correction.time;
  return seconds_with_layers(open) * correction.layers.value_or(correction_.layers.value_or(1));
}

Guess SearchOrder::promise_of(const OpenNode& open) const {
  return {seconds_of(open), open.guess.bytes * correction_of(open.node.strategy).memory};
}

void SearchOrder::note_plan(const Strategy& strategy) {
  misses_in_a_row_ = 0;
  plans_.push_back(strategy);
}

double SearchOrder::key_of(const OpenNode& open, Bytes room) const {
  const SpaceNode& node = open.node;
  const Correction& correction = correction_of(node.strategy);
  const double seconds = std::max(seconds_of(open), to_seconds(open.bound));
  if (node.level < Level::kRecompute) return seconds;
  // What will not fit comes late; the more so the more plans in a row did not.
  const double margin = 1 + 0.05 * static_cast<double>(misses_in_a_row_);
  const double over =
      open.guess.bytes * correction.memory * margin / static_cast<double>(room.value) - 1;
  const double again = repeats_more(node) ? 1.3 : 1;
  const bool was_refused = refused_like_.contains(likeness(node.strategy));
  return seconds * again * (over > 0 ? 1.2 + 30 * over : 1) * (was_refused ? 100 : 1);
}

// A plan with less recomputation and else the same fits.
bool SearchOrder::repeats_more(const SpaceNode& node) const {
  if (node.level < Level::kPieces) return false;
  return std::any_of(plans_.begin(), plans_.end(), [&](const Strategy& plan) {
    if (plan.micro_batch != node.strategy.micro_batch || plan.tp != node.strategy.tp ||
        plan.pp != node.strategy.pp)
      return false;  // most are out before anything is copied
    Strategy same = plan;
    same.recompute = node.strategy.recompute;
    return same == node.strategy && amount_of(plan.recompute) < amount_of(node.strategy.recompute);
  });
}

}  // namespace sextant
