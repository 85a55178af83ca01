// Numbers that were tried on searches, not derived: they cost time where they are wrong, never a
// plan.
#include "search/search_order.h"

#include <fmt/core.h>

#include <algorithm>

namespace sextant {
namespace {

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

void SearchOrder::Correction::learn(double seconds_ratio, double bytes_ratio, bool is_first) {
  constexpr double kNew = 0.5;
  const double share = is_first ? 1 : kNew;
  time += share * (seconds_ratio - time);
  memory += share * (bytes_ratio - memory);
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
  return own == corrections_.end() ? correction_ : own->second;
}

void SearchOrder::learn(const Guess& guess, const Candidate& candidate) {
  if (guess.seconds <= 0 || guess.bytes <= 0) return;
  const double time = to_seconds(candidate.step_time) / guess.seconds;
  const double memory = static_cast<double>(candidate.peak_memory.value) / guess.bytes;
  const auto [own, is_new] = corrections_.try_emplace(mesh_key(candidate.strategy));
  own->second.learn(time, memory, is_new);
  constexpr double kMostMemory = 1.25;
  correction_.learn(time, std::min(memory, kMostMemory), corrections_.size() == 1 && is_new);
}

Guess SearchOrder::promise_of(const SpaceNode& node, const Guess& guess) const {
  const Correction& correction = correction_of(node.strategy);
  return {guess.seconds * correction.time, guess.bytes * correction.memory};
}

void SearchOrder::note_plan(const Strategy& strategy) {
  misses_in_a_row_ = 0;
  plans_.push_back(strategy);
}

double SearchOrder::key_of(const SpaceNode& node, const Guess& guess, Duration bound,
                           Bytes room) const {
  const Correction& correction = correction_of(node.strategy);
  const double seconds = std::max(guess.seconds * correction.time, to_seconds(bound));
  if (node.level < Level::kRecompute) return seconds;
  // What will not fit comes late; the more so the more plans in a row did not.
  const double margin = 1 + 0.05 * static_cast<double>(misses_in_a_row_);
  const double over =
      guess.bytes * correction.memory * margin / static_cast<double>(room.value) - 1;
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
