// Tables of differences and the chart of a sweep.
#include "cli/sections/what_if_section.h"

#include "cli/verbs.h"
#include "core/base/check.h"
#include "io/svg_chart.h"
#include "simulator/costs/library_memory.h"
#include "simulator/costs/models.h"
#include "simulator/reports/named_parts.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

WhatIfRow simulated(const Cluster& cluster, DType dtype, const CompiledPlan& plan,
                    const SimulationSetup& setup, std::string text) {
  const TimingModels models = models_for(setup, cluster, dtype);
  const Simulation simulation =
      simulate(plan.graph, *models.cost, *models.network, options_for(setup, cluster));
  return {std::move(text), to_seconds(simulation.step_time), simulation.parts,
          device_memory(plan.graph, plan.tight, cluster).fits()};
}

std::string signed_percent(double after, double before) {
  if (before == 0) return "n/a";
  return fmt::format("{:+.1f} %", 100 * (after / before - 1));
}

// Of the mean over ranks, as a share of the step now.
std::string part_difference(const WhatIfRow& row, const WhatIfRow& now,
                            StepParts::Spread StepParts::*part) {
  const double difference = (row.parts.*part).mean_s - (now.parts.*part).mean_s;
  if (std::abs(difference) < 0.5e-3 * now.step_s) return "";
  return fmt::format("{:+.1f} %", 100 * difference / now.step_s);
}

std::string name_of(const WhatIfRow& row) { return row.text + (row.fits ? "" : " (does not fit)"); }

Json row_json(const WhatIfRow& row) {
  return {{"change", row.text},
          {"step_time_s", row.step_s},
          {"parts_s", parts_json(row.parts)},
          {"fits", row.fits}};
}

Json rows_json(const std::vector<WhatIfRow>& rows) {
  Json list = Json::array();
  for (const WhatIfRow& row : rows) list.push_back(row_json(row));
  return list;
}

SimulationSetup without_extras(SimulationSetup setup) {
  setup.options.keep_slices = false;
  setup.options.keep_traffic = false;
  return setup;
}

}  // namespace

WhatIfSection what_if_section(const PlannedJob& planned, const CompiledPlan& plan,
                              const SimulationSetup& setup) {
  const SimulationSetup plain = without_extras(setup);
  const Cluster& cluster = planned.job.cluster;
  const DType dtype = planned.job.dtype;
  WhatIfSection section{simulated(cluster, dtype, plan, plain, "now"), {}};
  Cluster all = cluster;
  for (const WhatIf& change : setup.changes) {
    section.rows.push_back(
        simulated(changed(cluster, change), dtype, plan, plain, to_text(change)));
    all = changed(all, change);
  }
  if (setup.changes.size() > 1)
    section.rows.push_back(simulated(all, dtype, plan, plain, "all together"));
  return section;
}

void say(const WhatIfSection& section, const Console& console) {
  std::vector<std::string> header = {"what if (parts in % of the step now)", "step", "change"};
  for (const NamedPart& part : kNamedParts) header.emplace_back(part.name);
  TextTable table(header);
  const auto add = [&](const WhatIfRow& row) {
    std::vector<std::string> cells = {
        name_of(row), time_text(row.step_s),
        &row == &section.now ? "" : signed_percent(row.step_s, section.now.step_s)};
    for (const NamedPart& part : kNamedParts)
      cells.push_back(&row == &section.now
                          ? percent((row.parts.*part.part).mean_s / section.now.step_s)
                          : part_difference(row, section.now, part.part));
    table.add(std::move(cells));
  };
  add(section.now);
  for (const WhatIfRow& row : section.rows) add(row);
  console.say(table.text());
  for (const WhatIfRow& row : section.rows)
    if (row.step_s == section.now.step_s)
      console.say(fmt::format("note: {} changes nothing in the step of this plan", row.text));
}

Json what_if_json(const WhatIfSection& section) {
  return {{"now", row_json(section.now)}, {"changes", rows_json(section.rows)}};
}

SweepSection sweep_section(const PlannedJob& planned, const CompiledPlan& plan,
                           const SimulationSetup& setup, const std::string& sweep) {
  const SimulationSetup plain = without_extras(setup);
  SweepSection section{sweep, 0, setup.sweep, {}};
  section.now_s = simulated(planned.job.cluster, planned.job.dtype, plan, plain, "now").step_s;
  for (const WhatIf& change : section.changes)
    section.rows.push_back(simulated(changed(planned.job.cluster, change), planned.job.dtype, plan,
                                     plain, to_text(change)));
  return section;
}

void say(const SweepSection& section, const Console& console) {
  TextTable table({"sweep", "step", "change", "exposed communication", "bubble"});
  for (const WhatIfRow& row : section.rows)
    table.add({name_of(row), time_text(row.step_s), signed_percent(row.step_s, section.now_s),
               percent(row.parts.exposed_communication.mean_s / row.step_s),
               percent(row.parts.bubble.mean_s / row.step_s)});
  console.say(table.text());
}

Json sweep_json(const SweepSection& section) {
  return {{"sweep", section.text}, {"now_s", section.now_s}, {"values", rows_json(section.rows)}};
}

std::string sweep_chart(const SweepSection& section) {
  const bool by_factor = section.changes.front().quantity.empty();
  Chart chart;
  chart.title = section.text;
  chart.x = {by_factor ? "factor" : "value, by number in the list", by_factor};
  chart.y = {"ms", false};
  const auto x_of = [&](std::size_t i) {
    return by_factor ? section.changes[i].factor : static_cast<double>(i + 1);
  };
  ChartSeries step{"step", {}, ChartMark::kLineAndPoints};
  for (std::size_t i = 0; i < section.rows.size(); ++i)
    step.points.push_back({x_of(i), 1e3 * section.rows[i].step_s,
                           section.rows[i].text + ": " + time_text(section.rows[i].step_s)});
  chart.series.push_back(std::move(step));
  for (const NamedPart& part : kNamedParts) {
    ChartSeries series{std::string(part.name), {}, ChartMark::kLine};
    for (std::size_t i = 0; i < section.rows.size(); ++i)
      series.points.push_back({x_of(i), 1e3 * (section.rows[i].parts.*part.part).mean_s, {}});
    chart.series.push_back(std::move(series));
  }
  return to_svg(chart);
}

}  // namespace sextant
