// Rows of `explain` and of `simulate --links`.
#include "cli/pages/traffic_part.h"

#include "cli/verbs.h"
#include "core/text/counted_text.h"
#include "io/pages/bars.h"
#include "io/pages/html_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sextant {
namespace {

constexpr std::size_t kBoxingsOnPage = 12, kLinksOnPage = 12;

Markup totals_table(const PlanView& plan) {
  HtmlTable table(
      {{"per step", false}, {"times", true}, {"bytes moved", true}, {"modelled time", true}});
  for (const auto& [name, total] : boxing_totals(plan.boxing))
    if (name != "all")
      table.add_texts(
          {name, fmt::format("{}", total.acts), to_text(total.moved), to_text(total.time)});
  return table.markup();
}

Markup boxings_table(const std::vector<BoxingRow>& rows, std::size_t shown) {
  HtmlTable table({{"what moves, and why", false},
                   {"over", false},
                   {"ranks", true},
                   {"each", true},
                   {"times", true},
                   {"moved a step", true},
                   {"total", true}});
  for (std::size_t i = 0; i < shown; ++i) {
    const BoxingRow& row = rows[i];
    const std::string reader = row.readers.empty() ? "nobody" : row.readers.front();
    const std::string more = row.readers.size() > 1
                                 ? fmt::format(" and {} more", row.readers.size() - 1)
                                 : std::string();
    table.add({text_element("div", "", row.primitive + " of " + row.name + ", " + row.phase) +
                   element("div", "note", code_of(row.words)) +
                   text_element("div", "note", "made by " + row.producer) +
                   text_element("div", "note", "wanted by " + reader + more),
               Markup(row.axes), Markup(fmt::format("{}", row.cost.members)),
               Markup(to_text(row.cost.each)), Markup(fmt::format("{}", row.per_step)),
               Markup(to_text(row.moved_per_step())), Markup(to_text(row.total()))});
  }
  return table.markup();
}

Markup link_table(const LinkUses& links, std::size_t shown) {
  HtmlTable table({{"link", false},
                   {"alike", true},
                   {"carries a step", true},
                   {"can carry", true},
                   {"busy", true},
                   {"utilisation", false}});
  const double step_s = to_seconds(links.step_time);
  for (std::size_t i = 0; i < shown; ++i) {
    const LinkUse& use = links.used[i];
    table.add({code_of(use.name), Markup(fmt::format("{}", use.links)), Markup(to_text(use.bytes)),
               Markup(bandwidth_to_text(use.capacity_b_s)),
               Markup(percent(step_s > 0 ? to_seconds(use.busy) / step_s : 0)),
               cell_bar(use.utilisation, percent(use.utilisation), 3)});
  }
  return table.markup();
}

}  // namespace

PagePart boxing_part(const PlanView& plan) {
  std::vector<BoxingRow> rows = plan.boxing;
  std::erase_if(rows, [](const BoxingRow& row) { return row.primitive == "local"; });
  if (rows.empty())
    return {"What moves between devices", paragraph("Nothing: every word fits its reader.")};
  const std::size_t shown = std::min(rows.size(), kBoxingsOnPage);
  Markup body = figure_of(totals_table(plan), {plan.simulated()});
  body += text_element("h4", "", "The dearest, with the operators that cause them");
  body += figure_of(boxings_table(rows, shown) + left_out(rows.size(), shown, "row"),
                    {plan.simulated()});
  return {"What moves between devices", body};
}

PagePart links_part(const PlanView& plan) {
  const LinkUses& links = plan.links;
  if (links.used.empty())
    return {"Links", paragraph(fmt::format("No communication of the step uses one ({} are idle).",
                                           links.idle))};
  const std::size_t shown = std::min(links.used.size(), kLinksOnPage);
  Markup body = paragraph(
      fmt::format("Links that carry as many bytes for as long are one row, the busiest first; {}.",
                  counted(links.idle, "link is idle", "links are idle")));
  if (links.is_crowded)
    body += warning_of(
        "Some links would carry more than they can while they are busy: only timed mode lets "
        "communications share them.");
  body += figure_of(link_table(links, shown) + left_out(links.used.size(), shown, "row"),
                    {plan.simulated()});
  return {"Links", body};
}

}  // namespace sextant
