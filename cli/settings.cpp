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
constexpr std::string_view kFromCommandLine[] = {"config", "set", "print-config"};

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

std::string scalar(const JsonCursor& value) {
  if (value.is_boolean()) return value.boolean() ? "true" : "false";
  if (value.is_integer()) return fmt::format("{}", value.integer());
  if (value.is_number()) return fmt::format("{}", value.real());
  if (!value.is_text()) value.refuse("a text, a number, true or false was wanted");
  if (value.text().empty()) value.refuse("an empty text; leave the key out");
  return value.text();
}

std::vector<std::string> values_in(const JsonCursor& value, const Option& option) {
  if (!value.is_list()) {
    if (is_flag(option) != value.is_boolean())
      value.refuse(is_flag(option) ? "true or false was wanted" : "true and false are for flags");
    return {scalar(value)};
  }
  if (!is_list(option)) value.refuse("one value was wanted, not a list");
  std::vector<std::string> values;
  for (const JsonCursor& element : value.elements()) values.push_back(scalar(element));
  return values;
}

void require_flag_value(const Option& option, const std::string& value, const std::string& place) {
  require(!is_flag(option) || value == "true" || value == "false", ErrorCode::kUsage,
          "{}: true or false, not '{}'", place, value);
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

  // Of some verb of the section; nothing where none has it.
  const Option* option(std::string_view key) const {
    for (const Verb& verb : verbs_)
      if (is_within(verb.path, path_))
        if (const Option* found = find_option(verb, key)) return found;
    return nullptr;
  }
  std::optional<Section> below(const std::string& word) const {
    const std::string path = path_.empty() ? word : path_ + " " + word;
    const bool is_one = std::any_of(verbs_.begin(), verbs_.end(),
                                    [&](const Verb& verb) { return is_within(verb.path, path); });
    if (!is_one) return std::nullopt;
    return Section(verbs_, path);
  }
  bool is_root() const { return path_.empty(); }
  bool holds(const Verb& verb) const { return is_within(verb.path, path_); }
  std::string unknown(const std::string& key) const {
    return fmt::format("no option of {} is called '{}'{}",
                       is_root() ? "any verb" : fmt::format("'{}'", path_), key,
                       did_you_mean(key, keys()));
  }

 private:
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
                   const std::vector<std::string>& sets) {
  if (!config.empty()) {
    const JsonDocument document = read_json_file(config);
    const JsonCursor root = document.root();
    if (!root.is_object()) root.refuse("an object was wanted");
    require_schema(root);
    add_section(root, Section(verbs, ""), verb);
  }
  for (const std::string& set : sets) add_set(set, Section(verbs, ""), verb);
}

// Values of a section stand before those of the sections in it.
void Settings::add_section(const JsonCursor& object, const Section& section, const Verb& verb) {
  for (const std::string& key : object.keys()) {
    const JsonCursor value = object.at(key);
    if (value.is_object() || (section.is_root() && key == kSchemaKey)) continue;
    const Option* option = section.option(key);
    if (option == nullptr) value.refuse(section.unknown(key));
    std::vector<std::string> values = values_in(value, *option);
    if (section.holds(verb) && find_option(verb, key) != nullptr)
      file_.push_back({key, {std::move(values), value.place()}});
  }
  for (const std::string& key : object.keys()) {
    const JsonCursor value = object.at(key);
    if (!value.is_object()) continue;
    const std::optional<Section> below = section.below(key);
    if (!below) value.refuse(section.unknown(key));
    add_section(value, *below, verb);
  }
}

void Settings::add_set(const std::string& set, Section section, const Verb& verb) {
  const std::size_t equals = set.find('=');
  require(equals != std::string::npos && equals > 0 && equals + 1 < set.size(), ErrorCode::kUsage,
          "--set {}: KEY=VALUE was wanted", set);
  std::string key = set.substr(0, equals);
  const std::string value = set.substr(equals + 1);
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
    const std::optional<Section> below = section.below(key.substr(0, dot));
    require(below.has_value(), ErrorCode::kUsage, "--set {}: {}", set,
            section.unknown(key.substr(0, dot)));
    section = *below;
    key.erase(0, dot + 1);
  }
  const Option* option = section.option(key);
  require(option != nullptr, ErrorCode::kUsage, "--set {}: {}", set, section.unknown(key));
  require_flag_value(*option, value, "--set " + set);
  if (!section.holds(verb) || find_option(verb, key) == nullptr) return;
  const auto known = std::find_if(sets_.begin(), sets_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (known != sets_.end() && is_list(*option))
    known->found.values.push_back(value);
  else
    sets_.push_back({key, {{value}, "--set " + set.substr(0, equals)}});
}

bool is_settable(std::string_view key) {
  return !key.empty() && std::find(std::begin(kFromCommandLine), std::end(kFromCommandLine), key) ==
                             std::end(kFromCommandLine);
}

const FoundValue* Settings::last(const std::vector<Entry>& entries, const std::string& key) {
  for (std::size_t i = entries.size(); i-- > 0;)
    if (entries[i].key == key) return &entries[i].found;
  return nullptr;
}

std::optional<FoundValue> Settings::find(const Option& option) const {
  const std::string key = option.key();
  if (!is_settable(key)) return std::nullopt;
  if (const FoundValue* set = last(sets_, key)) return *set;
  const std::string name = option.environment_name();
  const char* variable = std::getenv(name.c_str());
  if (variable != nullptr && *variable != '\0') {
    require_flag_value(option, variable, name);
    return FoundValue{{variable}, name};
  }
  if (const FoundValue* in_file = last(file_, key)) return *in_file;
  return std::nullopt;
}

}  // namespace sextant
