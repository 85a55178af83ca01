// Areas of the fullest program; a table of all, those alike as one.
#include "cli/pages/memory_part.h"

#include "cli/pages/page_units.h"
#include "io/pages/html_table.h"
#include "io/pages/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr std::size_t kProgramsOnPage = 24, kOwnersOnPage = 12;
// In the order of MemoryClass.
constexpr std::array<int, kNumMemoryClasses> kClassColours = {0, 1, 2, 6, 7, 3};

double in_unit(Bytes bytes, const AxisUnit& unit) {
  return static_cast<double>(bytes.value) / unit.size;
}

Markup classes_picture(const ProgramMemory& program, const PlanView& plan) {
  const double span_s = std::max(to_seconds(program.end - program.begin), 1e-12);
  const AxisUnit time = time_unit(span_s), bytes = bytes_unit(program.arena);
  const std::size_t windows = program.classes_over_time.size();
  Plot plot;
  plot.description = fmt::format("bytes in use on {} over the step, by class", program.program);
  plot.x = {fmt::format("time in the step ({})", time.name)};
  plot.y = {fmt::format("in use ({})", bytes.name), false, true};
  plot.tight_x = true;
  for (std::size_t c = 0; c < kNumMemoryClasses; ++c) {
    PlotSeries series{
        std::string(to_string(static_cast<MemoryClass>(c))), {}, PlotMark::kArea, kClassColours[c]};
    Bytes most;
    for (std::size_t i = 0; i < windows; ++i) {
      const Bytes value = program.classes_over_time[i][c];
      most = std::max(most, value);
      // A window has one value from its begin to its end.
      for (const std::size_t edge : {i, i + 1})
        series.points.push_back(
            {static_cast<double>(edge) / static_cast<double>(windows) * span_s / time.size,
             in_unit(value, bytes),
             {}});
    }
    if (most.value > 0) plot.series.push_back(std::move(series));
  }
  plot.levels.push_back(
      {in_unit(program.arena, bytes), fmt::format("arena {}", to_text(program.arena))});
  const Bytes room = plan.tightest.capacity - total(plan.tightest.libraries);
  // Far above, it would press the rest into a line.
  if (room < program.arena * 3 && program.arena <= room)
    plot.levels.push_back(
        {in_unit(room, bytes), fmt::format("{} that libraries leave", to_text(room))});
  return plot_picture(plot);
}

struct AlikePrograms {
  const ProgramMemory* first = nullptr;
  std::size_t count = 0;
};

std::vector<AlikePrograms> alike_programs(const MemorySection& section) {
  std::vector<AlikePrograms> all;
  for (const ProgramMemory& program : section.programs) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const AlikePrograms& other) {
      return other.first->by_class == program.by_class && other.first->arena == program.arena;
    });
    if (same == all.end())
      all.push_back({&program, 1});
    else
      ++same->count;
  }
  std::stable_sort(all.begin(), all.end(), [](const AlikePrograms& a, const AlikePrograms& b) {
    return a.first->arena > b.first->arena;
  });
  return all;
}

Markup programs_table(const PlanView& plan) {
  std::vector<HtmlColumn> columns = {{"program", false}};
  for (std::size_t c = 0; c < kNumMemoryClasses; ++c)
    columns.push_back({std::string(to_string(static_cast<MemoryClass>(c))), true});
  columns.push_back({"in use at most", true});
  columns.push_back({"arena", true});
  HtmlTable table(columns);
  const std::vector<AlikePrograms> programs = alike_programs(plan.memory);
  const std::size_t shown = std::min(programs.size(), kProgramsOnPage);
  for (std::size_t i = 0; i < shown; ++i) {
    const ProgramMemory& program = *programs[i].first;
    std::vector<std::string> row = {program.program};
    if (programs[i].count > 1) row.front() += fmt::format(" and {} like it", programs[i].count - 1);
    for (const Bytes bytes : program.by_class) row.push_back(to_text(bytes));
    row.push_back(to_text(program.peak));
    row.push_back(to_text(program.arena));
    table.add_texts(row);
  }
  return table.markup() + left_out(programs.size(), shown, "program");
}

Markup owners_table(const ProgramMemory& program) {
  HtmlTable table(
      {{"tensor", false}, {"layer", true}, {"class", false}, {"contents", true}, {"bytes", true}});
  const std::size_t shown = std::min(program.owners.size(), kOwnersOnPage);
  for (std::size_t i = 0; i < shown; ++i) {
    const MemoryOwner& owner = program.owners[i];
    table.add({code_of(owner.name), Markup(fmt::format("{}", owner.layer)),
               Markup(to_string(owner.memory)), Markup(fmt::format("{}", owner.count)),
               Markup(to_text(owner.bytes))});
  }
  return table.markup() + left_out(program.owners.size(), shown, "tensor");
}

Markup libraries_figure(const DeviceMemory& device) {
  HtmlTable table({{"library", false}, {"bytes", true}, {"where the figure comes from", false}});
  for (const LibraryUse& use : device.libraries)
    table.add({Markup(use.name), Markup(to_text(use.bytes)),
               Markup(fmt::format("{}: {}", to_string(use.provenance),
                                  use.source.empty() ? "no source is stated" : use.source))});
  return figure_of(table.markup(),
                   {{OriginKind::kStated, "the cluster's figures, each with its own origin"}});
}

}  // namespace

PagePart memory_part(const PlanView& plan) {
  const ProgramMemory& worst = plan.memory.programs[plan.tightest.program.index()];
  Markup body =
      paragraph(fmt::format("Bytes in use on {}, which leaves least room, most of each of {} equal "
                            "windows of the step.",
                            worst.program, worst.over_time.size()));
  body += figure_of(classes_picture(worst, plan), {plan.simulated()});
  body += figure_of(programs_table(plan), {plan.simulated()});
  if (!plan.tightest.libraries.empty()) body += libraries_figure(plan.tightest);
  body += foldable(fmt::format("Largest tensors on {} at the peak", worst.program),
                   figure_of(owners_table(worst), {plan.simulated()}));
  return {"Memory over time", body};
}

}  // namespace sextant
