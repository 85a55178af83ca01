// Options that several verbs have, and the names that follow from an option's own.
#include "cli/verb.h"

#include <fmt/core.h>

#include <cctype>
#include <cstddef>
#include <iterator>
#include <type_traits>

namespace sextant {

std::string Option::key() const {
  const std::size_t dashes = names.find("--");
  return dashes == std::string::npos ? "" : names.substr(dashes + 2);
}

std::string Option::environment_name() const {
  std::string name = key();
  if (name.empty()) return name;
  for (char& c : name)
    c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return "SEXTANT_" + name;
}

std::vector<Option> common_options(CommonOptions& common) {
  return {
      {"--json", &common.json, "one JSON document on standard output"},
      {"-q,--quiet", &common.quiet, "no text for people"},
      {"--seed", &common.seed, "of weights, samples, jitter"},
      {"--threads", &common.threads, "most threads that compile and check (0: one per core)"},
      {"--out", &common.out, "folder for results"},
      {"--overwrite", &common.overwrite, "replace the results that are in it"},
      {"--dry-run", &common.dry_run, "read and check everything, say what would be done"},
      {"--config", &common.config, "JSON file with values for options, by name and by verb"},
      {"--set", &common.set, "KEY=VALUE as a configuration file has it; repeatable"},
      {"--print-config", &common.print_config, "each value and where it comes from; nothing else"},
  };
}

std::vector<Option> job_options(JobArguments& job, bool with_strategy) {
  std::vector<Option> options = {
      {with_strategy ? "plan" : "model", &job.plan_or_model,
       with_strategy ? "plan file, or MODEL with -c, --strategy, --global-batch"
                     : "file, built-in name or gpt:layers=..,hidden=..,...",
       true},
      {"-c,--cluster", &job.cluster, "file or dgx-h100:nodes=N, cpu:ranks=N, ..."},
      {"--global-batch", &job.global_batch, "samples per optimizer step"},
      {"--seq", &job.sequence, "tokens per sample (default: the model's)"},
      {"--dtype", &job.dtype, "f32, bf16, f16, f64 (default: the device's best)"},
      {"--optimizer", &job.optimizer,
       "\"adamw lr=3e-4 warmup=100 schedule=cosine steps=1000 clip=1\"; sgd, momentum, adamw, "
       "lamb"},
  };
  if (with_strategy)
    options.push_back({"--strategy", &job.strategy,
                       "\"dp=2 tp=4 pp=2 micro_batch=1 schedule=1f1b zero=1\"; all settings: "
                       "sextant strategy show"});
  for (Option& option : options) option.describes_job = with_strategy && !option.key().empty();
  return options;
}

Option detail(Option option) {
  option.is_detail = true;
  return option;
}

std::vector<Option> joined(std::vector<Option> first, std::vector<Option> more) {
  first.insert(first.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  return first;
}

namespace {

std::string text_of(bool value) { return value ? "true" : "false"; }
template <typename Number>
std::string text_of(Number value) {
  return fmt::format("{}", value);
}

}  // namespace

std::vector<std::string> values_of(const OptionTarget& target) {
  return std::visit(
      [](const auto* value) -> std::vector<std::string> {
        using Value = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
          return *value;
        } else if constexpr (std::is_same_v<Value, std::string>) {
          return value->empty() ? std::vector<std::string>{} : std::vector<std::string>{*value};
        } else if constexpr (std::is_same_v<Value, std::optional<std::int64_t>> ||
                             std::is_same_v<Value, std::optional<double>>) {
          return *value ? std::vector<std::string>{text_of(**value)} : std::vector<std::string>{};
        } else {
          return {text_of(*value)};
        }
      },
      target);
}

}  // namespace sextant
