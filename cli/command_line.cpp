// CLI11 reads what was typed; what comes from elsewhere is put behind the verb and read once more,
// so that every value passes the same checks.
#include "cli/command_line.h"

#include "cli/launched.h"
#include "cli/settings.h"
#include "core/base/check.h"
#include "core/base/nearest.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace sextant {
namespace {

const char* const kMainFooter =
    "Examples:\n"
    "  sextant search llama2-7b -c dgx-h100:nodes=2 --global-batch 64 --out plans\n"
    "  sextant simulate plans/plan.json --trace trace.json\n"
    "Exit codes: 0 ok, 1 bug, 2 usage, 3 bad input file, 4 no feasible plan, 5 device,\n"
    "  6 a rank failed, 7 verification, 8 checkpoint, 130/143 signals";

constexpr const char* kHidden = "hidden";

// CLI11 hides options without a group, but then it leaves their names out of errors too.
class VerbFormatter : public CLI::Formatter {
 public:
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    if (group == kHidden) return "";
    return CLI::Formatter::make_group(group, is_positional, options);
  }
  // One blank line is enough anywhere; hidden groups leave more.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    while (text.find("\n\n\n") != std::string::npos) text.erase(text.find("\n\n\n"), 1);
    return text;
  }
};

constexpr const char* kOfAllVerbs =
    "All verbs: --json, -q, --threads, --dry-run, --config, --set, ...: sextant -h";

struct Group {
  std::string_view name, text;
};
constexpr Group kGroups[] = {
    {"model", "Models"},     {"strategy", "Strategies"}, {"checkpoint", "Checkpoints of runs"},
    {"cluster", "Clusters"}, {"plan", "Plan files"},     {"experiment", "Sweeps with a report"}};

// Whole numbers as people write them. CLI11 alone takes 010 for eight, 0x4 for four and cuts what
// does not fit.
std::string not_whole(const std::string& text, bool may_be_negative) {
  constexpr std::size_t kMostDigits = 18;
  const std::string digits = may_be_negative && text.starts_with('-') ? text.substr(1) : text;
  const bool is_whole = !digits.empty() && digits.size() <= kMostDigits &&
                        digits.find_first_not_of("0123456789") == std::string::npos &&
                        (digits.size() == 1 || digits.front() != '0');
  return is_whole ? ""
                  : fmt::format("'{}' is no whole number of 1 to {} digits without a leading zero",
                                text, kMostDigits);
}

// The text with the value that the option has now, unless it speaks of a default itself.
std::string text_with_default(const Option& option) {
  const std::vector<std::string> now = values_of(option.target);
  const bool says = option.text.find("default") != std::string::npos ||
                    option.text.find(':') != std::string::npos;
  if (says || now.size() != 1 || now.front() == "0") return option.text;
  return fmt::format("{} (default: {})", option.text, now.front());
}

template <typename Value>
CLI::Option& add_value(CLI::App& app, const Option& option, Value& value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return *app.add_flag(option.names, value, option.text);
  } else {
    CLI::Option& added = *app.add_option(option.names, value, text_with_default(option));
    if (option.required && option.key().empty()) added.required();  // others: require_given
    if (!option.choices.empty()) added.check(CLI::IsMember(option.choices));
    // "--fix tp=4 model": what follows one value of an option is no other one of it.
    if constexpr (std::is_same_v<Value, std::vector<std::string>>)
      if (!option.key().empty()) added.allow_extra_args(false);
    constexpr bool is_unsigned = std::is_same_v<Value, std::uint64_t>;
    if constexpr (is_unsigned || std::is_same_v<Value, std::int64_t> ||
                  std::is_same_v<Value, std::optional<std::int64_t>>)
      added.check([](const std::string& text) { return not_whole(text, !is_unsigned); });
    return added;
  }
}

// Options of all verbs stand in the program's own help; a verb's shows those that matter to it.
bool is_shown(const Verb& verb, const std::string& key) {
  return (key == "seed" && verb.is_seeded) ||
         ((key == "out" || key == "overwrite") && verb.writes_results);
}

std::string common_help(const std::vector<Option>& options) {
  std::string text =
      "Options of all verbs; SEXTANT_NAME in the environment stands for --name of any, but for "
      "--set,\n--print-config and --overwrite:\n";
  for (const Option& option : options)
    text += fmt::format("  {:<16}{}\n", option.names, option.text);
  return text;
}

// Names of the verbs, or of the options of the verb that was typed.
std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}
std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// The innermost verb among the arguments, and the first argument that is not one.
struct Typed {
  const CLI::App* app = nullptr;
  std::string next;
  int words = 0;  // of the verb
};
Typed typed_verb(const CLI::App& app, int argc, char** argv) {
  Typed typed{.app = &app, .next = {}};
  for (int i = 1; i < argc && typed.next.empty(); ++i) {
    const auto verbs = typed.app->get_subcommands(
        [&](const CLI::App* verb) { return verb->get_name() == argv[i]; });
    if (verbs.empty())
      typed.next = argv[i];
    else
      typed.app = verbs.front(), ++typed.words;
  }
  return typed;
}

// What CLI11 found, with the nearest name where a verb or an option is unknown.
std::string usage_text(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
  const Typed typed = typed_verb(app, argc, argv);
  const std::vector<std::string> verbs = verbs_of(*typed.app);
  if (!verbs.empty() && !typed.next.empty() && typed.next.front() != '-')
    return fmt::format("unknown verb '{}'{}", typed.next, did_you_mean(typed.next, verbs));
  std::string text = error.what();
  for (int i = 1; i < argc; ++i) {
    const std::string argument(argv[i]);
    const std::string option = argument.substr(0, argument.find('='));
    const std::vector<std::string> options = options_of(*typed.app);
    if (option.starts_with("--") &&
        std::find(options.begin(), options.end(), option) == options.end())
      return fmt::format("unknown option '{}'{}", option, did_you_mean(option, options));
  }
  return text;
}

// A value that was typed and is empty: a script's variable that was not set.
void require_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      require(!value.empty(), ErrorCode::kUsage, "{} is given an empty value", option->get_name());
  for (const CLI::App* verb : app.get_subcommands()) require_values(*verb);
}

// Options that have to come from somewhere.
void require_given(const Verb& verb) {
  for (const Option& option : verb.options)
    require(!option.required || option.key().empty() || !values_of(option.target).empty(),
            ErrorCode::kUsage, "--{} is required", option.key());
}

std::string command_line_name(const Option& option) {
  return option.key().empty() ? option.names : "--" + option.key();
}

}  // namespace

struct CommandLine::Addition {
  std::string key;
  FoundValue value;
};

std::vector<std::string> CommandLine::arguments_of(std::span<const Addition> found) {
  std::vector<std::string> arguments;
  for (const Addition& one : found)
    for (const std::string& text : one.value.values)
      arguments.push_back("--" + one.key + "=" + text);
  return arguments;
}

struct CommandLine::Parser {
  CLI::App app{"Sextant: finds, simulates, explains and runs parallel training plans"};
  std::map<CLI::App*, const Verb*> verb_of;
  std::vector<Option> common;  // the last ones of every verb

  CLI::App& parent_of(const Verb& verb) {
    const std::size_t blank = verb.path.find(' ');
    if (blank == std::string::npos) return app;
    const std::string name = verb.path.substr(0, blank);
    for (CLI::App* known : app.get_subcommands([](CLI::App*) { return true; }))
      if (known->get_name() == name) return *known;
    const auto group = std::find_if(std::begin(kGroups), std::end(kGroups),
                                    [&](const Group& one) { return one.name == name; });
    require(group != std::end(kGroups), ErrorCode::kInternal, "no text for the verbs of '{}'",
            name);
    CLI::App& made = *app.add_subcommand(name, std::string(group->text));
    made.require_subcommand(1);
    return made;
  }

  void add(const Verb& verb) {
    const std::size_t blank = verb.path.find(' ');
    const std::string name = blank == std::string::npos ? verb.path : verb.path.substr(blank + 1);
    CLI::App& sub = *parent_of(verb).add_subcommand(name, verb.text);
    sub.footer(verb.examples + "\n" + kOfAllVerbs);
    sub.get_help_ptr()->group(kHidden);  // whoever reads this knows it
    verb_of.emplace(&sub, &verb);
  }

  // Only what is typed has its options looked at, and there are hundreds of others.
  void add_options(std::span<char* const> typed) {
    for (const auto& [sub, verb] : verb_of)
      if (std::find(typed.begin(), typed.end(), sub->get_name()) != typed.end())
        add_options(*sub, *verb);
  }

  // What the verb has in common with all others is hidden, where it does not matter to it.
  void add_options(CLI::App& sub, const Verb& verb) const {
    const std::size_t own = verb.options.size() - common.size();
    for (std::size_t index = 0; index < verb.options.size(); ++index) {
      const Option& option = verb.options[index];
      const bool is_hidden = index < own ? option.is_detail : !is_shown(verb, option.key());
      CLI::Option& added = add_option(sub, option);
      if (is_hidden) added.group(kHidden);
    }
  }
  static CLI::Option& add_option(CLI::App& app, const Option& option) {
    return *std::visit([&](auto* value) { return &add_value(app, option, *value); }, option.target);
  }

  // The innermost verb that was parsed.
  CLI::App& parsed() {
    CLI::App* at = &app;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
    return *at;
  }

  void parse(int argc, char** argv) {
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) throw;  // help
      throw Error(ErrorCode::kUsage, usage_text(error, app, argc, argv),
                  {"-h shows what is understood"});
    }
  }

  // What is added goes behind the words of the verb.
  void parse_more(std::vector<std::string> added, int argc, char** argv) {
    std::vector<char*> all(argv, argv + argc);
    std::vector<char*> texts;
    for (std::string& text : added) texts.push_back(text.data());
    all.insert(all.begin() + 1 + typed_verb(app, argc, argv).words, texts.begin(), texts.end());
    parse(static_cast<int>(all.size()), all.data());
  }
};

CommandLine::CommandLine(std::vector<Verb> verbs, CommonOptions& common)
    : verbs_(std::move(verbs)), common_(common), parser_(std::make_unique<Parser>()) {
  CLI::App& app = parser_->app;
  const auto formatter = std::make_shared<VerbFormatter>();
  formatter->column_width(34);
  app.formatter(formatter);  // of its verbs too, made after this
  app.require_subcommand(1);
  app.get_help_ptr()->group(kHidden);  // as of every verb
  parser_->common = common_options(common);
  app.footer(common_help(parser_->common) + kMainFooter);
  for (Verb& verb : verbs_) {
    verb.options = joined(std::move(verb.options), parser_->common);
    parser_->add(verb);
  }
}

CommandLine::~CommandLine() = default;

const Verb* CommandLine::parse(int argc, char** argv) {
  parser_->add_options({argv, static_cast<std::size_t>(argc)});
  try {
    parser_->parse(argc, argv);
  } catch (const CLI::ParseError& help) {
    if (is_first_process()) parser_->app.exit(help);
    return nullptr;
  }
  require_values(parser_->app);
  CLI::App& typed = parser_->parsed();
  const Verb& verb = *parser_->verb_of.at(&typed);
  note_values(verb, add_found(verb, typed, argc, argv));
  require_given(verb);
  return &verb;
}

// What a plan file in a model's place says itself is left to it, but where it was typed.
bool CommandLine::is_left_to_plan(const Verb& verb, const Option& option) const {
  if (!option.describes_job) return false;
  const auto named = std::find_if(verb.options.begin(), verb.options.end(),
                                  [](const Option& one) { return one.key().empty(); });
  const std::vector<std::string> values = values_of(named->target);
  return !values.empty() && is_plan_file(values.front());
}

std::map<std::string, std::string> CommandLine::add_found(const Verb& verb, CLI::App& typed,
                                                          int argc, char** argv) {
  std::map<std::string, std::string> places;
  // The one option of those that say where values come from which the environment may give.
  constexpr const char* kConfigVariable = "SEXTANT_CONFIG";
  const char* named = std::getenv(kConfigVariable);
  if (common_.config.empty() && named != nullptr && *named != '\0') {
    common_.config = named;
    places["config"] = kConfigVariable;
  }
  const Settings settings(verbs_, verb, common_.config, common_.set);
  std::vector<Addition> found;
  for (const Option& option : verb.options) {
    if (typed.get_option(command_line_name(option))->count() > 0) {
      places[option.key()] = kCommandLinePlace;
    } else if (std::optional<FoundValue> value = settings.find(option)) {
      if (!is_left_to_plan(verb, option))
        found.push_back({option.key(), std::move(*value)});
      else
        notes_.push_back(fmt::format("{} has no effect: the plan has its own", value->place));
    }
  }
  for (const Addition& one : found) places[one.key] = one.value.place;
  if (!found.empty()) parse_with(found, argc, argv);
  return places;
}

// All at once. Where that is refused, one more at a time: the last is whose value it is.
void CommandLine::parse_with(std::span<const Addition> found, int argc, char** argv) {
  try {
    return parser_->parse_more(arguments_of(found), argc, argv);
  } catch (const Error&) {
    for (std::size_t number = 1; number <= found.size(); ++number) {
      const FoundValue& last = found[number - 1].value;
      try {
        parser_->parse_more(arguments_of(found.first(number)), argc, argv);
      } catch (const Error& error) {
        throw Error(last.refused_as, Place{last.place}, error.message(), error.hints());
      }
    }
    throw;
  }
}

void CommandLine::note_values(const Verb& verb, const std::map<std::string, std::string>& places) {
  for (const Option& option : verb.options) {
    const std::string key = option.key();
    if (key.empty()) continue;
    const auto known = places.find(key);
    values_.push_back({key, values_of(option.target),
                       known == places.end() ? std::string(kDefaultPlace) : known->second});
  }
}

}  // namespace sextant
