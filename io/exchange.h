// What a training run starts from and reads, as files that other programs understand.
#pragma once

#include "io/data/masked_tokens.h"
#include "io/data/token_data.h"

#include <cstdint>
#include <optional>
#include <string>

namespace sextant {

class LogicalGraph;

// Parameters of a forward graph under their names, f32 or f64 as the graph has them: what a run
// with this seed starts from. Returns their number of elements.
std::int64_t write_initial_weights(const std::string& path, const LogicalGraph& forward,
                                   std::uint64_t seed);

// Samples of a run, in order: `tokens` and `labels`, i32 of [steps, global_batch, sequence].
// `mask`: as a model of masked tokens has it.
struct SampleRange {
  std::uint64_t seed = 0;
  std::int64_t steps = 0, global_batch = 0, sequence = 0;
  std::optional<TokenMask> mask = std::nullopt;
};
std::optional<TokenMask> token_mask_of(const LogicalGraph& forward);
void write_samples(const std::string& path, const TokenData& data, const SampleRange& range);

}  // namespace sextant
