// `sextant strategy show`: the settings of a strategy, and what one of them says.
#include "cli/verb.h"
#include "cli/verbs.h"
#include "compiler/strategy/strategy_settings.h"
#include "core/text/counted_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace sextant {

namespace {

void run_strategy_show(const std::string& strategy, const CommonOptions&, Console& console) {
  const Strategy given = parse_strategy(strategy);
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const StrategySetting& setting : strategy_settings()) {
    settings.push_back({{"key", setting.key},
                        {"values", setting.values},
                        {"default", default_of(setting)},
                        {"meaning", setting.meaning}});
    if (setting.write != nullptr) settings.back()["value"] = setting.write(given);
  }
  console.say("KEY=VALUE (default): meaning");
  console.say(wrapped(strategy_settings_help(), 100));
  const std::vector<std::string> idle = settings_without_effect(given);
  if (!strategy.empty())
    console.say(fmt::format("{}: {}", to_string(given), counted(given.ranks(), "rank")));
  for (const std::string& note : idle) console.say("note: " + note);
  console.document("strategy_show", {{"strategy", to_string(given)},
                                     {"ranks", given.ranks()},
                                     {"settings", settings},
                                     {"notes", idle}});
}

}  // namespace

Verb strategy_show_verb() {
  const auto arguments = std::make_shared<std::string>();
  std::string& a = *arguments;
  return {.path = "strategy show",
          .text = "Settings of a strategy: values, defaults, meanings",
          .examples =
              "Examples:\n  sextant strategy show\n  sextant strategy show \"dp=2 pp=4 "
              "layers=7,*,*,8\"",
          .options =
              {
                  {"strategy", &a, "one to read: what it says, what has no effect"},
              },
          .action = [arguments](const CommonOptions& common, Console& console) {
            run_strategy_show(*arguments, common, console);
          }};
}

}  // namespace sextant
