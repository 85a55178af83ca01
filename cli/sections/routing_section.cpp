// Shares of choices and places as sentences.
#include "cli/sections/routing_section.h"

#include "cli/sections/memory_section.h"
#include "cli/verbs.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// By expert or rank: where the least and the most is.
std::string range_text(const std::vector<double>& values, const char* name) {
  const auto least = std::min_element(values.begin(), values.end());
  const auto most = std::max_element(values.begin(), values.end());
  return fmt::format("{} ({} {}) to {} ({} {})", percent(*least), name, least - values.begin(),
                     percent(*most), name, most - values.begin());
}

// By which the places of a plan would have to be more.
double growth_without_drops(const ExpertLoad& load) {
  const double even = static_cast<double>(load.sizes.tokens * load.sizes.top_k) /
                      static_cast<double>(load.sizes.experts);
  return load.capacity_factor_without_drops() * even / static_cast<double>(load.sizes.places);
}

}  // namespace

PlacesMemory places_memory(const RoutedGraph& routed, const ExpandedGraph& expanded,
                           const Timeline& timeline) {
  const MemorySection section = memory_section(expanded, timeline);
  PlacesMemory memory;
  Bytes peak;
  for (std::size_t p = 0; p < section.programs.size(); ++p) {
    const ProgramMemory& program = section.programs[p];
    if (program.peak <= peak) continue;
    peak = program.peak;
    memory.planned = Bytes(0);
    for (const MemoryOwner& owner : program.owners)
      if (routed.tensors.contains(owner.name)) memory.planned += owner.bytes;
    double fullest = 0;
    for (const Rank rank : expanded.graph().ranks.keys())
      if (expanded.graph().ranks[rank].program == ProgramId(p))
        fullest = std::max(fullest, routed.filled[rank.index()]);
    memory.filled = Bytes(std::llround(static_cast<double>(memory.planned.value) * fullest));
  }
  return memory;
}

void say(const RoutedGraph& routed, const ExpertRouting& routing, const PlacesMemory& memory,
         const Console& console) {
  const ExpertLoad& load = routed.load;
  console.say(fmt::format(
      "routing {} ({}, the same in all layers and samples): each of {} tokens of a sample chooses "
      "{} of {} experts, which get {} of the choices",
      routing.text, to_string(routing.provenance), load.sizes.tokens, load.sizes.top_k,
      load.sizes.experts, range_text(load.share, "expert")));
  console.say(fmt::format(
      "places of experts: {} per sample, filled {} (mean over ranks {}); only these are computed "
      "and sent; {} of the choices are dropped",
      load.sizes.places, range_text(routed.filled, "rank"), percent(mean(routed.filled)),
      percent(load.dropped)));
  console.say(fmt::format(
      "memory of places at the peak of the worst device: {}, at most {} of it filled; to drop none "
      "takes capacity_factor={:.2f}, {:.2f} times this",
      to_text(memory.planned), to_text(memory.filled), load.capacity_factor_without_drops(),
      growth_without_drops(load)));
}

Json routing_json(const RoutedGraph& routed, const ExpertRouting& routing,
                  const PlacesMemory& memory) {
  const ExpertLoad& load = routed.load;
  const auto [least, most] = std::minmax_element(routed.filled.begin(), routed.filled.end());
  return {{"distribution", routing.text},
          {"provenance", to_string(routing.provenance)},
          {"experts", load.sizes.experts},
          {"top_k", load.sizes.top_k},
          {"tokens_per_sample", load.sizes.tokens},
          {"places_per_sample", load.sizes.places},
          {"shares", load.share},
          {"dropped", load.dropped},
          {"filled", {{"mean", mean(routed.filled)}, {"min", *least}, {"max", *most}}},
          {"capacity_factor_without_drops", load.capacity_factor_without_drops()},
          {"places_bytes", memory.planned.value},
          {"filled_places_bytes", memory.filled.value}};
}

void say_full_places(const ExpertSizes& sizes, const Console& console) {
  const double even =
      static_cast<double>(sizes.tokens * sizes.top_k) / static_cast<double>(sizes.experts);
  console.say(fmt::format(
      "routing: assumed to be uniform, and all {} places of an expert per sample are computed and "
      "sent, {} of them empty (--routing: the filled ones only)",
      sizes.places, percent(std::max(0.0, 1 - even / static_cast<double>(sizes.places)))));
}

}  // namespace sextant
