// Fates as one bar, the certificate as a sentence, the front as points.
#include "cli/pages/search_part.h"

#include "cli/pages/page_units.h"
#include "cli/verbs.h"
#include "core/text/counted_text.h"
#include "io/pages/bars.h"
#include "io/pages/html_table.h"
#include "io/pages/palette.h"
#include "io/pages/plot.h"
#include "search/search/pareto.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr std::size_t kFrontOnPage = 30;
// Dots of plans that are not on the front, the fastest.
constexpr std::size_t kDotsOnPage = 400;

struct Fate {
  const char* name;
  const char* meaning;
  std::int64_t count;
  int colour;
};

Markup funnel(const SearchCertificate& certificate) {
  const Fate fates[] = {
      {"simulated", "compiled, fits, and timed", certificate.simulated, 2},
      {"cut by the bound", "a proven bound says that it cannot win: never compiled",
       certificate.cut_by_bound, 0},
      {"cut by memory", "does not fit, by a bound or by its plan", certificate.cut_by_memory, 3},
      {"refused", "the model cannot be split like this", certificate.refused, 7},
      {"open", "the search ended before it was looked at", certificate.open, 6}};
  std::vector<BarPiece> pieces;
  std::vector<LegendEntry> names;
  HtmlTable table(
      {{"fate", false}, {"strategies", true}, {"share", true}, {"what that means", false}});
  const auto all = static_cast<double>(std::max<std::int64_t>(certificate.counted, 1));
  for (const Fate& fate : fates) {
    const double share = static_cast<double>(fate.count) / all;
    pieces.push_back({fate.name, share, fate.colour});
    names.push_back({fate.name, fate.colour});
    table.add_texts({fate.name, grouped(fate.count), percent(share), fate.meaning});
  }
  table.add_texts({"all strategies of the space", grouped(certificate.counted), "", ""});
  return share_bar(pieces, "fates of the strategies of the space") + legend(names) + table.markup();
}

PlotSeries dots_of(const std::string& name, int colour) {
  return {name, {}, PlotMark::kDots, colour};
}

PlotPoint point_of(const Candidate& plan, const AxisUnit& time, const AxisUnit& memory) {
  return {to_seconds(plan.step_time) / time.size,
          static_cast<double>(plan.most_needed.value) / memory.size,
          fmt::format("{}: {}, {}", to_string(plan.strategy), to_text(plan.step_time),
                      to_text(plan.most_needed))};
}

Plot front_plot(const PlanView& plan, const SearchResult& result,
                const std::vector<std::size_t>& front) {
  const Candidate& slowest = result.plans[front.back()];
  const AxisUnit time = time_unit(to_seconds(slowest.step_time));
  Bytes most = plan.tightest.needed();
  for (const Candidate& candidate : result.plans) most = std::max(most, candidate.most_needed);
  const AxisUnit memory = bytes_unit(most);
  PlotSeries others = dots_of("simulated plans", kGreyColour);
  for (std::size_t i = 0; i < std::min(result.plans.size(), kDotsOnPage); ++i)
    if (std::find(front.begin(), front.end(), i) == front.end())
      others.points.push_back(point_of(result.plans[i], time, memory));
  PlotSeries best = dots_of("no other one beats these in both", 0);
  best.mark = PlotMark::kLineAndDots;
  for (const std::size_t i : front) best.points.push_back(point_of(result.plans[i], time, memory));
  PlotSeries own = dots_of("this plan", 1);
  own.points.push_back({plan.step_s() / time.size,
                        static_cast<double>(plan.tightest.needed().value) / memory.size,
                        "this plan: " + to_string(plan.strategy())});
  Plot plot;
  plot.description = "step time against memory of the plans of a search";
  plot.x = {fmt::format("step ({})", time.name)};
  plot.y = {fmt::format("memory of a device ({})", memory.name), false, true};
  plot.series = {std::move(others), std::move(best), std::move(own)};
  // Far above, it would press the points into a line.
  if (plan.tightest.capacity < most * 2)
    plot.levels = {{static_cast<double>(plan.tightest.capacity.value) / memory.size,
                    "a device has " + to_text(plan.tightest.capacity)}};
  return plot;
}

Markup front_table(const SearchResult& result, const std::vector<std::size_t>& front) {
  HtmlTable table({{"strategy", false}, {"step", true}, {"memory of a device", true}});
  const std::size_t shown = std::min(front.size(), kFrontOnPage);
  for (std::size_t i = 0; i < shown; ++i) {
    const Candidate& plan = result.plans[front[i]];
    table.add({code_of(to_string(plan.strategy)), Markup(to_text(plan.step_time)),
               Markup(to_text(plan.most_needed))});
  }
  return table.markup() + left_out(front.size(), shown, "plan");
}

}  // namespace

PagePart search_part(const PlanView& plan) {
  const std::string title = "Search and certificate";
  const auto& certificate = plan.planned.plan.certificate;
  if (!certificate)
    return {title, paragraph("This plan was made by hand, or by a search that a signal ended: its "
                             "file has no certificate. `sextant search --out` writes one.")};
  const double step_s = plan.planned.plan.predicted_step_time_s;
  Markup body = figure_of(
      tiles_of({{time_text(certificate->lower_bound_s), "no strategy of the space is faster"},
                {time_text(step_s), "the plan, as its search predicted it"},
                {percent(certificate->gap), "gap between both"}}),
      {{OriginKind::kSimulated, plan.counted().source + ": certificate of its search"}});
  if (certificate->open > 0)
    body += warning_of(fmt::format("{} not looked at: the bound counts them, so it holds for all.",
                                   counted(certificate->open, "strategy was", "strategies were")));
  body += figure_of(funnel(*certificate), {plan.counted()});
  return {title, body};
}

PagePart front_part(const PlanView& plan, const SearchResult& result) {
  const std::string title = "Time against memory";
  if (result.plans.empty())
    return {title, paragraph("The search for this page found no plan in its time.")};
  const std::vector<std::size_t> front = pareto_front(result.plans);
  const Origin origin = {
      OriginKind::kSimulated,
      fmt::format("search for this page: {} of {} simulated, {} open; cluster {}", result.simulated,
                  counted(result.counted, "strategy"), result.open,
                  plan.planned.plan.cluster_hash)};
  Markup body = figure_of(plot_picture(front_plot(plan, result, front)), {origin});
  body += figure_of(front_table(result, front), {origin});
  if (!result.complete())
    body +=
        note_of("Of the strategies that are open some may belong here; --time-limit searches on.");
  return {title, body};
}

}  // namespace sextant
