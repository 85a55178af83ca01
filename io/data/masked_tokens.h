// Masked language modelling (Devlin et al., arXiv 1810.04805): which tokens of a sample a model is
// to predict from the others, and what it is shown instead of them.
#pragma once

#include "core/base/counter_rng.h"
#include "core/tensors/attributes.h"

#include <cstdint>
#include <optional>

namespace sextant {

// As a model has it: the id that hides a token, and the number of ids.
struct TokenMask {
  std::int32_t mask_id = 0;
  std::int64_t vocabulary = 1;
};
// What an input of a graph says (`mask_id`, `limit`); nothing: its model predicts the next token.
std::optional<TokenMask> token_mask(const Attributes& input);

// Every token of a sample is predicted by a chance of 15 %, and one of them in any case: 15 % +
// 0.85 / sequence on average. Of those, 80 % are hidden behind the mask, 10 % replaced by any id,
// 10 % shown as they are. A function of (seed, position, place).
class MaskedSample {
 public:
  MaskedSample(const TokenMask& mask, std::uint64_t seed, std::int64_t position,
               std::int64_t sequence);

  bool is_predicted(std::int64_t place) const;
  // What the model reads at a place that holds `id`.
  std::int32_t shown(std::int64_t place, std::int32_t id) const;

 private:
  std::uint64_t draw(std::int64_t place) const;

  TokenMask mask_;
  CounterRng random_;
  std::uint64_t first_;  // number of the first of the sample's draws
  std::int64_t sure_;    // a place that is predicted in any case
};

}  // namespace sextant
