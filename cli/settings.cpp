// Files and --set become entries of the verb at hand; whatever names another verb is only checked.
#include "cli/settings.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/text/json_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

constexpr std::string_view kSchemaKey = "schema";
// These say where values come from, or must be meant: no file, no variable and no --set gives them.
constexpr std::string_view kFromCommandLine[] = {"config", "set", "print-config", "overwrite"};

// "cluster bench": is it "cluster", or below it?
bool is_within(const std::string& path, const std::string& section) {
  return section.empty() || path == section || path.starts_with(section + " ");
}

const Option* find_option(const Verb& verb, std::string_view key) {
  for (const Option& option : verb.options)
    if (is_settable(option.key()) && option.key() == key) return &option;
  return nullptr;
}

bool is_list(const Option& option) {
  return std::holds_alternative<std::vector<std::string>*>(option.target);
}
bool is_flag(const Option& option) { return std::holds_alternative<bool*>(option.target); }

// What an option that gets this text is set to; nothing where it cannot take it.
std::optional<std::string> taken(const Option& option, const std::string& text) {
  return is_flag(option) ? flag_value(text) : text;
}

// Why an option cannot take a value of this form; empty where it can.
std::string misfit(const Option& option, const JsonCursor& value) {
  if (value.is_list()) return is_list(option) ? "" : "one value was wanted, not a list";
  if (is_flag(option) != value.is_boolean())
    return is_flag(option) ? "true or false was wanted" : "true and false are for flags";
  if (!value.is_boolean() && !value.is_number() && !value.is_text())
    return "a text, a number, true or false was wanted";
  return value.is_text() && value.text().empty() ? "an empty text; leave the key out" : "";
}

std::string scalar(const JsonCursor& value) {
  if (value.is_boolean()) return value.boolean() ? "true" : "false";
  if (value.is_integer()) return fmt::format("{}", value.integer());
  if (value.is_number()) return fmt::format("{}", value.real());
  return value.text();
}

std::vector<std::string> values_in(const JsonCursor& value) {
  if (!value.is_list()) return {scalar(value)};
  std::vector<std::string> values;
  for (const JsonCursor& element : value.elements()) values.push_back(scalar(element));
  return values;
}

void require_schema(const JsonCursor& root) {
  const std::optional<JsonCursor> schema = root.find(kSchemaKey);
  if (schema && schema->text() != kConfigSchema)
    schema->refuse(fmt::format("'{}' was wanted, a configuration file", kConfigSchema));
}

}  // namespace

// The verbs that a section stands for.
class Settings::Section {
 public:
  Section(std::span<const Verb> verbs, std::string path) : verbs_(verbs), path_(std::move(path)) {}

  // Of all verbs of the section, that of `first` in front. One name may be a flag of one verb and a
  // value of another.
  std::vector<const Option*> options(std::string_view key, const Verb& first) const {
    std::vector<const Option*> found;
    for (const Verb& verb : verbs_) {
      const Option* option = holds(verb) ? find_option(verb, key) : nullptr;
      if (option != nullptr) found.insert(&verb == &first ? found.begin() : found.end(), option);
    }
    return found;
  }
  std::optional<Section> below(const std::string& word) const {
    const std::string path = path_.empty() ? word : path_ + " " + word;
    const bool is_one = std::any_of(verbs_.begin(), verbs_.end(),
                                    [&](const Verb& verb) { return is_within(verb.path, path); });
    if (!is_one) return std::nullopt;
    return Section(verbs_, path);
  }
  bool is_root() const { return path_.empty(); }
  // The larger, the more its values count.
  std::size_t depth() const { return path_.size(); }
  bool gives(const Verb& verb, std::string_view key) const {
    return holds(verb) && find_option(verb, key) != nullptr;
  }
  std::string unknown(const std::string& key) const {
    return fmt::format("no option of {} is called '{}'{}",
                       is_root() ? "any verb" : fmt::format("'{}'", path_), key,
                       did_you_mean(key, keys()));
  }

 private:
  bool holds(const Verb& verb) const { return is_within(verb.path, path_); }

  // Of options and of the sections below.
  std::vector<std::string> keys() const {
    std::vector<std::string> known;
    for (const Verb& verb : verbs_) {
      if (!holds(verb)) continue;
      for (const Option& option : verb.options)
        if (is_settable(option.key())) known.push_back(option.key());
      if (verb.path.size() <= path_.size()) continue;
      const std::string below = verb.path.substr(is_root() ? 0 : path_.size() + 1);
      known.push_back(below.substr(0, below.find(' ')));
    }
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    return known;
  }

  std::span<const Verb> verbs_;
  std::string path_;
};

Settings::Settings(std::span<const Verb> verbs, const Verb& verb, const std::string& config,
                   const std::vector<std::string>& sets)
    : verbs_(verbs), verb_(verb) {
  if (!config.empty()) {
    const JsonDocument document = read_json_file(config);
    const JsonCursor root = document.root();
    if (!root.is_object()) root.refuse("an object was wanted");
    require_schema(root);
    add_section(root, Section(verbs, ""));
  }
  for (const std::string& set : sets) add_set(set, Section(verbs, ""));
}

void Settings::add_section(const JsonCursor& object, const Section& section) {
  for (const std::string& key : object.keys()) {
    const JsonCursor value = object.at(key);
    if (section.is_root() && key == kSchemaKey) continue;
    if (!value.is_object()) {
      add_value(value, key, section);
      continue;
    }
    const std::optional<Section> below = section.below(key);
    if (below)
      add_section(value, *below);
    else
      value.refuse(section.options(key, verb_).empty()
                       ? section.unknown(key)
                       : std::string("one value was wanted, not an object"));
  }
}

// A value that only another verb's option of this name can take is that verb's.
void Settings::add_value(const JsonCursor& value, const std::string& key, const Section& section) {
  const std::vector<const Option*> options = section.options(key, verb_);
  if (options.empty()) value.refuse(section.unknown(key));
  const auto fits = std::find_if(options.begin(), options.end(), [&](const Option* option) {
    return misfit(*option, value).empty();
  });
  if (fits == options.end()) value.refuse(misfit(*options.front(), value));
  if (section.gives(verb_, key) && fits == options.begin())
    file_.push_back(
        {key, section.depth(), {values_in(value), value.place(), ErrorCode::kBadInput}});
}

void Settings::add_set(const std::string& set, Section section) {
  const Place place{"--set " + set};
  const std::size_t equals = set.find('=');
  require(equals != std::string::npos && equals > 0 && equals + 1 < set.size(), ErrorCode::kUsage,
          place, "KEY=VALUE was wanted");
  std::string key = set.substr(0, equals);
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
    const std::optional<Section> below = section.below(key.substr(0, dot));
    require(below.has_value(), ErrorCode::kUsage, place, "{}", section.unknown(key.substr(0, dot)));
    section = *below;
    key.erase(0, dot + 1);
  }
  const std::string text = set.substr(equals + 1);
  const std::vector<const Option*> options = section.options(key, verb_);
  require(!options.empty(), ErrorCode::kUsage, place, "{}", section.unknown(key));
  const auto fits = std::find_if(options.begin(), options.end(), [&](const Option* option) {
    return taken(*option, text).has_value();
  });
  require(fits != options.end(), ErrorCode::kUsage, place, "true or false, not '{}'", text);
  if (!section.gives(verb_, key) || fits != options.begin()) return;
  const auto known = std::find_if(sets_.begin(), sets_.end(), [&](const Entry& entry) {
    return entry.key == key && entry.depth == section.depth();
  });
  if (known != sets_.end() && is_list(**fits))
    known->found.values.push_back(text);
  else
    sets_.push_back(
        {key,
         section.depth(),
         {{*taken(**fits, text)}, "--set " + set.substr(0, equals), ErrorCode::kUsage}});
}

std::optional<std::string> flag_value(std::string_view text) {
  for (const std::string_view yes : {"true", "1", "on", "yes"})
    if (text == yes) return "true";
  for (const std::string_view no : {"false", "0", "off", "no"})
    if (text == no) return "false";
  return std::nullopt;
}

bool is_settable(std::string_view key) {
  return !key.empty() && std::find(std::begin(kFromCommandLine), std::end(kFromCommandLine), key) ==
                             std::end(kFromCommandLine);
}

// Of the narrowest section, the last.
const FoundValue* Settings::strongest(const std::vector<Entry>& entries, const std::string& key) {
  const Entry* best = nullptr;
  for (const Entry& entry : entries)
    if (entry.key == key && (best == nullptr || entry.depth >= best->depth)) best = &entry;
  return best == nullptr ? nullptr : &best->found;
}

std::optional<FoundValue> Settings::in_environment(const Option& option) const {
  const std::string name = option.environment_name();
  const char* variable = std::getenv(name.c_str());
  if (variable == nullptr || *variable == '\0') return std::nullopt;
  if (const std::optional<std::string> value = taken(option, variable))
    return FoundValue{{*value}, name, ErrorCode::kUsage};
  // Then it is meant for the verbs that take a value of this name.
  const Section all(verbs_, "");
  const std::vector<const Option*> options = all.options(option.key(), verb_);
  require(std::any_of(options.begin(), options.end(),
                      [](const Option* other) { return !is_flag(*other); }),
          ErrorCode::kUsage, Place{name}, "true or false, not '{}'", variable);
  return std::nullopt;
}

std::optional<FoundValue> Settings::find(const Option& option) const {
  const std::string key = option.key();
  if (!is_settable(key)) return std::nullopt;
  if (const FoundValue* set = strongest(sets_, key)) return *set;
  if (std::optional<FoundValue> found = in_environment(option)) return found;
  if (const FoundValue* in_file = strongest(file_, key)) return *in_file;
  return std::nullopt;
}

}  // namespace sextant
