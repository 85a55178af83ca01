// One list of counts, whoever asked for it.
#include "compiler/strategy/layer_counts.h"

#include "compiler/strategy/schedule.h"
#include "compiler/strategy/strategy_place.h"
#include "core/base/check.h"
#include "core/text/split_text.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace sextant {
namespace {

constexpr std::string_view kBalanced = "balanced";
constexpr int kMostBlocks = 1 << 20;  // of one virtual stage; a million of them still fit 64 bits
constexpr std::size_t kMostShown = 24;

std::int64_t virtual_stages_of(const Strategy& strategy) {
  return strategy.pp * strategy.virtual_stages;
}

std::string shape_of(const Strategy& strategy) {
  return strategy.virtual_stages == 1
             ? fmt::format("pp={}", strategy.pp)
             : fmt::format("pp={} x virtual={}", strategy.pp, strategy.virtual_stages);
}

// What would do instead of more virtual stages than blocks.
std::string fitting(int blocks, const Strategy& strategy) {
  const auto chunks = static_cast<int>(strategy.virtual_stages);
  const int most = std::max(blocks / chunks, 1);
  if (chunks == 1) return fmt::format("pp that would do: 1 to {}", most);
  const auto stages = static_cast<int>(strategy.pp);
  if (blocks < chunks) return fmt::format("virtual that would do: 1 to {}", std::max(blocks, 1));
  return fmt::format("pp that would do with virtual={}: 1 to {}; virtual with pp={}: 1 to {}",
                     chunks, most, stages, std::max(blocks / stages, 1));
}

// An example of a list that is right, where one can be read.
std::string balanced_example(int blocks, const Strategy& strategy) {
  const auto all = static_cast<std::size_t>(virtual_stages_of(strategy));
  if (all > kMostShown) return "";
  return fmt::format("; balanced is layers={}",
                     layers_to_text(spread_evenly(blocks, static_cast<int>(all))));
}

[[noreturn]] void refuse_counts(int blocks, const Strategy& strategy, const std::string& problem) {
  fail(ErrorCode::kInfeasible, "layers={}: {}, and the model has {}{}",
       layers_to_text(strategy.layers), problem, blocks, balanced_example(blocks, strategy));
}

}  // namespace

std::vector<int> spread_evenly(int count, int parts) {
  std::vector<int> layers(static_cast<std::size_t>(parts), count / parts);
  for (int part = 0; part < count % parts; ++part) ++layers[static_cast<std::size_t>(part)];
  return layers;
}

std::vector<int> parse_layers(std::string_view text) {
  std::vector<int> layers;
  if (text == kBalanced) return layers;
  for (const std::string_view entry : split_text(text, ',')) {
    int count = kEvenShare;
    if (entry != "*") {
      const char* const last = entry.data() + entry.size();
      const auto [after, failure] = std::from_chars(entry.data(), last, count);
      require(failure == std::errc() && after == last && count >= 1 && count <= kMostBlocks,
              ErrorCode::kUsage, kInStrategy,
              "layers={}: '{}' is no number of blocks, wanted 1 to {}, or * for an even "
              "share of what the numbers leave",
              text, entry, kMostBlocks);
    }
    layers.push_back(count);
  }
  return layers;
}

std::string layers_to_text(const std::vector<int>& layers) {
  std::string text;
  for (const int count : layers)
    text += (text.empty() ? "" : ",") + (count == kEvenShare ? "*" : fmt::format("{}", count));
  return text.empty() ? std::string(kBalanced) : text;
}

std::vector<int> layers_of_outer_stages(const Strategy& strategy, int first, int last) {
  const auto stages = static_cast<int>(strategy.pp);
  const auto chunks = static_cast<int>(strategy.virtual_stages);
  require(stages > 1 || first == last, ErrorCode::kUsage, kInStrategy,
          "with pp=1 one stage is both first and last: first_layers={} and "
          "last_layers={} do not agree",
          first, last);
  require(first >= chunks && last >= chunks, ErrorCode::kUsage, kInStrategy,
          "{}_layers={} with virtual={}: every chunk of a stage wants a layer",
          first < chunks ? "first" : "last", std::min(first, last), chunks);
  require(virtual_stages_of(strategy) <= kMostBlocks, ErrorCode::kUsage, kInStrategy,
          "{} with first_layers={}: more stages than any model has layers", shape_of(strategy),
          first);
  std::vector<int> layers(static_cast<std::size_t>(virtual_stages_of(strategy)), kEvenShare);
  for (const auto& [stage, count] : {std::pair(0, first), std::pair(stages - 1, last)}) {
    const std::vector<int> of_chunk = spread_evenly(count, chunks);
    for (int chunk = 0; chunk < chunks; ++chunk)
      layers[static_cast<std::size_t>(virtual_stage(strategy.schedule, stages, stage, chunk))] =
          of_chunk[static_cast<std::size_t>(chunk)];
  }
  return layers;
}

void require_layer_list(const Strategy& strategy) {
  const auto given = static_cast<std::int64_t>(strategy.layers.size());
  require(given == 0 || given == virtual_stages_of(strategy), ErrorCode::kUsage, kInStrategy,
          "layers={} counts {} {}, and {} makes {}: wanted one number for each, in the "
          "order in which a micro-batch passes them",
          layers_to_text(strategy.layers), given,
          strategy.virtual_stages > 1 ? "virtual stages" : "stages", shape_of(strategy),
          virtual_stages_of(strategy));
}

std::vector<int> layers_of_virtual_stages(int blocks, const Strategy& strategy) {
  const std::int64_t all = virtual_stages_of(strategy);
  require(all == 1 || blocks >= all, ErrorCode::kInfeasible,
          "pp={}{}: more {}stages than the {} layers between the first and the last; {}",
          strategy.pp,
          strategy.virtual_stages > 1 ? fmt::format(" virtual={}", strategy.virtual_stages) : "",
          strategy.virtual_stages > 1 ? "virtual " : "", blocks, fitting(blocks, strategy));
  require_layer_list(strategy);
  if (strategy.layers.empty()) return spread_evenly(blocks, static_cast<int>(all));
  std::vector<int> layers = strategy.layers;
  const auto given = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  const auto shares = static_cast<int>(std::count(layers.begin(), layers.end(), kEvenShare));
  if (shares == 0 && given != blocks)
    refuse_counts(blocks, strategy,
                  fmt::format("{} blocks, {} too {}", given, std::abs(given - blocks),
                              given > blocks ? "many" : "few"));
  if (given + shares > blocks)
    refuse_counts(
        blocks, strategy,
        fmt::format("{} blocks and one or more for each of {} even shares", given, shares));
  if (shares == 0) return layers;
  auto share = spread_evenly(blocks - static_cast<int>(given), shares);
  auto next = share.begin();
  for (int& count : layers)
    if (count == kEvenShare) count = *next++;
  return layers;
}

}  // namespace sextant
