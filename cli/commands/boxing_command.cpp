// `sextant boxing`: how one tensor gets from one layout to another, step by step, what each step
// moves between which devices, and the ways that lost.
#include "cli/verb.h"
#include "cli/verbs.h"
#include "cli/workflow.h"
#include "core/base/check.h"
#include "core/costs/communication_volume.h"
#include "core/costs/words_at.h"
#include "sbp/boxing.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <sstream>

namespace sextant {
namespace {

struct BoxingArguments {
  std::string from, to;  // "(S(0), B)@[dp=2, tp=2]"
  std::string shape;
  std::string dtype = "f32";
  std::string to_dtype, reduce_dtype;  // empty: nothing asked
  std::string cluster;
  std::string objective;  // "time" or "bytes"; empty: time with a cluster, else bytes
  std::int64_t top = 5;
  bool pairs = false;
};

using Json = nlohmann::ordered_json;

// What was asked, understood.
struct Question {
  WordsAt from, to;
  TensorType type;
  std::optional<DType> to_dtype, reduce_dtype;
  BoxingObjective objective = BoxingObjective::kBytes;
  std::string cluster;  // name; empty: none
  TimingModels models;  // with a cluster
};

struct StepReport {
  BoxingStep step;
  std::string text;
  std::vector<std::vector<Rank>> groups;
  std::vector<PairBytes> pairs;
  Bytes bytes;
  Duration time;  // of its slowest group or device; zero without a cluster
};

std::optional<DType> optional_dtype(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(parse_dtype(text));
}

BoxingObjective objective_of(const BoxingArguments& arguments) {
  const bool has_cluster = !arguments.cluster.empty();
  if (arguments.objective.empty())
    return has_cluster ? BoxingObjective::kTime : BoxingObjective::kBytes;
  if (arguments.objective == "bytes") return BoxingObjective::kBytes;
  require(arguments.objective == "time", ErrorCode::kUsage,
          "--objective '{}' is neither time nor bytes", arguments.objective);
  require(has_cluster, ErrorCode::kUsage,
          "--objective time needs a cluster: -c dgx-h100:nodes=2, or a cluster file");
  return BoxingObjective::kTime;
}

Question question_of(const BoxingArguments& arguments) {
  Question question;
  question.objective = objective_of(arguments);
  question.from = parse_words_at(arguments.from);
  question.to = parse_words_at(arguments.to);
  question.type = {parse_shape(arguments.shape), parse_dtype(arguments.dtype)};
  question.to_dtype = optional_dtype(arguments.to_dtype);
  question.reduce_dtype = optional_dtype(arguments.reduce_dtype);
  for (const WordsAt* side : {&question.from, &question.to})
    require_fits(*side, question.type.shape);
  if (arguments.cluster.empty()) return question;
  const Cluster cluster = load_cluster(arguments.cluster);
  for (const WordsAt* side : {&question.from, &question.to}) require_fits(*side, cluster);
  question.cluster = cluster.name;
  question.models = make_timing_models(cluster, compute_dtype(cluster));
  return question;
}

BoxingRequest request_of(const Question& question) {
  return {.type = question.type,
          .from_placement = &question.from.placement,
          .to_placement = &question.to.placement,
          .from = question.from.words,
          .to = question.to.words,
          .to_dtype = question.to_dtype,
          .reduce_dtype = question.reduce_dtype,
          .objective = question.objective,
          .network = question.models.network.get(),
          .cost = question.models.cost.get()};
}

const Placement& before(const BoxingStep& step, const Question& question) {
  return step.where == BoxingWhere::kTarget ? question.to.placement : question.from.placement;
}
const Placement& after(const BoxingStep& step, const Question& question) {
  return step.where == BoxingWhere::kSource ? question.from.placement : question.to.placement;
}

// The groups of a step run beside each other: the slowest counts.
Duration time_of(const StepReport& report, const Question& question) {
  Communication communication;
  communication.primitive = report.step.primitive;
  communication.reduce = report.step.reduce;
  communication.dtype = report.step.dtype;
  const WordsOnPlacement from{&report.step.from, &before(report.step, question)};
  const WordsOnPlacement to{&report.step.to, &after(report.step, question)};
  Duration slowest;
  for (const std::vector<Rank>& members : report.groups) {
    if (members.size() < 2) continue;
    const CollectiveCost cost =
        collective_cost(communication, question.type.shape, from, to, members);
    slowest = std::max(slowest, question.models.network->duration(cost));
  }
  return slowest;
}

StepReport report_of(const BoxingStep& step, const Question& question) {
  const Placement &from = question.from.placement, &to = question.to.placement;
  const TensorType moved{question.type.shape, step.dtype};
  StepReport report{step, to_string(step, before(step, question)), {}, {}, {}, {}};
  if (!is_communication(step.kind)) {
    if (question.models.cost != nullptr)
      report.time = device_time(step, moved, from, to, *question.models.cost);
    return report;
  }
  report.groups = groups_of(step, moved, from, to);
  report.pairs = reference_volume(step, moved, from, to);
  for (const PairBytes& pair : report.pairs) report.bytes += pair.bytes;
  if (question.models.network != nullptr) report.time = time_of(report, question);
  return report;
}

std::vector<StepReport> reports_of(const BoxingPlan& plan, const Question& question) {
  std::vector<StepReport> reports;
  for (const BoxingStep& step : plan.steps) reports.push_back(report_of(step, question));
  return reports;
}

bool reduces(const BoxingStep& step) {
  if (!is_communication(step.kind)) return false;
  const auto count = [](const NdSbp& words) {
    return std::count_if(words.begin(), words.end(), [](const Sbp& w) { return w.is_partial(); });
  };
  return count(step.from) > 0 &&
         (step.kind == BoxingKind::kTransfer || count(step.to) < count(step.from));
}

// "{0, 8, ... 56}" for long lists: the ends say enough to a reader, --json has all.
std::string members_text(const std::vector<Rank>& members) {
  const std::string all = device_list(members);
  if (all.size() <= 24) return all;
  return fmt::format("{{{}, {}, ... {}}}", members[0].value, members[1].value,
                     members.back().value);
}

std::string groups_text(const StepReport& report) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> texts;
  for (const std::vector<Rank>& members : report.groups)
    if (members.size() > 1) texts.push_back(members_text(members));
  std::string text;
  const std::size_t shown = texts.size() <= kShown ? texts.size() : kShown - 1;
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : " ") + texts[i];
  if (shown < texts.size()) text += fmt::format(" ... {} groups", texts.size());
  return text.empty() ? "-" : text;
}

// "1.50x"; nothing to compare with where the best costs nothing.
std::optional<double> ratio_of(const BoxingPlan& plan, const BoxingPlan& best,
                               BoxingObjective objective) {
  const bool by_time = objective == BoxingObjective::kTime;
  const std::int64_t cost = by_time ? plan.time.value : plan.total_bytes.value;
  const std::int64_t least = by_time ? best.time.value : best.total_bytes.value;
  if (least == 0) return cost == 0 ? std::optional(1.0) : std::nullopt;
  return static_cast<double>(cost) / static_cast<double>(least);
}

// "all_gather over dp -> (B, S(1))": where a step leads; where it begins is the step before.
std::string short_text(const BoxingStep& step, const Question& question) {
  const std::string text = to_string(step, before(step, question));
  return fmt::format(
      "{} -> {}", text.substr(0, text.find(':')),
      step.kind == BoxingKind::kCast ? std::string(to_string(step.to_dtype)) : to_string(step.to));
}

std::string short_text(const BoxingPlan& plan, const Question& question) {
  std::string text;
  for (const BoxingStep& step : plan.steps)
    text += (text.empty() ? "" : ", ") + short_text(step, question);
  return text.empty() ? "nothing" : text;
}

void say_head(const Question& question, const Console& console) {
  console.say(fmt::format(
      "{} -> {}, {} {}{}", to_string(question.from), to_string(question.to),
      to_string(question.type.shape), to_string(question.type.dtype),
      question.to_dtype ? fmt::format(" -> {}", to_string(*question.to_dtype)) : std::string()));
  if (question.models.network == nullptr)
    console.say("fewest bytes first: without a cluster (-c) there is no time to compare");
  else
    console.say(
        fmt::format("{} first, on {}",
                    question.objective == BoxingObjective::kTime ? "least time" : "fewest bytes",
                    question.cluster));
}

void say_steps(const BoxingPlan& plan, const std::vector<StepReport>& reports,
               const Question& question, const Console& console) {
  if (reports.empty())
    return console.say("nothing to do, 0 bytes: every device holds what is wanted");
  const bool timed = question.models.network != nullptr;
  std::vector<std::string> header = {"step", "groups", "in", "bytes"};
  if (timed) header.emplace_back("time");
  TextTable table(header);
  const auto add = [&](std::vector<std::string> row, Duration time) {
    if (timed) row.push_back(to_text(time));
    table.add(std::move(row));
  };
  for (const StepReport& report : reports)
    add({report.text, groups_text(report), std::string(to_string(report.step.dtype)),
         fmt::format("{}", report.bytes.value)},
        report.time);
  add({"total", "", "", fmt::format("{}", plan.total_bytes.value)}, plan.time);
  console.say(table.text());
  for (const StepReport& report : reports)
    if (reduces(report.step))
      console.say(fmt::format("reduces ({}) in {}", to_string(report.step.reduce),
                              to_string(report.step.dtype)));
}

void say_alternatives(const std::vector<BoxingPlan>& plans, const Question& question,
                      const Console& console) {
  if (plans.size() < 2) return;
  const bool timed = question.models.network != nullptr;
  TextTable table(timed ? std::vector<std::string>{"ratio", "bytes", "time"}
                        : std::vector<std::string>{"ratio", "bytes"});
  for (std::size_t i = 1; i < plans.size(); ++i) {
    const auto ratio = ratio_of(plans[i], plans.front(), question.objective);
    std::vector<std::string> row = {ratio ? fmt::format("{:.2f}x", *ratio) : "-",
                                    fmt::format("{}", plans[i].total_bytes.value)};
    if (timed) row.push_back(to_text(plans[i].time));
    table.add(std::move(row));
  }
  // Steps stand behind the numbers, to the left, so that their length does not matter.
  std::istringstream numbers(table.text());
  std::string line;
  std::getline(numbers, line);
  console.say(line + "  what lost");
  for (std::size_t i = 1; std::getline(numbers, line); ++i)
    console.say(line + "  " + short_text(plans[i], question));
}

void say_pairs(const std::vector<StepReport>& reports, const Console& console) {
  Traffic traffic;
  for (const StepReport& report : reports)
    for (const PairBytes& pair : report.pairs)
      traffic[{pair.source, pair.destination}] += pair.bytes;
  if (traffic.empty()) return console.say("no bytes go from device to device");
  TextTable table({"from", "to", "bytes"});
  for (const PairBytes& pair : pairs_of(traffic))
    table.add({fmt::format("{}", pair.source.value), fmt::format("{}", pair.destination.value),
               fmt::format("{}", pair.bytes.value)});
  console.say(table.text());
}

const char* kind_text(BoxingKind kind) {
  switch (kind) {
    case BoxingKind::kLocal:
      return "local";
    case BoxingKind::kCollective:
      return "collective";
    case BoxingKind::kTransfer:
      return "transfer";
    case BoxingKind::kCast:
      return "cast";
  }
  return "?";
}

Json time_json(Duration time, const Question& question) {
  return question.models.network != nullptr ? Json(to_seconds(time)) : Json();
}

Json step_json(const StepReport& report, const Question& question) {
  const BoxingStep& step = report.step;
  const bool communicates = !report.groups.empty();
  Json groups = Json::array(), pairs = Json::array();
  for (const std::vector<Rank>& members : report.groups) {
    Json group = Json::array();
    for (const Rank rank : members) group.push_back(rank.value);
    groups.push_back(std::move(group));
  }
  for (const PairBytes& pair : report.pairs)
    pairs.push_back({{"source", pair.source.value},
                     {"destination", pair.destination.value},
                     {"bytes", pair.bytes.value}});
  return {{"text", report.text},
          {"kind", kind_text(step.kind)},
          {"primitive", communicates ? Json(to_string(step.primitive)) : Json()},
          {"from", to_string(step.from, before(step, question))},
          {"to", to_string(step.to, after(step, question))},
          {"dtype", to_string(step.dtype)},
          {"to_dtype", to_string(step.to_dtype)},
          {"reduction", reduces(step) ? Json(to_string(step.reduce)) : Json()},
          {"groups", groups},
          {"bytes", report.bytes.value},
          {"time_s", time_json(report.time, question)},
          {"pairs", pairs}};
}

Json alternative_json(const BoxingPlan& plan, const BoxingPlan& best, const Question& question) {
  Json steps = Json::array();
  for (const BoxingStep& step : plan.steps)
    steps.push_back(to_string(step, before(step, question)));
  const auto ratio = ratio_of(plan, best, question.objective);
  return {{"steps", steps},
          {"total_bytes", plan.total_bytes.value},
          {"time_s", time_json(plan.time, question)},
          {"ratio", ratio ? Json(*ratio) : Json()}};
}

Json document_of(const std::vector<BoxingPlan>& plans, const std::vector<StepReport>& reports,
                 const Question& question) {
  Json steps = Json::array(), alternatives = Json::array(), reduces_in;
  for (const StepReport& report : reports) {
    steps.push_back(step_json(report, question));
    if (reduces(report.step)) reduces_in = to_string(report.step.dtype);
  }
  for (std::size_t i = 1; i < plans.size(); ++i)
    alternatives.push_back(alternative_json(plans[i], plans.front(), question));
  return {{"from", to_string(question.from)},
          {"to", to_string(question.to)},
          {"shape", question.type.shape.extents()},
          {"dtype", to_string(question.type.dtype)},
          {"to_dtype", to_string(question.to_dtype.value_or(question.type.dtype))},
          {"objective", question.objective == BoxingObjective::kTime ? "time" : "bytes"},
          {"cluster", question.models.network != nullptr ? Json(question.cluster) : Json()},
          {"total_bytes", plans.front().total_bytes.value},
          {"time_s", time_json(plans.front().time, question)},
          {"reduction_dtype", reduces_in},
          {"steps", steps},
          {"alternatives", alternatives}};
}

// Each refusal names both sides, whichever of them is wrong.
template <typename Work>
auto naming_both_sides(const BoxingArguments& arguments, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(
        error.code(),
        fmt::format("boxing from '{}' to '{}': {}", arguments.from, arguments.to, error.what()),
        error.hints());
  }
}

void run_boxing(const BoxingArguments& arguments, const CommonOptions& common, Console& console) {
  require(arguments.top >= 0, ErrorCode::kUsage, "--top must not be negative, but is {}",
          arguments.top);
  const Question question = naming_both_sides(arguments, [&] { return question_of(arguments); });
  const std::vector<BoxingPlan> plans = naming_both_sides(arguments, [&] {
    return plan_alternatives(request_of(question), static_cast<std::size_t>(arguments.top));
  });
  const std::vector<StepReport> reports =
      naming_both_sides(arguments, [&] { return reports_of(plans.front(), question); });
  say_head(question, console);
  say_steps(plans.front(), reports, question, console);
  say_alternatives(plans, question, console);
  if (arguments.pairs) say_pairs(reports, console);
  // Thousands of devices have millions of pairs: nobody builds that document to throw it away.
  if (common.json) console.document("boxing", document_of(plans, reports, question));
}

}  // namespace

Verb boxing_verb() {
  const auto arguments = std::make_shared<BoxingArguments>();
  BoxingArguments& a = *arguments;
  return {
      .path = "boxing",
      .text = "How a tensor gets from one layout to another, and the ways that lost",
      .examples =
          "Examples:\n"
          "  sextant boxing \"(S(0),B)@[dp=2,tp=2]\" \"(B,S(1))@[dp=2,tp=2]\" --shape 5x7 --dtype "
          "bf16\n"
          "  sextant boxing \"P@[x=8]\" \"B@[y=8]{8-15}\" --shape 4096x4096 -c dgx-h100:nodes=2 "
          "--json\n"
          "Words on a placement: (S(0), B)@[dp=2, tp=2], one word per mesh axis: S(dim), B,\n"
          "  P(sum|max|min). Devices are 0, 1, 2, ... unless listed behind: {4-7} or {0, 2, 1, 3}",
      .options =
          {
              {"from", &a.from, "words on a placement", true},
              {"to", &a.to, "words on a placement", true},
              {"--shape", &a.shape, "of the whole tensor, 5x7; () for a scalar", true},
              {"--dtype", &a.dtype, "of its elements (default: f32)"},
              {"--to-dtype", &a.to_dtype, "of its elements afterwards (default: the same)"},
              {"--reduce-dtype", &a.reduce_dtype,
               "in which reductions run (default: the wider of both)"},
              {"-c,--cluster", &a.cluster, "file or dgx-h100:nodes=N, cpu:ranks=N, ..."},
              {"--objective", &a.objective,
               "time or bytes (default: time with a cluster, else bytes)"},
              {"--top", &a.top, "ways that lost to show"},
              {"--pairs", &a.pairs, "bytes from device to device"},
          },
      .action = [arguments](const CommonOptions& common, Console& console) {
        run_boxing(*arguments, common, console);
      }};
}

}  // namespace sextant
