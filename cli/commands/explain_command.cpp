// `sextant explain`: the communication a plan needs, each with its two sides and its cost; single
// operators and tensors; and what another choice would have cost.
#include "cli/dry_run.h"
#include "cli/layer_names.h"
#include "cli/sections/boxing_rows.h"
#include "cli/sections/plan_notes.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "cli/work_watch.h"
#include "compiler/words/staged_graphviz.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "search/search/why_not.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace sextant {
namespace {

struct ExplainArguments {
  JobArguments job;
  std::string name;      // operator or tensor; empty: the boxing of the whole plan
  std::string why_not;   // "tp=8"
  std::string dump;      // "staged": the whole graph as text
  std::string graphviz;  // file for the staged graph
};

using Json = nlohmann::ordered_json;

std::string readers_text(const BoxingRow& row) {
  if (row.readers.empty()) return "nobody";
  std::string text = row.readers.front();
  if (row.readers.size() > 1) text += fmt::format(" and {} more", row.readers.size() - 1);
  return text;
}

// No terminal breaks it elsewhere; all of a name stays.
void say_wrapped(const std::string& text, Console& console) {
  constexpr std::size_t kColumns = 100;
  console.say(wrapped(text, kColumns));
}

std::string stages_text(const BoxingRow& row) {
  return row.first_stage == row.last_stage ? fmt::format("{}", row.first_stage)
                                           : fmt::format("{}-{}", row.first_stage, row.last_stage);
}

Json row_json(const BoxingRow& row) {
  return {{"name", row.name},
          {"phase", row.phase},
          {"primitive", row.primitive},
          {"axes", row.axes},
          {"stages", {row.first_stage, row.last_stage}},
          {"words", row.words},
          {"producer", row.producer},
          {"readers", row.readers},
          {"members", row.cost.members},
          {"bytes", row.cost.tensor.value},
          {"moved_bytes", row.cost.moved.value},
          {"moved_bytes_per_step", row.moved_per_step().value},
          {"time_s", to_seconds(row.cost.each)},
          {"per_step", row.per_step},
          {"total_s", to_seconds(row.total())}};
}

// Sums over the rows by primitive; times of different stages and queues overlap.
void say_totals(const std::vector<BoxingRow>& rows, Console& console, Json& body) {
  const std::map<std::string, BoxingTotal> totals = boxing_totals(rows);
  TextTable table({"per step", "times", "bytes moved", "modelled time"});
  Json list = Json::object();
  for (const auto& [name, total] : totals) {
    list[name] = {{"times", total.acts},
                  {"moved_bytes", total.moved.value},
                  {"time_s", to_seconds(total.time)}};
    if (name != "all")
      table.add({name, fmt::format("{}", total.acts), to_text(total.moved), to_text(total.time)});
  }
  const BoxingTotal& all = totals.at("all");
  table.add({"all", fmt::format("{}", all.acts), to_text(all.moved), to_text(all.time)});
  body["boxing_totals"] = list;
  console.say(table.text());
}

bool concerns(const BoxingRow& row, const std::string& name) {
  const std::string pattern = without_layer_number(name);
  const auto has = [&](const std::string& text) { return text.find(pattern) != std::string::npos; };
  return has(row.name) || has(row.producer) ||
         std::any_of(row.readers.begin(), row.readers.end(), has);
}

// A line of numbers for each, and its two sides below: names are too long for columns.
void say_rows(const std::vector<BoxingRow>& rows, Console& console) {
  TextTable table(
      {"total", "times", "each", "tensor", "moved", "primitive", "over", "ranks", "stage"});
  for (const BoxingRow& row : rows)
    table.add({to_text(row.total()), fmt::format("{}", row.per_step), to_text(row.cost.each),
               to_text(row.cost.tensor), to_text(row.cost.moved), row.primitive, row.axes,
               fmt::format("{}", row.cost.members), stages_text(row)});
  const std::vector<std::string> lines = table.lines();
  say_wrapped(lines.front(), console);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    say_wrapped(lines[row + 1], console);
    say_wrapped(fmt::format("    {}, made by {}", rows[row].phase, rows[row].producer), console);
    say_wrapped("    wanted by " + readers_text(rows[row]), console);
  }
}

// Of the whole plan, or what concerns an operator or a tensor.
void explain_boxing(const PlannedJob& planned, const StagedGraph& graph, const std::string& name,
                    Console& console, Json& body) {
  std::vector<BoxingRow> rows = boxing_rows(graph, *planned.network, *planned.cost);
  std::erase_if(rows, [&](const BoxingRow& row) { return !name.empty() && !concerns(row, name); });
  Json list = Json::array();
  for (const BoxingRow& row : rows) list.push_back(row_json(row));
  body["boxing"] = list;
  if (rows.empty())
    return console.say(name.empty() ? "no boxing between devices: every word fits its consumer"
                                    : "no boxing is caused by it");
  console.say("what moves between devices, and why: the producer's words are not the reader's");
  std::vector<BoxingRow> told = rows;
  if (name.empty())
    std::erase_if(told, [](const BoxingRow& row) { return row.primitive == "local"; });
  say_rows(told, console);
  say_totals(rows, console, body);
}

void explain_name(const StagedGraph& graph, const std::string& name, Console& console, Json& body) {
  std::istringstream lines(to_text(graph));
  Json found = Json::array();
  for (std::string line; std::getline(lines, line);)
    if (line.find(name) != std::string::npos) found.push_back(line);
  require(!found.empty(), ErrorCode::kUsage, "no operator or tensor has '{}' in its name", name);
  for (const auto& line : found) say_wrapped(line.get<std::string>(), console);
  body["lines"] = found;
}

void explain_why_not(const PlannedJob& planned, const std::string& constraint, Console& console,
                     Json& body) {
  const SearchProblem problem = search_problem(planned.job);
  const Strategy& strategy = planned.plan.strategy;
  const Candidate chosen =
      evaluate_strategy(problem.training_graph(strategy), strategy, planned.plan.global_batch,
                        make_search_models(problem));
  SearchLimits limits;
  const WorkWatch watch({});
  limits.stop = [] { return was_interrupted(); };
  limits.patience = kPatience;
  limits.enough_gap = kEnoughGap;
  limits.progress = [&console](const std::string& line) { console.progress(line); };
  const WhyNot answer = why_not(problem, chosen, constraint, limits);
  console.end_progress();
  say_wrapped(to_text(answer), console);
  Json terms = Json::array();
  for (const WhyNotTerm& term : answer.terms)
    terms.push_back({{"name", term.name},
                     {"unit", term.unit == WhyNotTerm::Unit::kSeconds ? "s" : "bytes"},
                     {"chosen", term.chosen},
                     {"constrained", term.constrained}});
  body["why_not"] = {
      {"constraint", constraint},
      {"strategy", answer.constrained ? Json(to_string(answer.constrained->strategy)) : Json()},
      {"terms", terms}};
}

void run_explain(const ExplainArguments& arguments, const CommonOptions& common, Console& console) {
  require_different_files({{"the plan", arguments.job.plan_or_model},
                           {"--cluster", arguments.job.cluster},
                           {"--graphviz", arguments.graphviz}});
  if (!arguments.graphviz.empty()) require_writable("--graphviz", arguments.graphviz);
  const PlannedJob planned = load_planned_job(arguments.job);
  Json body = {{"strategy", to_string(planned.plan.strategy)}};
  if (arguments.dump == "staged") {
    const std::string dump = to_text(staged_graph(planned));
    console.say(dump);
    body["dump"] = dump;
    return console.document("explain", body);
  }
  require(arguments.dump.empty(), ErrorCode::kUsage, "--dump '{}' is not staged", arguments.dump);
  if (common.dry_run)
    return say_dry_run(
        "explain",
        fmt::format("explain {} on {}", to_string(planned.plan.strategy), planned.job.cluster.name),
        {arguments.graphviz}, console);
  say_wrapped(fmt::format("{} on {}: {}", name_of(planned.job.model), planned.job.cluster.name,
                          to_string(planned.plan.strategy)),
              console);
  const RankUse use = rank_use(planned.plan.strategy, planned.job.cluster);
  const std::vector<std::string> notes = plan_notes(planned, use);
  for (const std::string& note : notes) say_wrapped("note: " + note, console);
  body["notes"] = notes;
  body["assumptions"] = planned.plan.assumptions;
  const StagedGraph graph = staged_graph(planned);
  if (!arguments.name.empty()) explain_name(graph, arguments.name, console, body);
  explain_boxing(planned, graph, arguments.name, console, body);
  if (!arguments.graphviz.empty()) {
    write_file_whole(arguments.graphviz, to_graphviz(graph));
    body["graphviz"] = arguments.graphviz;
    console.say(fmt::format("{}: {}; `dot -Tsvg` draws it", arguments.graphviz,
                            counted(graph.ops.size(), "operator")));
  }
  if (!arguments.why_not.empty()) explain_why_not(planned, arguments.why_not, console, body);
  console.document("explain", body);
}

}  // namespace

Verb explain_verb() {
  const auto arguments = std::make_shared<ExplainArguments>();
  ExplainArguments& a = *arguments;
  return {.path = "explain",
          .text = "What a plan moves between devices, and why",
          .examples =
              "Examples:\n  sextant explain plan.json --why-not tp=8\n"
              "  sextant explain plan.json layer1.attention\n"
              "  sextant explain plan.json --graphviz plan.dot",
          .options =
              joined(job_options(a.job, true),
                     {
                         {"name", &a.name, "part of an operator's or tensor's name"},
                         {"--why-not", &a.why_not, "compare with the best plan that has tp=8, ..."},
                         {"--dump", &a.dump, "staged: every operator with its words"},
                         {"--graphviz", &a.graphviz,
                          "write the staged graph for `dot`: stages as clusters, boxing marked"},
                     }),
          .action = [arguments](const CommonOptions& common,
                                Console& console) { run_explain(*arguments, common, console); },
          .has_dry_run = true,
          .keeps_freed_pages = true};
}

}  // namespace sextant
