// Text form of an optimizer. One table of settings serves reading, writing and the list of keys.
#include "compiler/training/optimizer_options.h"

#include "core/base/check.h"
#include "core/base/nearest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace sextant {
namespace {

const Place kInOptimizer{"optimizer"};

constexpr std::array kOptimizers = {OptimizerKind::kSgd, OptimizerKind::kMomentum,
                                    OptimizerKind::kAdamW, OptimizerKind::kLamb};
constexpr std::array kRateSchedules = {RateSchedule::kConstant, RateSchedule::kLinear,
                                       RateSchedule::kCosine};
constexpr std::array kGradientTypes = {GradientType::kWide, GradientType::kCompute};
constexpr std::string_view kBlanks = " \t\n";

struct OptimizerSetting {
  std::string key, value;
};

[[noreturn]] void refuse(const OptimizerSetting& setting, std::string_view wanted) {
  fail(ErrorCode::kUsage, kInOptimizer, "{}={}, wanted {}", setting.key, setting.value, wanted);
}

double number_of(const OptimizerSetting& setting) {
  double value = 0;
  const char* const end = setting.value.data() + setting.value.size();
  const auto [after, failure] = std::from_chars(setting.value.data(), end, value);
  if (failure != std::errc() || after != end || !std::isfinite(value))
    refuse(setting, "a finite number");
  return value;
}

std::int64_t count_of(const OptimizerSetting& setting) {
  std::int64_t value = 0;
  const char* const end = setting.value.data() + setting.value.size();
  const auto [after, failure] = std::from_chars(setting.value.data(), end, value);
  if (failure != std::errc() || after != end || value < 0)
    refuse(setting, "a whole number, 0 or more");
  return value;
}

bool switch_of(const OptimizerSetting& setting) {
  if (setting.value != "on" && setting.value != "off") refuse(setting, "on or off");
  return setting.value == "on";
}

template <typename Enum, std::size_t kCount>
Enum choice_of(const OptimizerSetting& setting, const std::array<Enum, kCount>& choices) {
  std::vector<std::string> names;
  for (const Enum choice : choices) {
    if (setting.value == to_string(choice)) return choice;
    names.emplace_back(to_string(choice));
  }
  refuse(setting, comma_list(names) + did_you_mean(setting.value, names));
}

// auto, none, a number, dynamic or dynamic:NUMBER.
void set_loss_scale(LossScale& scale, const OptimizerSetting& setting) {
  using Kind = LossScale::Kind;
  constexpr std::string_view kDynamic = "dynamic";
  if (setting.value == "auto") {
    scale.kind = Kind::kAutomatic;
  } else if (setting.value == "none") {
    scale.kind = Kind::kNone;
  } else if (setting.value == kDynamic) {
    scale.kind = Kind::kDynamic;
  } else if (setting.value.starts_with("dynamic:")) {
    scale.kind = Kind::kDynamic;
    scale.initial = number_of({setting.key, setting.value.substr(kDynamic.size() + 1)});
  } else {
    if (setting.value.empty() || std::isalpha(static_cast<unsigned char>(setting.value[0])) != 0)
      refuse(setting, "auto, none, dynamic, dynamic:NUMBER or a number");
    scale.kind = Kind::kStatic;
    scale.initial = number_of(setting);
  }
}

std::string to_string(const LossScale& scale) {
  switch (scale.kind) {
    case LossScale::Kind::kAutomatic:
      return "auto";
    case LossScale::Kind::kNone:
      return "none";
    case LossScale::Kind::kStatic:
      return fmt::format("{}", scale.initial);
    case LossScale::Kind::kDynamic:
      return scale.initial == LossScale().initial ? "dynamic"
                                                  : fmt::format("dynamic:{}", scale.initial);
  }
  return "?";
}

bool is_adam(const OptimizerOptions& o) {
  return o.kind == OptimizerKind::kAdamW || o.kind == OptimizerKind::kLamb;
}
bool has_momentum(const OptimizerOptions& o) { return o.kind == OptimizerKind::kMomentum; }
bool has_end(const OptimizerOptions& o) { return o.schedule != RateSchedule::kConstant; }
bool may_be_dynamic(const OptimizerOptions& o) {
  return o.loss_scale.kind == LossScale::Kind::kDynamic ||
         o.loss_scale.kind == LossScale::Kind::kAutomatic;
}

// A key, what it means, and to which optimizers: `applies` sees all other settings.
struct OptimizerKey {
  std::string name;
  void (*set)(OptimizerOptions&, const OptimizerSetting&);
  std::string (*get)(const OptimizerOptions&);
  bool (*applies)(const OptimizerOptions&);
  std::string_view of;  // whom it would apply to
};

std::string text(double value) { return fmt::format("{}", value); }
std::string text(std::int64_t value) { return fmt::format("{}", value); }
bool always(const OptimizerOptions&) { return true; }

using Options = OptimizerOptions;

const std::vector<OptimizerKey>& keys() {
  static const std::vector<OptimizerKey> all = {
      {"lr", [](Options& o, const OptimizerSetting& s) { o.learning_rate = number_of(s); },
       [](const Options& o) { return text(o.learning_rate); }, always, ""},
      {"warmup", [](Options& o, const OptimizerSetting& s) { o.warm_up = count_of(s); },
       [](const Options& o) { return text(o.warm_up); }, always, ""},
      {"schedule",
       [](Options& o, const OptimizerSetting& s) { o.schedule = choice_of(s, kRateSchedules); },
       [](const Options& o) { return std::string(to_string(o.schedule)); }, always, ""},
      {"steps", [](Options& o, const OptimizerSetting& s) { o.total = count_of(s); },
       [](const Options& o) { return text(o.total); }, has_end, "schedule=linear and cosine"},
      {"min_lr", [](Options& o, const OptimizerSetting& s) { o.minimum_rate = number_of(s); },
       [](const Options& o) { return text(o.minimum_rate); }, has_end,
       "schedule=linear and cosine"},
      {"momentum", [](Options& o, const OptimizerSetting& s) { o.momentum = number_of(s); },
       [](const Options& o) { return text(o.momentum); }, has_momentum, "momentum"},
      {"nesterov", [](Options& o, const OptimizerSetting& s) { o.nesterov = switch_of(s); },
       [](const Options& o) { return std::string(o.nesterov ? "on" : "off"); }, has_momentum,
       "momentum"},
      {"beta1", [](Options& o, const OptimizerSetting& s) { o.beta1 = number_of(s); },
       [](const Options& o) { return text(o.beta1); }, is_adam, "adamw and lamb"},
      {"beta2", [](Options& o, const OptimizerSetting& s) { o.beta2 = number_of(s); },
       [](const Options& o) { return text(o.beta2); }, is_adam, "adamw and lamb"},
      {"eps", [](Options& o, const OptimizerSetting& s) { o.epsilon = number_of(s); },
       [](const Options& o) { return text(o.epsilon); }, is_adam, "adamw and lamb"},
      {"decay", [](Options& o, const OptimizerSetting& s) { o.weight_decay = number_of(s); },
       [](const Options& o) { return text(o.weight_decay); }, always, ""},
      {"clip", [](Options& o, const OptimizerSetting& s) { o.max_gradient_norm = number_of(s); },
       [](const Options& o) { return text(o.max_gradient_norm); }, always, ""},
      {"loss_scale", [](Options& o, const OptimizerSetting& s) { set_loss_scale(o.loss_scale, s); },
       [](const Options& o) { return to_string(o.loss_scale); }, always, ""},
      {"scale_growth",
       [](Options& o, const OptimizerSetting& s) { o.loss_scale.growth = number_of(s); },
       [](const Options& o) { return text(o.loss_scale.growth); }, may_be_dynamic,
       "loss_scale=dynamic"},
      {"scale_backoff",
       [](Options& o, const OptimizerSetting& s) { o.loss_scale.backoff = number_of(s); },
       [](const Options& o) { return text(o.loss_scale.backoff); }, may_be_dynamic,
       "loss_scale=dynamic"},
      {"scale_interval",
       [](Options& o, const OptimizerSetting& s) { o.loss_scale.interval = count_of(s); },
       [](const Options& o) { return text(o.loss_scale.interval); }, may_be_dynamic,
       "loss_scale=dynamic"},
      {"gradients",
       [](Options& o, const OptimizerSetting& s) { o.gradients = choice_of(s, kGradientTypes); },
       [](const Options& o) { return std::string(to_string(o.gradients)); }, always, ""},
  };
  return all;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const OptimizerKey& key : keys()) names.push_back(key.name);
  return names;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t at = text.find_first_not_of(kBlanks);
  while (at != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

OptimizerSetting setting_of(std::string_view word) {
  const std::size_t equals = word.find('=');
  require(equals != std::string_view::npos && equals > 0 && equals + 1 < word.size(),
          ErrorCode::kUsage, kInOptimizer, "'{}' is not key=value", word);
  return {std::string(word.substr(0, equals)), std::string(word.substr(equals + 1))};
}

OptimizerKind kind_of(std::string_view word) {
  std::vector<std::string> names;
  for (const OptimizerKind kind : kOptimizers) {
    if (word == to_string(kind)) return kind;
    names.emplace_back(to_string(kind));
  }
  fail(ErrorCode::kUsage, kInOptimizer, "'{}' is unknown, wanted {} first{}", word,
       comma_list(names), did_you_mean(word, names));
}

const OptimizerKey& key_of(const OptimizerSetting& setting) {
  const auto found = std::find_if(keys().begin(), keys().end(),
                                  [&](const OptimizerKey& key) { return key.name == setting.key; });
  require(found != keys().end(), ErrorCode::kUsage, kInOptimizer,
          "unknown key '{}'{}; known keys: {}", setting.key, did_you_mean(setting.key, key_names()),
          comma_list(key_names()));
  return *found;
}

void check(bool valid, std::string_view name, double value, std::string_view wanted) {
  require(valid, ErrorCode::kUsage, kInOptimizer, "{}={}, wanted {}", name, value, wanted);
}

void validate_rate(const OptimizerOptions& o) {
  check(std::isfinite(o.learning_rate) && o.learning_rate > 0, "lr", o.learning_rate,
        "a number above 0");
  check(o.warm_up >= 0, "warmup", static_cast<double>(o.warm_up), "0 or more");
  if (o.schedule == RateSchedule::kConstant) return;
  require(o.total > o.warm_up, ErrorCode::kUsage, kInOptimizer,
          "steps={}, wanted more than warmup={}: schedule={} has to know where it ends", o.total,
          o.warm_up, to_string(o.schedule));
  check(o.minimum_rate >= 0 && o.minimum_rate <= o.learning_rate, "min_lr", o.minimum_rate,
        fmt::format("0 to lr={}", o.learning_rate));
}

void validate_loss_scale(const LossScale& scale) {
  check(scale.initial >= 1 && scale.initial <= std::numeric_limits<float>::max(), "loss_scale",
        scale.initial, "1 or more, and a number of f32");
  check(scale.growth > 1 && std::isfinite(scale.growth), "scale_growth", scale.growth, "above 1");
  check(scale.backoff > 0 && scale.backoff < 1, "scale_backoff", scale.backoff,
        "between 0 and 1, both excluded");
  check(scale.interval >= 1, "scale_interval", static_cast<double>(scale.interval), "1 or more");
}

}  // namespace

std::string_view to_string(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return "sgd";
    case OptimizerKind::kMomentum:
      return "momentum";
    case OptimizerKind::kAdamW:
      return "adamw";
    case OptimizerKind::kLamb:
      return "lamb";
  }
  return "?";
}

std::string_view to_string(RateSchedule schedule) {
  switch (schedule) {
    case RateSchedule::kConstant:
      return "constant";
    case RateSchedule::kLinear:
      return "linear";
    case RateSchedule::kCosine:
      return "cosine";
  }
  return "?";
}

std::string_view to_string(GradientType type) {
  return type == GradientType::kWide ? "wide" : "compute";
}

void validate(const OptimizerOptions& o) {
  constexpr std::string_view kFraction = "from 0 to below 1";
  validate_rate(o);
  check(o.momentum >= 0 && o.momentum < 1, "momentum", o.momentum, kFraction);
  // Adam divides by 1 - beta^update and by sqrt(v) + epsilon.
  check(o.beta1 >= 0 && o.beta1 < 1, "beta1", o.beta1, kFraction);
  check(o.beta2 >= 0 && o.beta2 < 1, "beta2", o.beta2, kFraction);
  check(o.epsilon > 0 && std::isfinite(o.epsilon), "eps", o.epsilon, "a number above 0");
  check(o.weight_decay >= 0 && std::isfinite(o.weight_decay), "decay", o.weight_decay, "0 or more");
  check(o.max_gradient_norm >= 0 && std::isfinite(o.max_gradient_norm), "clip", o.max_gradient_norm,
        "0 (no clipping) or more");
  validate_loss_scale(o.loss_scale);
}

OptimizerOptions parse_optimizer(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  require(!words.empty(), ErrorCode::kUsage, kInOptimizer,
          "nothing given, wanted for instance \"adamw lr=3e-4 clip=1\"");
  OptimizerOptions options;
  options.kind = kind_of(words[0]);
  std::set<std::string> seen;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const OptimizerSetting setting = setting_of(words[i]);
    key_of(setting).set(options, setting);
    require(seen.insert(setting.key).second, ErrorCode::kUsage, kInOptimizer, "{} is given twice",
            setting.key);
  }
  for (const OptimizerKey& key : keys())
    require(seen.count(key.name) == 0 || key.applies(options), ErrorCode::kUsage, kInOptimizer,
            "{} belongs to {}, but this is '{}'", key.name, key.of, text);
  validate(options);
  return options;
}

std::string to_string(const OptimizerOptions& options) {
  static const OptimizerOptions defaults;
  std::string text(to_string(options.kind));
  for (const OptimizerKey& key : keys()) {
    const std::string value = key.get(options);
    const bool is_said = key.name == "lr" || value != key.get(defaults);
    if (key.applies(options) && is_said) text += fmt::format(" {}={}", key.name, value);
  }
  return text;
}

}  // namespace sextant
