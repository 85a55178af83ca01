// `sextant search`: the ranked table, why the rest lost, and the best plan as a file.
#include "cli/dry_run.h"
#include "cli/launched.h"
#include "cli/runs/over_processes.h"
#include "cli/runs/run_processes.h"
#include "cli/runs/search_helpers.h"
#include "cli/sections/front_section.h"
#include "cli/sections/sensitivity_section.h"
#include "cli/sections/timed_section.h"
#include "cli/throughput.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "cli/work_watch.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "core/text/part_text.h"
#include "core/text/quantity_text.h"
#include "search/search/memory_help.h"
#include "search/space/space.h"
#include "search/words/plan_words.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

std::string mfu_text(const Job& job, Duration step, std::int64_t devices) {
  const auto value = mfu(job, to_seconds(step), devices);
  return value ? percent(*value) : "n/a";
}

TextTable ranked_table(const Job& job, const SearchResult& result, std::size_t top) {
  const std::string rate = fmt::format("{}/s", to_string(unit_of(job.model)));
  TextTable table({"strategy", "step", rate, "MFU", "memory", "compute", "comm.", "bubble"});
  for (std::size_t i = 0; i < std::min(top, result.plans.size()); ++i) {
    const Candidate& plan = result.plans[i];
    const double step = to_seconds(plan.step_time);
    table.add({to_string(plan.strategy), to_text(plan.step_time),
               rate_text(throughput(job, step).units_per_s),
               mfu_text(job, plan.step_time, plan.strategy.ranks()), to_text(plan.needed_memory),
               percent((plan.parts.compute.mean_s + plan.parts.optimizer.mean_s) / step),
               percent(plan.parts.exposed_communication.mean_s / step),
               percent(plan.parts.bubble.mean_s / step)});
  }
  return table;
}

const char* fate_of(Rejection::Kind kind) {
  switch (kind) {
    case Rejection::Kind::kMemoryBound:
      return "cannot fit";
    case Rejection::Kind::kMemoryPlan:
      return "compiled, and too large";
    case Rejection::Kind::kRefused:
      return "refused";
  }
  return "?";
}

void say_rejections(const SearchResult& result, const Console& console) {
  for (const Rejection& rejection : result.rejections)
    console.say(fmt::format("  {} {}, for instance {}: {}", rejection.count,
                            fate_of(rejection.kind), to_string(rejection.example),
                            rejection.reason));
}

Json rejections_json(const SearchResult& result) {
  Json list = Json::array();
  for (const Rejection& rejection : result.rejections)
    list.push_back({{"kind", fate_of(rejection.kind)},
                    {"count", rejection.count},
                    {"example", to_string(rejection.example)},
                    {"reason", rejection.reason}});
  return list;
}

Json fates_json(const SearchResult& result) {
  return {{"counted", result.counted},
          {"simulated", result.simulated},
          {"cut_by_memory", result.cut_by_memory},
          {"cut_by_bound", result.cut_by_bound},
          {"refused", result.refused},
          {"open", result.open}};
}

Json document_of(const Job& job, const SearchResult& result, double total_s,
                 const std::string& file) {
  Json plans = Json::array();
  for (const Candidate& plan : result.plans) {
    Json entry = {{"strategy", to_string(plan.strategy)},
                  {"step_time_s", to_seconds(plan.step_time)}};
    add_to(entry, throughput(job, to_seconds(plan.step_time)));
    entry["peak_memory_bytes"] = plan.peak_memory.value;
    entry["library_memory_bytes"] = total(plan.libraries).value;
    entry["parts_s"] = parts_json(plan.parts);
    plans.push_back(std::move(entry));
  }
  return {
      {"plans", plans},
      {"certificate", {{"lower_bound_s", to_seconds(result.lower_bound)}, {"gap", result.gap()}}},
      {"candidates", fates_json(result)},
      {"rejections", rejections_json(result)},
      {"space", result.constraints},
      {"compiled", result.compiled},
      {"complete", result.complete()},
      {"timing_s", {{"total", total_s}}},
      {"plan_file", file}};
}

SearchCertificate certificate_of(const SearchResult& result) {
  return {.lower_bound_s = to_seconds(result.lower_bound),
          .gap = result.gap(),
          .counted = result.counted,
          .simulated = result.simulated,
          .cut_by_memory = result.cut_by_memory,
          .cut_by_bound = result.cut_by_bound,
          .refused = result.refused,
          .open = result.open};
}

std::optional<Bytes> memory_of(const SearchArguments& arguments) {
  if (arguments.memory.empty()) return std::nullopt;
  return parse_named("--memory", arguments.memory, parse_bytes);
}

SearchLimits limits_of(const SearchArguments& arguments, Console& console) {
  SearchLimits limits;
  limits.memory = memory_of(arguments);
  limits.fixed = arguments.fixed;
  limits.forbidden = arguments.forbidden;
  limits.pareto = arguments.pareto;
  if (arguments.time_limit.empty()) {
    limits.patience = kPatience;
    limits.enough_gap = kEnoughGap;
    limits.least_plans = 2;
  }
  const double start = wall_seconds();
  const double limit =
      arguments.time_limit.empty()
          ? -1
          : to_seconds(parse_named("--time-limit", arguments.time_limit, parse_duration));
  limits.stop = [start, limit] {
    return was_interrupted() || (limit >= 0 && wall_seconds() - start >= limit);
  };
  limits.progress = [&console](const std::string& line) { console.progress(line); };
  return limits;
}

// "64 x 2048 tokens", "64 images".
std::string batch_text(const Job& job) {
  const SampleUnit unit = unit_of(job.model);
  if (unit != SampleUnit::kTokens) return fmt::format("{} {}", job.global_batch, to_string(unit));
  return fmt::format("{} x {} tokens", job.global_batch, job.sequence);
}

// Returns the file; empty without --out.
std::string write_best(const Job& job, const SearchArguments& arguments,
                       const CommonOptions& common, const Candidate& best,
                       const std::optional<SearchCertificate>& certificate, Console& console) {
  if (common.out.empty()) {
    console.say("next: add --out DIR to keep the best plan as DIR/plan.json");
    return "";
  }
  Plan plan = make_plan(job, arguments.job, best.strategy);
  plan.predicted_step_time_s = to_seconds(best.step_time);
  plan.certificate = certificate;
  plan.memory = memory_of(arguments);
  const std::string file = common.out + "/plan.json";
  write_file_whole(file, to_json_text(plan));
  console.say(fmt::format("the best plan is in {}; next: sextant simulate {}", file, file));
  return file;
}

// What a search found, its nearest plans in timed mode, and the first of these with words per
// operator, where these make it faster.
struct Searched {
  SearchResult result;
  std::vector<TimedCandidate> timed;
  std::optional<Candidate> with_words;

  // The best plan without words of operators.
  const Candidate& plain() const {
    return timed.empty() ? result.plans.front() : timed.front().candidate;
  }
  const Candidate& best() const { return with_words ? *with_words : plain(); }
};

// The others of several processes compile ahead.
SearchResult search_with_helpers(const SearchProblem& problem, SearchLimits limits,
                                 RunProcesses& processes, Console& console) {
  if (!processes.are_several()) return search(problem, limits);
  HelpingProcesses helpers(processes.group());
  limits.evaluators = &helpers;
  SearchResult result = search(problem, limits);
  console.end_progress();
  console.note(fmt::format("{} begun{}, {} of them of use",
                           counted(helpers.counts().begun, "strategy was", "strategies were"),
                           " by other processes", helpers.counts().used));
  return result;
}

// A signal ends the search between two strategies, and where one takes long, with the best so far.
Searched stoppable_search(const Job& job, const SearchArguments& arguments,
                          const CommonOptions& common, RunProcesses& processes, Console& console) {
  SearchLimits limits = limits_of(arguments, console);
  std::mutex mutex;
  std::optional<Candidate> best;
  limits.improved = [&](const Candidate& candidate) {
    const std::lock_guard lock(mutex);
    best = candidate;
  };
  const WorkWatch watch({.show = {}, .ask_to_end = {}, .last_words = [&] {
                           const std::lock_guard lock(mutex);
                           console.end_progress();
                           if (best)
                             write_best(job, arguments, common, *best, std::nullopt, console);
                         }});
  const SearchProblem problem = search_problem(job);
  Searched searched{search_with_helpers(problem, limits, processes, console), {}, std::nullopt};
  if (searched.result.plans.empty() || limits.stop()) return searched;
  searched.timed = timed_front(job, searched.result.plans, limits.stop);
  if (!limits.stop())
    searched.with_words =
        with_own_words(problem, make_search_models(problem), searched.plain(), limits.stop);
  return searched;
}

void say_words(const Candidate& plain, const Candidate& with_words, Console& console) {
  console.note(fmt::format(
      "the plan has words per operator, {} pins behind {}: a step of {} instead of {}; bound and "
      "gap are of strategies without such pins",
      with_words.strategy.pins.size() - plain.strategy.pins.size(), to_string(plain.strategy),
      to_text(with_words.step_time), to_text(plain.step_time)));
}

Json words_json(const Candidate& plain, const Candidate& with_words) {
  return {{"strategy", to_string(with_words.strategy)},
          {"step_time_s", to_seconds(with_words.step_time)},
          {"pins", with_words.strategy.pins.size() - plain.strategy.pins.size()}};
}

void say_result(const Job& job, const SearchArguments& arguments, const SearchResult& result,
                double total_s, Console& console) {
  console.say(fmt::format("{}, {} parameters, on {} ({} x {}), {}, global batch {}",
                          name_of(job.model), count_parameters(job.model), job.cluster.name,
                          job.cluster.num_devices(), job.cluster.device.name, to_string(job.dtype),
                          batch_text(job)));
  for (const std::string& assumed : assumptions_of(job)) console.note(assumed);
  console.say(ranked_table(job, result, static_cast<std::size_t>(arguments.top)).text());
  console.say(
      fmt::format("{}: {} simulated, {} cut by memory, {} cut by the bound, {} refused, {} open; "
                  "{} compiled in {:.1f} s",
                  counted(result.counted, "strategy"), result.simulated, result.cut_by_memory,
                  result.cut_by_bound, result.refused, result.open, result.compiled, total_s));
  if (arguments.pareto) say_front(result, console);
  say_rejections(result, console);
  for (const std::string& sentence : result.constraints) console.say("  " + sentence);
  console.say(
      fmt::format("no strategy of these is faster than {} on this model of the cluster: "
                  "gap {}{}",
                  to_text(result.lower_bound), percent(result.gap()),
                  result.complete() ? "" : "; --time-limit searches on"));
}

// A signal ends it between two changes.
SensitivitySection sensitivity_of(const Job& job, const SearchArguments& arguments,
                                  const SearchResult& result) {
  SearchLimits limits;
  limits.memory = memory_of(arguments);
  limits.stop = [] { return was_interrupted(); };
  return sensitivity_section(search_problem(job), result, limits);
}

// The closest miss with what would help, and what was looked at at all.
[[noreturn]] void refuse_without_plan(const Job& job, const SearchResult& result) {
  std::string text = result.complete()
                         ? fmt::format("none of {} can be run", counted(result.counted, "strategy"))
                         : fmt::format("no plan yet: the search ended with {} of {} not looked at",
                                       result.open, counted(result.counted, "strategy"));
  if (result.lower_bound > Duration())
    text += fmt::format("; none of them is faster than {}", to_text(result.lower_bound));
  for (const Rejection& rejection : result.rejections)
    text += fmt::format("; {} {}, for instance {}: {}", rejection.count, fate_of(rejection.kind),
                        to_string(rejection.example), rejection.reason);
  if (result.least_memory)
    text +=
        fmt::format("; no strategy does with less than {} a device", to_text(*result.least_memory));
  std::vector<std::string> hints;
  if (result.closest) {
    const ClosestMiss& miss = *result.closest;
    text += fmt::format("; the closest miss is {}: {}", to_string(miss.strategy),
                        part_text(miss.needed, miss.capacity));
    hints.push_back(fmt::format("with {} a device there is a plan: {}", to_text(miss.needed),
                                to_string(miss.strategy)));
    // Some are compiled, so a search that had no more time leaves them out.
    const SearchProblem problem = search_problem(job);
    std::vector<MemoryRemedy> remedies;
    if (result.complete())
      remedies = memory_remedies(problem, miss.strategy, make_search_models(problem), miss.needed,
                                 miss.capacity);
    for (std::string& remedy : remedy_texts(remedies, miss.needed))
      hints.push_back(std::move(remedy));
  }
  if (!result.complete()) hints.push_back("a longer --time-limit looks at more");
  throw Error(ErrorCode::kInfeasible, text, hints);
}

void say_dry_search(const Job& job, const SearchArguments& arguments, const CommonOptions& common,
                    Console& console) {
  memory_of(arguments);
  limits_of(arguments, console);
  StrategyFilter(arguments.fixed, arguments.forbidden);
  say_dry_run("search",
              fmt::format("search {} on {} with a global batch of {}", name_of(job.model),
                          counted(job.cluster.num_devices(), "device"), job.global_batch),
              in_results(common, {"plan.json"}), console);
}

void say_searched(const Job& job, const SearchArguments& arguments, const CommonOptions& common,
                  const Searched& searched, double total_s, Console& console) {
  const SearchResult& result = searched.result;
  if (result.plans.empty()) refuse_without_plan(job, result);
  say_result(job, arguments, result, total_s, console);
  say(searched.timed, console);
  if (searched.with_words) say_words(searched.plain(), searched.best(), console);
  const std::string file =
      write_best(job, arguments, common, searched.best(), certificate_of(result), console);
  std::optional<SensitivitySection> sensitivity;
  if (arguments.sensitivity) {
    sensitivity = sensitivity_of(job, arguments, result);
    say(*sensitivity, result, console);
  }
  Json document = document_of(job, result, total_s, file);
  if (!searched.timed.empty()) document["timed"] = timed_json(searched.timed);
  if (arguments.pareto) document["pareto"] = front_json(result);
  if (sensitivity) document["sensitivity"] = sensitivity_json(*sensitivity, result);
  if (searched.with_words) document["own_words"] = words_json(searched.plain(), searched.best());
  console.document("search", document);
}

// All that a process compiles by.
std::string options_text(const SearchArguments& arguments, const Job& job, bool dry_run) {
  return fmt::format("{} on {}, batch {}, sequence {}, {}, {}, memory '{}'{}", name_of(job.model),
                     job.cluster.name, job.global_batch, job.sequence, to_string(job.dtype),
                     to_string(job.optimizer), arguments.memory, dry_run ? ", dry run" : "");
}

void search_in(RunProcesses& processes, const SearchArguments& arguments,
               const CommonOptions& common, Console& console) {
  std::optional<Job> job;
  processes.agree_after([&] {
    require(arguments.top > 0, ErrorCode::kUsage, "--top must be positive, not {}", arguments.top);
    require_results_folder(common, {"plan.json"});
    job.emplace(make_job(arguments.job));
  });
  if (processes.are_several())
    processes.require_common(
        {{"build", build_hash(), ErrorCode::kDevice},
         {"problem", options_text(arguments, *job, common.dry_run), ErrorCode::kUsage}});
  if (common.dry_run) return say_dry_search(*job, arguments, common, console);
  if (!processes.is_first()) {
    SearchLimits limits;
    limits.memory = memory_of(arguments);
    help_search(processes.group(), search_problem(*job), limits);
    return processes.agree_after([] {});  // how the first ends
  }
  const double start = wall_seconds();
  std::optional<Searched> searched;
  std::exception_ptr refused;
  try {
    searched.emplace(stoppable_search(*job, arguments, common, processes, console));
  } catch (const Error&) {
    refused = std::current_exception();  // by the search: no process has failed
  }
  const double total_s = wall_seconds() - start;
  console.end_progress();
  if (was_interrupted() && processes.has_failed()) processes.end_failed();  // by the launcher
  const auto end = [&] {
    if (refused) std::rethrow_exception(refused);
    say_searched(*job, arguments, common, *searched, total_s, console);
  };
  // After a signal the others may be gone.
  if (was_interrupted())
    end();
  else
    processes.agree_after(end);
}

void run_search(const SearchArguments& arguments, const CommonOptions& common, Console& console) {
  if (!arguments.words_problem.empty()) {
    if (!is_first_process()) return document_is_written();  // by the first
    return run_words_problem(arguments, common, console);
  }
  if (!arguments.sweep.empty()) return run_plan_sweep(arguments, common, console);
  require(arguments.points.empty() && arguments.point_limit.empty(), ErrorCode::kUsage,
          "--point and --point-limit are of --sweep, and this is one search: --time-limit ends it");
  alone_or_over_processes(
      common, console,
      [&arguments](RunProcesses& processes, const CommonOptions& own, Console& own_console) {
        search_in(processes, arguments, own, own_console);
      });
}

}  // namespace

Verb search_verb() {
  const auto arguments = std::make_shared<SearchArguments>();
  SearchArguments& a = *arguments;
  return {
      .path = "search",
      .text = "Find the best plans",
      .examples =
          "Examples:\n  sextant search llama2-7b -c dgx-h100:nodes=2 --global-batch 64 --out "
          "plans\n"
          "  sextant search gpt.json -c cpu:ranks=4 --global-batch 16 --fix tp=1",
      .options = joined(
          job_options(a.job, false),
          {
              {"--memory", &a.memory, "per device (default: the device's), 64GiB"},
              {"--fix", &a.fixed, "only strategies with this value, tp=4; they add up"},
              {"--forbid", &a.forbidden, "no strategies with this value, zero=3; repeatable"},
              {"--top", &a.top, "plans to show"},
              {"--pareto", &a.pareto,
               "plans that no other one beats in step time and memory; ends after 24 plans in a "
               "row "
               "that add none, or at --time-limit"},
              {"--sensitivity", &a.sensitivity,
               "which change of a link, of memory or of the batch makes another plan win; comes "
               "after --time-limit"},
              {"--time-limit", &a.time_limit,
               "search so long, 30s (default: to a gap of 1 %, or until 24 plans in a row are no "
               "better)"},
              {"--sweep", &a.sweep,
               "a search per model, cluster and batch: \"model=a;b cluster=x;y "
               "global_batch=64;256\"; one of them by --point, ended by --point-limit 30s"},
              detail({"--point", &a.points, "only this point of --sweep; repeatable"}),
              detail({"--point-limit", &a.point_limit, "a point of --sweep is ended by then"}),
              {"--words-problem", &a.words_problem,
               "no search: write which words operators take on the mesh of --fix, FILE.lp"},
          }),
      .action = [arguments](const CommonOptions& common,
                            Console& console) { run_search(*arguments, common, console); },
      .writes_results = true,
      .has_dry_run = true,
      .shares_processes = true,
      .keeps_freed_pages = true};
}

}  // namespace sextant
