// `sextant report`: plans, runs and experiments as one HTML file.
#include "cli/dry_run.h"
#include "cli/pages/report_page.h"
#include "cli/pages/report_source.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "cli/work_watch.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "core/text/quantity_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

struct ReportArguments {
  std::vector<std::string> what;
  JobArguments job;  // of a MODEL
  std::string file;
  bool pareto = false;
  std::string time_limit = "10s";
};

bool describes_job(const JobArguments& job) {
  return !job.cluster.empty() || !job.strategy.empty() || !job.optimizer.empty() ||
         job.global_batch != 0 || job.sequence || !job.dtype.empty();
}

std::vector<ReportSource> read_sources(const ReportArguments& arguments) {
  require(arguments.what.size() == 1 || !describes_job(arguments.job), ErrorCode::kUsage,
          "-c, --strategy, --global-batch, --seq, --dtype and --optimizer say what one MODEL is "
          "planned for; {} are named",
          arguments.what.size());
  std::vector<ReportSource> sources;
  for (const std::string& what : arguments.what) {
    JobArguments job = arguments.job;
    job.plan_or_model = what;
    sources.push_back(read_report_source(job));
  }
  return sources;
}

// The strategies of a plan's job, between time and memory.
SearchResult front_of(const Job& job, const ReportArguments& arguments, Console& console) {
  SearchLimits limits;
  limits.pareto = true;
  const double start = wall_seconds();
  const double limit =
      to_seconds(parse_named("--time-limit", arguments.time_limit, parse_duration));
  limits.stop = [=] { return was_interrupted() || wall_seconds() - start >= limit; };
  limits.progress = [&console](const std::string& line) { console.progress(line); };
  SearchResult result = search(search_problem(job), limits);
  console.end_progress();
  return result;
}

ReportSubject subject_of(PlanSource source, const ReportArguments& arguments, Console& console) {
  std::optional<SearchResult> front;
  if (arguments.pareto) front = front_of(source.planned.job, arguments, console);
  return PlanSubject{plan_view(std::move(source.planned), source.name), std::move(front)};
}
ReportSubject subject_of(RunFiles files, const ReportArguments&, Console&) {
  return run_view(std::move(files));
}
ReportSubject subject_of(ExperimentView experiment, const ReportArguments&, Console&) {
  return experiment;
}

void require_page_arguments(const ReportArguments& arguments) {
  std::vector<NamedFile> files = {{"--output", arguments.file},
                                  {"--cluster", arguments.job.cluster}};
  for (const std::string& what : arguments.what) {
    std::vector<NamedFile> pair = files;
    pair.emplace_back("what is reported", what);
    require_different_files(pair);
    // Where a folder is reported, any of its files may be what the page is about.
    for (const char* file :
         {"plan.json", "run.json", "metrics.jsonl", "results.jsonl", "summary.json", "table.md"})
      require_different_files({files.front(), {"a file that is reported", what + "/" + file}});
  }
  require_writable("--output", arguments.file);
  parse_named("--time-limit", arguments.time_limit, parse_duration);
}

void run_report(const ReportArguments& arguments, const CommonOptions& common, Console& console) {
  require_page_arguments(arguments);
  std::vector<ReportSource> sources = read_sources(arguments);
  if (common.dry_run)
    return say_dry_run("report",
                       fmt::format("draw {} on one page", counted(sources.size(), "subject")),
                       {arguments.file}, console);
  const WorkWatch watch({});
  std::vector<ReportSubject> subjects;
  for (ReportSource& source : sources)
    subjects.push_back(std::visit(
        [&](auto& one) { return subject_of(std::move(one), arguments, console); }, source));
  if (arguments.pareto && !std::holds_alternative<PlanSubject>(subjects.front()))
    console.note("--pareto had no effect on what is no plan");
  const std::string page = report_page(subjects);
  write_file_whole(arguments.file, page);
  Json list = Json::array();
  for (const ReportSubject& subject : subjects)
    list.push_back({{"kind", kind_of_subject(subject)}, {"name", name_of_subject(subject)}});
  console.say(fmt::format("{} on {}, {}; open it with a browser",
                          counted(subjects.size(), "subject"), arguments.file,
                          to_text(Bytes(static_cast<std::int64_t>(page.size())))));
  console.document("report",
                   {{"file", arguments.file}, {"bytes", page.size()}, {"subjects", list}});
}

}  // namespace

Verb report_verb() {
  const auto arguments = std::make_shared<ReportArguments>();
  ReportArguments& a = *arguments;
  std::vector<Option> options = {
      {"what", &a.what,
       "plan file; folder of search, run or experiment --out; or MODEL with -c, --strategy, "
       "--global-batch. Several: one page",
       true},
      {"-o,--output", &a.file, "HTML file; it needs no other", true},
      {"--pareto", &a.pareto, "search for plans between time and memory, and draw them"},
      {"--time-limit", &a.time_limit, "of that search"},
  };
  for (Option& option : job_options(a.job, true))
    if (!option.key().empty()) options.push_back(std::move(option));
  return {.path = "report",
          .text = "Plans, runs and experiments on one page",
          .examples =
              "Examples:\n  sextant report plan.json -o report.html\n"
              "  sextant report plan.json run results/hybrid-gpt -o report.html --pareto",
          .options = std::move(options),
          .action = [arguments](const CommonOptions& common,
                                Console& console) { run_report(*arguments, common, console); },
          .has_dry_run = true};
}

}  // namespace sextant
