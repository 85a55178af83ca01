// Parts as one bar, operators as a table.
#include "cli/pages/time_part.h"
#include "cli/verbs.h"
#include "io/pages/bars.h"
#include "io/pages/html_table.h"
#include "io/pages/palette.h"
#include "simulator/reports/named_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace sextant {
namespace {

constexpr std::size_t kOperatorsOnPage = 16;
// In the order of kNamedParts: compute, optimizer, communication, host, bubble.
constexpr std::array<int, std::size(kNamedParts)> kPartColours = {0, 2, 3, 6, kGreyColour};

Markup parts_figure(const PlanView& plan) {
  std::vector<BarPiece> pieces;
  std::vector<LegendEntry> names;
  HtmlTable table({{"part", false},
                   {"mean over ranks", true},
                   {"share", true},
                   {"least", true},
                   {"most", true}});
  for (std::size_t i = 0; i < std::size(kNamedParts); ++i) {
    const NamedPart& named = kNamedParts[i];
    const StepParts::Spread& part = plan.simulation.parts.*named.part;
    const double share = plan.step_s() > 0 ? part.mean_s / plan.step_s() : 0;
    pieces.push_back({std::string(named.name), share, kPartColours[i]});
    names.push_back({std::string(named.name), kPartColours[i]});
    table.add_texts({std::string(named.name), time_text(part.mean_s), percent(share),
                     time_text(part.min_s), time_text(part.max_s)});
  }
  return figure_of(
      share_bar(pieces, "parts of the step, mean over ranks") + legend(names) + table.markup(),
      {plan.simulated()});
}

Markup operators_figure(const PlanView& plan) {
  const auto ranks = static_cast<std::int64_t>(plan.graph().ranks.size());
  HtmlTable table({{"operator", false},
                   {"kind", false},
                   {"phase", false},
                   {"acts of a rank", true},
                   {"time of a rank", true},
                   {"share of the step", false}});
  const std::size_t shown = std::min(plan.operators.size(), kOperatorsOnPage);
  for (std::size_t i = 0; i < shown; ++i) {
    const OperatorUse& use = plan.operators[i];
    const double seconds = to_seconds(use.time) / static_cast<double>(ranks);
    const double share = plan.step_s() > 0 ? seconds / plan.step_s() : 0;
    const bool is_kernel = use.queue == QueueRole::kCompute;
    table.add(
        {code_of(use.name), Markup(use.kind), Markup(to_string(use.phase)),
         Markup(fmt::format("{:.4g}", static_cast<double>(use.acts) / static_cast<double>(ranks))),
         Markup(time_text(seconds)), cell_bar(share, percent(share), is_kernel ? 0 : 3)});
  }
  return figure_of(table.markup() + left_out(plan.operators.size(), shown, "operator"),
                   {plan.simulated()});
}

}  // namespace

PagePart step_part(const PlanView& plan) {
  Markup body = parts_figure(plan);
  body += text_element("h4", "", "Operators, the longest first, mean over ranks");
  return {"Where the step goes", body + operators_figure(plan)};
}

}  // namespace sextant
