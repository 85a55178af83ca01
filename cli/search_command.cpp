// `sextant search`: the ranked table, why the rest lost, and the best plan as a file.
#include "cli/throughput.h"
#include "cli/verbs.h"
#include "cli/work_watch.h"
#include "core/check.h"
#include "core/quantity_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <map>
#include <mutex>
#include <optional>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

std::string mfu_text(const Job& job, Duration step, std::int64_t devices) {
  const auto value = mfu(job, to_seconds(step), devices);
  return value ? percent(*value) : "n/a";
}

Table ranked_table(const Job& job, const SearchResult& result, std::size_t top) {
  const std::string rate = fmt::format("{}/s", to_string(unit_of(job.model)));
  Table table({"strategy", "step", rate, "MFU", "memory", "compute", "comm.", "bubble"});
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

// What stands before the first colon of a reason: equal kinds are counted together.
std::string kind_of(const std::string& reason) { return reason.substr(0, reason.find(':')); }

void say_rejections(const SearchResult& result, const Console& console) {
  std::map<std::string, std::pair<int, const Rejection*>> kinds;
  for (const Rejection& rejection : result.rejected) {
    auto& entry = kinds[kind_of(rejection.reason)];
    ++entry.first;
    if (entry.second == nullptr) entry.second = &rejection;
  }
  for (const auto& [kind, entry] : kinds)
    console.say(fmt::format("  {} cut, for instance {}: {}", entry.first,
                            to_string(entry.second->strategy), entry.second->reason));
}

double gap_of(const SearchResult& result) {
  return to_seconds(result.plans.front().step_time) / to_seconds(result.lower_bound) - 1;
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
      {"certificate", {{"lower_bound_s", to_seconds(result.lower_bound)}, {"gap", gap_of(result)}}},
      {"candidates",
       {{"enumerated", result.enumerated},
        {"cut_by_memory", result.cut_by_memory},
        {"refused", result.refused},
        {"cut_by_bound", result.cut_by_bound},
        {"simulated", result.simulated}}},
      {"complete", result.complete},
      {"timing_s", {{"total", total_s}}},
      {"plan_file", file}};
}

// Of an option, which an error names.
template <typename Parse>
auto quantity_of(const char* option, const std::string& text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", option, error.what()), error.hints());
  }
}

SearchLimits limits_of(const SearchArguments& arguments, Console& console) {
  SearchLimits limits;
  if (!arguments.memory.empty())
    limits.memory = quantity_of("--memory", arguments.memory, parse_bytes);
  limits.fixed = arguments.fixed;
  const double start = wall_seconds();
  const double limit =
      arguments.time_limit.empty()
          ? -1
          : to_seconds(quantity_of("--time-limit", arguments.time_limit, parse_duration));
  limits.stop = [start, limit] {
    return was_interrupted() || (limit >= 0 && wall_seconds() - start >= limit);
  };
  limits.progress = [&console](const std::string& line) { console.progress(line); };
  return limits;
}

// Returns the file; empty without --out.
std::string write_best(const Job& job, const SearchArguments& arguments,
                       const CommonOptions& common, const Candidate& best, Console& console) {
  if (common.out.empty()) {
    console.say("next: add --out DIR to keep the best plan as DIR/plan.json");
    return "";
  }
  Plan plan = make_plan(job, arguments.job, best.strategy);
  plan.predicted_step_time_s = to_seconds(best.step_time);
  const std::string file = common.out + "/plan.json";
  write_file_whole(file, to_json_text(plan));
  console.say(fmt::format("the best plan is in {}; next: sextant simulate {}", file, file));
  return file;
}

// A signal ends the search between two strategies, and where one takes long, with the best so far.
SearchResult stoppable_search(const Job& job, const SearchArguments& arguments,
                              const CommonOptions& common, Console& console) {
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
                           if (best) write_best(job, arguments, common, *best, console);
                         }});
  return search(search_problem(job), limits);
}

std::string no_plan_text(const SearchResult& result) {
  if (!result.complete) return "the search was stopped before it had a plan";
  if (result.rejected.empty()) return "no strategy of the space meets the --fix conditions";
  return fmt::format("none of {} strategies can be run; the first: {}: {}", result.enumerated,
                     to_string(result.rejected.front().strategy), result.rejected.front().reason);
}

}  // namespace

void run_search(const SearchArguments& arguments, const CommonOptions& common, Console& console) {
  require(arguments.top > 0, ErrorCode::kUsage, "--top must be positive, not {}", arguments.top);
  require_results_folder(common, {"plan.json"});
  const Job job = make_job(arguments.job);
  const double start = wall_seconds();
  const SearchResult result = stoppable_search(job, arguments, common, console);
  const double total_s = wall_seconds() - start;
  console.end_progress();
  require(!result.plans.empty(), ErrorCode::kInfeasible, "{}", no_plan_text(result));

  console.say(fmt::format("{}, {} parameters, on {} ({} x {}), {}, global batch {} x {} tokens",
                          name_of(job.model), count_parameters(job.model), job.cluster.name,
                          job.cluster.num_devices(), job.cluster.device.name, to_string(job.dtype),
                          job.global_batch, job.sequence));
  console.say(ranked_table(job, result, static_cast<std::size_t>(arguments.top)).text());
  console.say(fmt::format(
      "{} strategies: {} ranked, {} cut by memory, {} refused, {} cut by the bound, in {:.1f} s{}",
      result.enumerated, result.plans.size(), result.cut_by_memory, result.refused,
      result.cut_by_bound, total_s, result.complete ? "" : " (stopped early)"));
  say_rejections(result, console);
  console.say(fmt::format("no strategy is faster than {} on this model of the cluster: gap {}",
                          to_text(result.lower_bound), percent(gap_of(result))));

  const std::string file = write_best(job, arguments, common, result.plans.front(), console);
  console.document("search", document_of(job, result, total_s, file));
}

}  // namespace sextant
