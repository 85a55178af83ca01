// A point per question and whoever answers it: a search, two rules of thumb, the plan that somebody
// published.
#include "experiments/questions/questions.h"

#include "core/base/check.h"
#include "experiments/jobs/job.h"
#include "experiments/planned/best_plan.h"
#include "experiments/planned/planned_step.h"
#include "experiments/planned/rule_plan.h"
#include "experiments/sweeps/shapes.h"
#include "search/search/search.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant::questions {

namespace {

constexpr std::int64_t kPatience = 20;  // plans in a row that are no better

struct Question {
  const char* name;
  const char* model;
  const char* cluster;
  std::int64_t batch, sequence;
  const char* fixed = "";     // of every answer
  const char* plan = "";      // that somebody published
  double step_s = 0;          // measured by them; 0: not published
  const char* measured = "";  // who, and with what
};

// Llama 3 70B on 64 H100 is published in 8 bits alone, so it is asked twice. Of Mixtral on 64 H100
// the plan is in the README of Megatron-Core's experts, and no step.
constexpr std::array<Question, 4> kQuestions = {
    {{.name = "gpt3-175b on 1024 A100",
      .model = "gpt3-175b",
      .cluster = "dgx-a100:nodes=128",
      .batch = 768,
      .sequence = 2048,
      .plan = "dp=16 tp=8 pp=8 micro_batch=1 schedule=interleaved virtual=6 zero=1 sp=on "
              "recompute=selective",
      .step_s = 11.9,
      .measured = "Megatron-LM in arXiv 2402.15627, table 2"},
     {.name = "llama3-70b on 64 H100",
      .model = "llama3-70b",
      .cluster = "dgx-h100:nodes=8",
      .batch = 256,
      .sequence = 8192},
     {.name = "llama3-70b on 64 H100, 8 bits",
      .model = "llama3-70b",
      .cluster = "dgx-h100:nodes=8",
      .batch = 256,
      .sequence = 8192,
      .fixed = "precision=fp8",
      .plan = "dp=2 tp=4 pp=8 micro_batch=1 schedule=interleaved virtual=5 zero=1 sp=on",
      .step_s = 19.692,
      .measured = "Megatron-Bridge 26.04.01, performance summary"},
     {.name = "mixtral-8x7b on 64 H100",
      .model = "mixtral-8x7b",
      .cluster = "dgx-h100:nodes=8",
      .batch = 256,
      .sequence = 4096,
      .plan = "dp=16 tp=1 pp=4 ep=8 micro_batch=1 schedule=interleaved virtual=8 zero=1"}}};

constexpr std::array<const char*, 4> kAnswers = {"search", "rule, pp as memory asks",
                                                 "rule, pp the rest", "published plan"};

std::string name_of(const Question& question, const char* answer) {
  return fmt::format("{}: {}", question.name, answer);
}

bool is_asked(const Question& question, std::string_view answer) {
  const std::string_view fixed = question.fixed;
  if (answer == "published plan") return *question.plan != '\0';
  return answer == "search" || fixed.empty();  // the rules know no 8 bits
}

SweepPoint point_of(const Question& question, const char* answer) {
  const bool is_published = std::string_view(answer) == "published plan";
  std::string strategy = is_published ? question.plan : "";
  if (is_published && *question.fixed != '\0') strategy += fmt::format(" {}", question.fixed);
  SweepPoint point = {.name = name_of(question, answer),
                      .parameters = to_fields({.plan_or_model = question.model,
                                               .cluster = question.cluster,
                                               .strategy = strategy,
                                               .global_batch = question.batch,
                                               .sequence = question.sequence,
                                               .dtype = "bf16"})};
  point.parameters.emplace_back("answer", answer);
  if (*question.fixed != '\0') point.parameters.emplace_back("fix", question.fixed);
  if (is_published && question.step_s > 0)
    point.reference = {{"step_s", question.step_s}, {"measured_by", question.measured}};
  return point;
}

std::vector<SweepPoint> points(bool quick) {
  std::vector<SweepPoint> points;
  for (const Question& question : kQuestions)
    for (const char* answer : kAnswers)
      if (is_asked(question, answer) && (!quick || std::string_view(answer) == "published plan"))
        points.push_back(point_of(question, answer));
  return points;
}

PointResult searched(const SweepPoint& point, const Job& job) {
  SearchLimits limits;
  limits.patience = kPatience;
  const std::string fixed = word_of(point.parameters, "fix");
  if (!fixed.empty()) limits.fixed = {fixed};
  return best_plan(job, limits);
}

PointResult published(const PlannedStep& step, const Job& job) {
  PointResult result = simulate_step(job, parse_strategy(step.strategy));
  const double seconds = *number_of(result.values, "step_s");
  result.values.insert(result.values.begin(), {"strategy", step.strategy});
  if (const auto share = mfu(job, seconds, job.cluster.num_devices()))
    result.values.emplace_back("mfu", *share);
  return result;
}

PointResult evaluate(const SweepPoint& point) {
  const PlannedStep step = planned_step_from(point.parameters);
  const Job job = make_job(step);
  const std::string answer = word_of(point.parameters, "answer");
  if (answer == kAnswers[0]) return searched(point, job);
  if (answer == kAnswers[1]) return rule_plan(job, RuleDepth::kAsMemoryAsks);
  if (answer == kAnswers[2]) return rule_plan(job, RuleDepth::kTheRest);
  return published(step, job);
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  std::vector<ShapeClaim> shapes;
  for (const Question& question : kQuestions)
    for (std::size_t other = 1; other < kAnswers.size(); ++other)
      if (is_asked(question, kAnswers[other]))
        shapes.push_back(ratio_shape(
            rows,
            fmt::format("{}: the search is no slower than the {}", question.name, kAnswers[other]),
            {"step_s", "step"}, name_of(question, kAnswers[0]), name_of(question, kAnswers[other]),
            {.most = 1}));
  return shapes;
}

}  // namespace

Experiment experiment() {
  return {.name = "questions",
          .question =
              "Which plan, and how long is its step: GPT-3 175B on 1,024 A100, Llama 3 70B and "
              "Mixtral on 64 H100?",
          .expectation = "the search is no slower than rules of thumb and published plans",
          .baseline = "tp=8, the pipeline over the rest",
          .columns = {{"step_s", "step", "s", "step_s"},
                      {"mfu", "MFU", ""},
                      {"gap", "gap", ""},
                      {"memory_bytes", "memory", "B"},
                      {"strategy", "plan", ""}},
          .points = points,
          .evaluate = evaluate,
          .shapes = shapes};
}

}  // namespace sextant::questions
