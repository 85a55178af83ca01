// One search per point.
#include "experiments/planned/best_plan.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/base/units.h"
#include "core/text/split_text.h"
#include "experiments/planned/planned_step.h"
#include "search/search/search.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <system_error>

namespace sextant {

namespace {

constexpr std::size_t kMostPoints = 10'000;

struct SweepLists {
  std::vector<std::string> models, clusters, batches;

  std::vector<std::string>* find(std::string_view key) {
    if (key == "model") return &models;
    if (key == "cluster") return &clusters;
    return key == "global_batch" ? &batches : nullptr;
  }
};

std::vector<std::string> values_of(std::string_view setting, std::string_view text) {
  std::vector<std::string> values;
  for (const std::string_view value : split_text(text, ';')) {
    require(!value.empty(), ErrorCode::kUsage, "--sweep: '{}' has an empty value", setting);
    values.emplace_back(value);
  }
  return values;
}

SweepLists lists_of(std::string_view text) {
  SweepLists lists;
  const std::array<std::string, 3> keys = {"model", "cluster", "global_batch"};
  for (const std::string_view setting : split_words(text)) {
    const std::size_t equals = setting.find('=');
    require(equals != std::string_view::npos, ErrorCode::kUsage,
            "--sweep: '{}' is not KEY=VALUE;VALUE", setting);
    const std::string key(setting.substr(0, equals));
    std::vector<std::string>* list = lists.find(key);
    require(list != nullptr, ErrorCode::kUsage, "--sweep has no '{}'{}; it has {}", key,
            did_you_mean(key, keys), comma_list(keys));
    require(list->empty(), ErrorCode::kUsage, "--sweep says {} twice", key);
    *list = values_of(setting, setting.substr(equals + 1));
  }
  return lists;
}

std::int64_t batch_of(const std::string& text) {
  std::int64_t batch = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), batch);
  constexpr std::int64_t kMostSamples = std::int64_t{1} << 53;  // what results keep exactly
  require(error == std::errc() && end == text.data() + text.size() && batch > 0 &&
              batch <= kMostSamples,
          ErrorCode::kUsage, "--sweep: global_batch {} is no number of samples from 1 to {}", text,
          kMostSamples);
  return batch;
}

}  // namespace

PointResult best_plan(const Job& job, const SearchLimits& limits) {
  const SearchResult found = search(search_problem(job), limits);
  require(!found.plans.empty(), ErrorCode::kInfeasible, "none of {} strategies is a plan{}",
          found.counted, found.complete() ? "" : fmt::format(", {} not looked at", found.open));
  const Candidate& best = found.plans.front();
  const double seconds = to_seconds(best.step_time);
  PointResult result = {
      .values = {{"strategy", to_string(best.strategy)},
                 {"step_s", seconds},
                 {"samples_per_s", static_cast<double>(job.global_batch) / seconds},
                 {"gap", found.gap()},
                 {"memory_bytes", static_cast<double>(best.most_needed.value)},
                 {"compiled_plans", static_cast<double>(found.compiled)}}};
  if (const auto share = mfu(job, seconds, job.cluster.num_devices()))
    result.values.emplace_back("mfu", *share);
  return result;
}

std::vector<SweepPoint> plan_sweep_points(std::string_view text, const JobArguments& names) {
  SweepLists lists = lists_of(text);
  if (lists.models.empty()) lists.models = {names.plan_or_model};
  if (lists.clusters.empty()) lists.clusters = {names.cluster};
  if (lists.batches.empty()) lists.batches = {fmt::format("{}", names.global_batch)};
  const std::size_t count = lists.models.size() * lists.clusters.size() * lists.batches.size();
  require(count <= kMostPoints, ErrorCode::kUsage, "--sweep has {} points, at most {} are run",
          count, kMostPoints);
  std::vector<SweepPoint> points;
  for (const std::string& model : lists.models)
    for (const std::string& cluster : lists.clusters)
      for (const std::string& batch : lists.batches) {
        JobArguments step = names;
        step.plan_or_model = model;
        step.cluster = cluster;
        step.global_batch = batch_of(batch);
        points.push_back({.name = fmt::format("{} {} {}", model, cluster, batch),
                          .parameters = to_fields(step)});
      }
  return points;
}

}  // namespace sextant
