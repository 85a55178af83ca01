// A table for people; for programs also a file that can be given back with --config.
#include "cli/config_report.h"

#include "cli/settings.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <variant>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

Json value_json(const Option& option, const NamedValue& value) {
  if (std::holds_alternative<std::vector<std::string>*>(option.target)) return value.values;
  if (value.values.empty()) return nullptr;
  const std::string& text = value.values.front();
  if (std::holds_alternative<bool*>(option.target)) return text == "true";
  const bool is_text = std::holds_alternative<std::string*>(option.target);
  return is_text ? Json(text) : Json::parse(text);
}

// How a verb speaks is no part of what it does.
bool is_kept(const std::string& key) {
  return is_settable(key) && key != "json" && key != "quiet" && key != "dry-run";
}

// {"cluster": {"bench": values}} of the verb `cluster bench`.
Json in_sections(const std::string& path, Json values) {
  const std::size_t blank = path.rfind(' ');
  Json section = {{path.substr(blank == std::string::npos ? 0 : blank + 1), std::move(values)}};
  return blank == std::string::npos ? section : in_sections(path.substr(0, blank), section);
}

}  // namespace

void say_settings(const Verb& verb, std::span<const NamedValue> values, Console& console) {
  TextTable table({"option", "value", "from"});
  Json all = Json::array(), config = Json::object();
  for (const Option& option : verb.options) {
    const auto value = std::find_if(values.begin(), values.end(), [&](const NamedValue& one) {
      return !one.key.empty() && one.key == option.key();
    });
    const bool is_shown =
        value != values.end() &&
        (is_settable(value->key) || value->key == "config" || value->key == "overwrite");
    if (!is_shown) continue;
    const Json json = value_json(option, *value);
    const std::string text = fmt::format("{}", fmt::join(value->values, ", "));
    table.add({value->key, text.empty() ? "-" : text, value->place});
    all.push_back({{"option", value->key}, {"value", json}, {"from", value->place}});
    if (value->place != kDefaultPlace && is_kept(value->key)) config[value->key] = json;
  }
  for (const std::string& line : table.lines()) console.say(line);
  Json file = {{"schema", kConfigSchema}};
  if (!config.empty()) file.update(in_sections(verb.path, std::move(config)));
  console.document(
      "print_config",
      {{"verb", verb.path}, {"settings", std::move(all)}, {"config", std::move(file)}});
}

}  // namespace sextant
