// How tokens fall on the experts of a mixture: given, or assumed, as shares of all choices; and
// what of it finds room in a plan with so many places per expert.
#pragma once

#include "core/costs/cluster.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct ExpertRouting {
  std::string text = "uniform";                  // as it was given
  Provenance provenance = Provenance::kAssumed;  // measured: shares from a file
  double exponent = 0;                           // expert e gets 1 / (e + 1)^exponent
  std::vector<double> counts = {};               // from a file, in any unit; empty: the exponent
};

// "uniform", "zipf=1.1", or a file with one number per expert: its tokens, or their share, text
// after # left out. Throws Error(kUsage) for other text and for an exponent below 0 or above 10,
// Error(kBadInput) naming file and line of what is no number of 0 or more.
ExpertRouting parse_expert_routing(std::string_view text);

// One mixture of experts: each of `tokens` of a group (a sample) chooses `top_k` of `experts`, each
// of which has `places` for them.
struct ExpertSizes {
  std::int64_t experts = 0, top_k = 0, tokens = 0, places = 0;
  bool operator==(const ExpertSizes&) const = default;
};

struct ExpertLoad {
  ExpertSizes sizes;
  std::vector<double> share;   // of all choices, by expert
  std::vector<double> filled;  // share of the expert's places, expected
  double dropped = 0;          // share of all choices that find no place

  // Of the places of experts [first, last).
  double filled_between(std::int64_t first, std::int64_t last) const;
  // The least multiple of the even share that drops nothing.
  double capacity_factor_without_drops() const;
};

// Expected over the tokens of a group. Throws Error(kUsage) for as many counts as there are no
// experts, and for an expert with more than a share of 1 / top_k: no token chooses one twice.
ExpertLoad expert_load(const ExpertRouting& routing, const ExpertSizes& sizes);

}  // namespace sextant
