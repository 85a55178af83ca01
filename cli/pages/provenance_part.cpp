// Files, then figures: equal ones of several links or algorithms are one row.
#include "cli/pages/provenance_part.h"

#include "cli/runs/run_processes.h"
#include "core/text/counted_text.h"
#include "io/pages/html_table.h"
#include "simulator/clusters/figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace sextant {
namespace {

constexpr std::size_t kFiguresOnPage = 120;

OriginKind kind_of(Provenance provenance) {
  switch (provenance) {
    case Provenance::kAssumed:
      return OriginKind::kAssumed;
    case Provenance::kPublished:
      return OriginKind::kPublished;
    case Provenance::kCalibrated:
      return OriginKind::kCalibrated;
    case Provenance::kMeasured:
      return OriginKind::kMeasured;
  }
  return OriginKind::kAssumed;
}

Markup files_table(const PlanView& view) {
  const Plan& plan = view.planned.plan;
  HtmlTable table(
      {{"what", false}, {"named", false}, {"hash", false}, {"what rests on it", false}});
  const auto add = [&](const char* what, const std::string& name, const std::string& hash,
                       const char* use) {
    table.add({Markup(what), code_of(name), code_of(hash), Markup(use)});
  };
  add("plan", view.name, view.plan_hash, "everything of this plan");
  add("model", plan.model, plan.model_hash, "operators, shapes, FLOPs");
  add("cluster", plan.cluster, plan.cluster_hash, "all times, and what fits");
  add("program", "sextant", build_hash(), "compiled and simulated the plan for this page");
  return table.markup();
}

Markup figures_table(const PlanView& view) {
  Cluster cluster = view.planned.job.cluster;
  std::map<std::tuple<Provenance, std::string, double, std::string>, std::int64_t> figures;
  for_each_figure(cluster, [&](std::string_view key, Sourced& number) {
    ++figures[{number.provenance, std::string(key), number.value, number.source}];
  });
  HtmlTable table(
      {{"figure", false}, {"value", true}, {"times", true}, {"way", false}, {"source", false}});
  std::size_t shown = 0;
  for (const auto& [figure, count] : figures) {
    if (++shown > kFiguresOnPage) break;
    const auto& [provenance, key, value, source] = figure;
    table.add({code_of(key), Markup(fmt::format("{:.6g}", value)), Markup(fmt::format("{}", count)),
               origin_badge(kind_of(provenance)),
               Markup(source.empty() ? "none is stated" : source)});
  }
  return table.markup() + left_out(figures.size(), std::min(shown, kFiguresOnPage), "figure");
}

Markup measured_kernels_note(const DeviceKind& device) {
  if (!device.measured) return {};
  return note_of(fmt::format(
      "Kernels of {} in {} are believed before peaks and efficiencies: {} ({}).", device.name,
      to_string(device.measured->dtype), counted(device.measured->kernels.size(), "measured time"),
      device.measured->source));
}

}  // namespace

PagePart provenance_part(const PlanView& plan) {
  Markup body = figure_of(files_table(plan), {plan.counted()});
  const Cluster& cluster = plan.planned.job.cluster;
  body += paragraph(fmt::format("What is simulated rests on the figures of {}: {}.", cluster.name,
                                to_text(provenances_of(cluster))));
  body += measured_kernels_note(cluster.device);
  body += foldable(
      "All figures of the cluster, in B, B/s, FLOP/s, s or shares",
      figure_of(figures_table(plan),
                {{OriginKind::kStated, fmt::format("cluster {}, hash {}", plan.planned.plan.cluster,
                                                   plan.planned.plan.cluster_hash)}}));
  return {"Where the numbers come from", body};
}

}  // namespace sextant
