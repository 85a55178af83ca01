// Blocks and their contents; of several subjects a table of all stands first.
#include "cli/pages/report_page.h"

#include "cli/pages/experiment_part.h"
#include "cli/pages/memory_part.h"
#include "cli/pages/plan_part.h"
#include "cli/pages/provenance_part.h"
#include "cli/pages/run_part.h"
#include "cli/pages/search_part.h"
#include "cli/pages/time_part.h"
#include "cli/pages/traffic_part.h"
#include "cli/pages/words_part.h"
#include "cli/throughput.h"
#include "cli/verbs.h"
#include "core/text/counted_text.h"
#include "io/pages/html_table.h"
#include "io/pages/page.h"

#include <fmt/core.h>

#include <cstddef>
#include <iterator>
#include <utility>

namespace sextant {
namespace {

// What a subject becomes: a heading, what stands first, and parts.
struct ReportBlock {
  std::string title;
  Markup head;
  std::vector<PagePart> parts;
};

std::vector<PagePart> parts_of_plan(const PlanView& plan) {
  return {plan_part(plan),     mesh_part(plan),   step_part(plan),
          timeline_part(plan), memory_part(plan), words_part(plan),
          boxing_part(plan),   links_part(plan),  search_part(plan)};
}

ReportBlock block_of(const PlanSubject& subject) {
  ReportBlock block{subject.plan.title(), plan_head(subject.plan), parts_of_plan(subject.plan)};
  if (subject.front) block.parts.push_back(front_part(subject.plan, *subject.front));
  block.parts.push_back(provenance_part(subject.plan));
  return block;
}

ReportBlock block_of(const RunView& run) {
  ReportBlock block{"Run of " + run.plan.title(), run_head(run), {}};
  block.parts = {training_part(run), comparison_part(run)};
  block.parts.push_back({"The plan that ran", plan_head(run.plan)});
  for (PagePart& part : parts_of_plan(run.plan)) block.parts.push_back(std::move(part));
  block.parts.push_back(provenance_part(run.plan));
  return block;
}

ReportBlock block_of(const ExperimentView& experiment) {
  return {"Experiment " + experiment.name, experiment_head(experiment),
          experiment_parts(experiment)};
}

// Plans and runs side by side; experiments have no step of their own.
struct OverviewRow {
  const PlanView* plan = nullptr;
  std::string measured;
};

Markup overview(const std::vector<ReportSubject>& subjects) {
  HtmlTable table({{"", false},
                   {"strategy", false},
                   {"step, simulated", true},
                   {"step, measured", true},
                   {"throughput, simulated", true},
                   {"memory of a device", true}});
  std::vector<Origin> origins;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    OverviewRow row;
    if (const auto* plan = std::get_if<PlanSubject>(&subjects[i])) row.plan = &plan->plan;
    if (const auto* run = std::get_if<RunView>(&subjects[i])) {
      row.plan = &run->plan;
      if (run->record.step_time_s > 0) row.measured = time_text(run->record.step_time_s);
      origins.push_back(run->measured());
    }
    if (row.plan == nullptr) continue;
    origins.push_back(row.plan->simulated());
    table.add(
        {element("a", {{"href", fmt::format("#s{}", i)}}, Markup(name_of_subject(subjects[i]))),
         code_of(to_string(row.plan->strategy())), Markup(to_text(row.plan->simulation.step_time)),
         Markup(row.measured),
         Markup(to_text(throughput(row.plan->planned.job, row.plan->step_s()))),
         Markup(to_text(row.plan->tightest.needed()))});
  }
  return table.is_empty() ? Markup() : figure_of(table.markup(), origins);
}

Markup block_markup(const ReportBlock& block, std::size_t number, bool is_alone) {
  Markup inner;
  if (!is_alone) inner += element("h2", {{"id", fmt::format("s{}", number)}}, Markup(block.title));
  inner += block.head;
  for (std::size_t i = 0; i < block.parts.size(); ++i)
    inner += element("section", "",
                     element(is_alone ? "h2" : "h3", {{"id", fmt::format("s{}-{}", number, i)}},
                             Markup(block.parts[i].title)) +
                         block.parts[i].body);
  return element("section", "", inner);
}

std::vector<PageLink> contents_of(const std::vector<ReportBlock>& blocks) {
  std::vector<PageLink> links;
  if (blocks.size() > 1) {
    for (std::size_t i = 0; i < blocks.size(); ++i)
      links.push_back({fmt::format("s{}", i), blocks[i].title});
    return links;
  }
  for (std::size_t i = 0; i < blocks.front().parts.size(); ++i)
    links.push_back({fmt::format("s0-{}", i), blocks.front().parts[i].title});
  return links;
}

std::string subtitle_of(const std::vector<ReportSubject>& subjects) {
  std::string text;
  for (const ReportSubject& subject : subjects)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kind_of_subject(subject),
                        name_of_subject(subject));
  return text;
}

}  // namespace

std::string kind_of_subject(const ReportSubject& subject) {
  constexpr const char* kKinds[] = {"plan", "run", "experiment"};
  static_assert(std::size(kKinds) == std::variant_size_v<ReportSubject>);
  return kKinds[subject.index()];
}

std::string name_of_subject(const ReportSubject& subject) {
  if (const auto* plan = std::get_if<PlanSubject>(&subject)) return plan->plan.name;
  if (const auto* run = std::get_if<RunView>(&subject)) return run->name;
  return std::get<ExperimentView>(subject).folder;
}

std::string report_page(const std::vector<ReportSubject>& subjects) {
  std::vector<ReportBlock> blocks;
  for (const ReportSubject& subject : subjects)
    blocks.push_back(std::visit([](const auto& one) { return block_of(one); }, subject));
  const bool is_alone = blocks.size() == 1;
  Markup body = is_alone ? Markup() : overview(subjects);
  for (std::size_t i = 0; i < blocks.size(); ++i) body += block_markup(blocks[i], i, is_alone);
  return page_document(
      {is_alone ? blocks.front().title : counted(blocks.size(), "subject") + " side by side",
       subtitle_of(subjects), contents_of(blocks),
       "Written by sextant report. Figures say below them where they come from: simulated on the "
       "cluster's figures, measured on the devices that are named, counted in plan and files, "
       "published by others, or assumed."},
      body);
}

}  // namespace sextant
