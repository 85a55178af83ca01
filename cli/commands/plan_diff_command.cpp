// `sextant plan diff`: what two plans say, which words they give, what they take.
#include "cli/dry_run.h"
#include "cli/pages/plan_difference.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWordsShown = 40;

struct DiffArguments {
  std::string first, second;
};

PlannedJob planned_file(const std::string& path) {
  JobArguments job;
  job.plan_or_model = path;
  require(is_plan_file(path), ErrorCode::kBadInput, "{}: not a plan file", path);
  return load_planned_job(job);
}

std::string value_of(const DifferentTerm& term, double value) {
  const char* const sign = value < 0 ? "-" : "";
  switch (term.unit) {
    case DifferentTerm::Unit::kSeconds:
      return sign + time_text(std::abs(value));
    case DifferentTerm::Unit::kBytes:
      return sign + to_text(Bytes(std::llround(std::abs(value))));
    case DifferentTerm::Unit::kCount:
      return fmt::format("{:.0f}", value);
  }
  return "?";
}

std::vector<std::string> cells_of(const DifferentTerm& term) {
  const double difference = term.difference();
  return {term.name, value_of(term, term.first), value_of(term, term.second),
          (difference > 0 ? "+" : "") + value_of(term, difference)};
}

// Terms that both have none of are left out; `sum` stands below.
void say_terms(const std::string& title, const std::vector<DifferentTerm>& terms,
               const DifferentTerm* sum, const Console& console) {
  TextTable table({title, "first", "second", "difference"});
  for (const DifferentTerm& term : terms)
    if (term.first != 0 || term.second != 0) table.add(cells_of(term));
  if (sum != nullptr) table.add(cells_of(*sum));
  console.say(table.text());
}

void say_stated(const PlanDifference& difference, const Console& console) {
  if (difference.is_same_plan())
    return console.say("both say the same: model, cluster, strategy, batch, optimizer");
  TextTable table({"stated", "first", "second"});
  for (const StatedDifference& one : difference.stated)
    table.add(
        {one.key, one.first.empty() ? "-" : one.first, one.second.empty() ? "-" : one.second});
  console.say(table.text());
}

void say_words(const PlanDifference& difference, const Console& console) {
  if (difference.words.empty()) return console.say("every operator has the same words in both");
  TextTable table({"words of the result", "first", "second"});
  for (std::size_t i = 0; i < std::min(difference.words.size(), kWordsShown); ++i) {
    const WordsDifference& one = difference.words[i];
    table.add({one.name, one.first.empty() ? "none" : one.first,
               one.second.empty() ? "none" : one.second});
  }
  console.say(table.text());
  if (difference.words.size() > kWordsShown)
    console.say(fmt::format("and {}; --json has all",
                            counted(difference.words.size() - kWordsShown, "more operator")));
}

DifferentTerm step_term(const PlanView& first, const PlanView& second) {
  return {"step", DifferentTerm::Unit::kSeconds, first.step_s(), second.step_s()};
}

DifferentTerm device_term(const PlanView& first, const PlanView& second) {
  return {"fullest device", DifferentTerm::Unit::kBytes,
          static_cast<double>(first.tightest.needed().value),
          static_cast<double>(second.tightest.needed().value)};
}

Json terms_json(const std::vector<DifferentTerm>& terms) {
  Json list = Json::array();
  for (const DifferentTerm& term : terms) {
    const char* unit = term.unit == DifferentTerm::Unit::kSeconds ? "s"
                       : term.unit == DifferentTerm::Unit::kBytes ? "bytes"
                                                                  : "times";
    list.push_back({{"name", term.name},
                    {"unit", unit},
                    {"first", term.first},
                    {"second", term.second},
                    {"difference", term.difference()}});
  }
  return list;
}

Json side_json(const PlanView& plan) {
  return {{"file", plan.name},
          {"plan_hash", plan.plan_hash},
          {"strategy", to_string(plan.strategy())},
          {"step_time_s", plan.step_s()},
          {"needed_memory_bytes", plan.tightest.needed().value},
          {"fits", plan.tightest.fits()}};
}

Json difference_json(const PlanView& first, const PlanView& second,
                     const PlanDifference& difference) {
  Json stated = Json::array(), words = Json::array();
  for (const StatedDifference& one : difference.stated)
    stated.push_back({{"key", one.key}, {"first", one.first}, {"second", one.second}});
  for (const WordsDifference& one : difference.words)
    words.push_back({{"name", one.name}, {"first", one.first}, {"second", one.second}});
  return {{"first", side_json(first)},
          {"second", side_json(second)},
          {"stated", stated},
          {"words", words},
          {"time", terms_json(difference.time)},
          {"memory", terms_json(difference.memory)},
          {"boxing", terms_json(difference.boxing)}};
}

void run_plan_diff(const DiffArguments& arguments, const CommonOptions& common, Console& console) {
  PlannedJob a = planned_file(arguments.first), b = planned_file(arguments.second);
  if (common.dry_run)
    return say_dry_run(
        "plan_diff",
        fmt::format("compile and simulate {} and {}", arguments.first, arguments.second), {},
        console);
  const PlanView first = plan_view(std::move(a), arguments.first);
  const PlanView second = plan_view(std::move(b), arguments.second);
  const PlanDifference difference = plan_difference(first, second);
  console.say(fmt::format("first:  {}: {}", first.name, to_string(first.strategy())));
  console.say(fmt::format("second: {}: {}", second.name, to_string(second.strategy())));
  say_stated(difference, console);
  say_words(difference, console);
  const DifferentTerm step = step_term(first, second), device = device_term(first, second);
  say_terms("simulated, mean over ranks", difference.time, &step, console);
  say_terms("memory", difference.memory, &device, console);
  say_terms("boxing per step", difference.boxing, nullptr, console);
  const double ratio = step.second / step.first;
  console.say(fmt::format("the second takes {:.1f} % {} time and {} {} memory",
                          100 * std::abs(ratio - 1), ratio < 1 ? "less" : "more",
                          value_of(device, std::abs(device.difference())),
                          device.difference() < 0 ? "less" : "more"));
  console.document("plan_diff", difference_json(first, second, difference));
}

}  // namespace

Verb plan_diff_verb() {
  const auto arguments = std::make_shared<DiffArguments>();
  DiffArguments& a = *arguments;
  return {.path = "plan diff",
          .text = "Two plans beside each other, term by term",
          .examples =
              "Examples:\n  sextant plan diff plan.json other/plan.json\n"
              "  sextant plan diff plan.json other/plan.json --json",
          .options =
              {
                  {"first", &a.first, "plan file", true},
                  {"second", &a.second, "plan file", true},
              },
          .action = [arguments](const CommonOptions& common,
                                Console& console) { run_plan_diff(*arguments, common, console); },
          .has_dry_run = true};
}

}  // namespace sextant
