// The settings beside the strategy are a table of name, writer and reader.
#include "tests/conformance/law/law_plan.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "tests/conformance/training/training_runs.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <sstream>

namespace sextant {
namespace {

std::int64_t number_of(const std::string& text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, failure] = std::from_chars(text.data(), end, value);
  require(failure == std::errc() && after == end, ErrorCode::kUsage, "'{}' is no number", text);
  return value;
}

// Name of an enumerator by its value; read . write = identity.
struct Names {
  std::vector<std::string> names;

  template <typename Enum>
  std::string of(Enum value) const {
    return names.at(static_cast<std::size_t>(value));
  }
  template <typename Enum>
  void read(const std::string& text, Enum& value) const {
    const auto found = std::find(names.begin(), names.end(), text);
    require(found != names.end(), ErrorCode::kUsage, "'{}' is not one of {}", text,
            comma_list(names));
    value = static_cast<Enum>(found - names.begin());
  }
};

const Names kQueues{{"inline", "asynchronous", "stress"}};
const Names kKernels{{"reference", "fast"}};
const Names kLifetimes{{"issue_order", "modelled"}};
const Names kTransferOrders{{"early", "late"}};
const Names kSwitch{{"off", "on"}};

struct Setting {
  std::string name;
  std::function<std::string(const LawPlan&)> write;
  std::function<void(LawPlan&, const std::string&)> read;
};

Setting text_setting(const std::string& name, std::string LawPlan::*member) {
  return {name, [member](const LawPlan& plan) { return plan.*member; },
          [member](LawPlan& plan, const std::string& text) { plan.*member = text; }};
}

template <typename Number>
Setting number_setting(const std::string& name, Number LawPlan::*member) {
  return {name, [member](const LawPlan& plan) { return std::to_string(plan.*member); },
          [member](LawPlan& plan, const std::string& text) {
            plan.*member = static_cast<Number>(number_of(text));
          }};
}

template <typename Enum>
Setting named_setting(const std::string& name, const Names& names, Enum LawPlan::*member) {
  return {
      name, [&names, member](const LawPlan& plan) { return names.of(plan.*member); },
      [&names, member](LawPlan& plan, const std::string& text) { names.read(text, plan.*member); }};
}

template <typename Enum>
Setting option_setting(const std::string& name, const Names& names, Enum ExpandOptions::*member) {
  return {name, [&names, member](const LawPlan& plan) { return names.of(plan.options.*member); },
          [&names, member](LawPlan& plan, const std::string& text) {
            names.read(text, plan.options.*member);
          }};
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      text_setting("model", &LawPlan::model),
      text_setting("optimizer", &LawPlan::optimizer),
      {"dtype", [](const LawPlan& plan) { return std::string(to_string(plan.dtype)); },
       [](LawPlan& plan, const std::string& text) { plan.dtype = parse_dtype(text); }},
      number_setting("global_batch", &LawPlan::global_batch),
      number_setting("steps", &LawPlan::steps),
      named_setting("queues", kQueues, &LawPlan::queues),
      named_setting("kernels", kKernels, &LawPlan::kernels),
      number_setting("seed", &LawPlan::seed),
      text_setting("buckets", &LawPlan::buckets),
      option_setting("slot_lifetime", kLifetimes, &ExpandOptions::slot_lifetime),
      option_setting("transfer_order", kTransferOrders, &ExpandOptions::transfer_order),
      option_setting("launch_groups", kSwitch, &ExpandOptions::launch_groups),
      option_setting("plan_memory", kSwitch, &ExpandOptions::plan_memory),
      option_setting("join_runs", kSwitch, &ExpandOptions::join_runs),
      option_setting("fusion", kSwitch, &ExpandOptions::fusion),
      option_setting("in_place", kSwitch, &ExpandOptions::in_place),
      option_setting("symmetric", kSwitch, &ExpandOptions::symmetric),
  };
  return all;
}

}  // namespace

std::string to_line(const LawPlan& plan) {
  std::string line;
  for (const Setting& setting : settings()) line += setting.name + "=" + setting.write(plan) + " ";
  return line + "| " + to_string(plan.strategy);
}

LawPlan plan_from_line(std::string_view line) {
  const std::size_t bar = line.find('|');
  require(bar != std::string_view::npos, ErrorCode::kUsage, "no '|' before the strategy in '{}'",
          line);
  LawPlan plan;
  plan.strategy = parse_strategy(line.substr(bar + 1));
  std::istringstream words{std::string(line.substr(0, bar))};
  for (std::string word; words >> word;) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const auto known = std::find_if(
        settings().begin(), settings().end(),
        [&](const Setting& setting) { return setting.name == word.substr(0, equals); });
    require(known != settings().end() && equals < word.size(), ErrorCode::kUsage,
            "unknown setting '{}' of a plan", word);
    known->read(plan, word.substr(equals + 1));
  }
  return plan;
}

const std::vector<LawOptimizer>& law_optimizers() {
  // Rates and epsilons of visible_steps(): a step is seen, rounding is not magnified beyond 1e-10.
  static const std::vector<LawOptimizer> all = {
      {"sgd", "sgd lr=0.1 decay=0.01", true},
      {"momentum", "momentum lr=0.05 momentum=0.8 decay=0.01", false},
      {"nesterov", "momentum lr=0.05 nesterov=on clip=0.1 warmup=3", false},
      {"adamw", "adamw lr=0.02 eps=0.0001", false},
      {"clipped", "adamw lr=0.02 eps=0.0001 clip=0.05 warmup=2 schedule=cosine steps=7", false},
      {"scaled", "adamw lr=0.02 eps=0.0001 loss_scale=dynamic", false},
      {"lamb", "lamb lr=0.02 eps=0.0001", false},
      {"lamb_clipped", "lamb lr=0.02 eps=0.0001 clip=0.1 schedule=linear steps=8", false}};
  return all;
}

const LawOptimizer& law_optimizer(std::string_view name) {
  std::vector<std::string> names;
  for (const LawOptimizer& optimizer : law_optimizers()) {
    if (optimizer.name == name) return optimizer;
    names.push_back(optimizer.name);
  }
  fail(ErrorCode::kUsage, "no optimizer '{}' of the law, there are {}", name, comma_list(names));
}

const std::vector<std::string>& law_buckets() {
  static const std::vector<std::string> names = {"default", "off", "large"};
  return names;
}

ExpandOptions expand_options(const LawPlan& plan) {
  ExpandOptions options = plan.options;
  if (plan.buckets == "off") options.buckets = {.bytes = Bytes(0), .operations = 0};
  if (plan.buckets == "large") options.buckets = {.bytes = Bytes(1 << 20), .operations = 64};
  // Every second plan has memory to spare.
  if (plan.seed % 2 == 0) options.room = ArenaRoom{Bytes(std::int64_t{1} << 40), Bytes()};
  return options;
}

}  // namespace sextant
