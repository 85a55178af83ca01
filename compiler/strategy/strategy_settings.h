// The settings of a strategy as data: what parses them, prints them, explains them, suggests them
// and says where they change nothing. A setting that is not a row here does not exist.
#pragma once

#include "compiler/strategy/strategy.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// A strategy while its text is read: settings that others give a meaning to wait for the end.
struct StrategyDraft {
  Strategy strategy;
  std::optional<int> first_layers, last_layers;
  std::vector<RankAxis> order;  // as given, which may leave axes out
};

struct StrategySetting {
  enum class Printed : std::uint8_t {
    kAlways,
    kIfChanged,  // from the default
    kRepeated,   // any number of them; Strategy holds them as a list
    kNever,      // an older name, printed as the setting that took its place
  };
  std::string_view key;
  std::string_view values;   // that it takes, for people: "on or off"
  std::string_view meaning;  // half a line
  Printed printed = Printed::kIfChanged;
  // Throws Error(kUsage) for a value that it does not take.
  void (*read)(StrategyDraft& draft, std::string_view value) = nullptr;
  std::string (*write)(const Strategy& strategy) = nullptr;  // none: repeated, or never printed
  // Why no value changes anything in this strategy; empty: one does. None: one always does.
  std::string (*idle)(const Strategy& strategy) = nullptr;
  // Where the values are few and none depends on another setting: all of them.
  std::vector<std::string_view> choices = {};
};

// In the order in which they are printed.
std::span<const StrategySetting> strategy_settings();
// Nothing: no setting has this key.
const StrategySetting* find_strategy_setting(std::string_view key);
std::string default_of(const StrategySetting& setting);

// Settings that are not at their default and change nothing: "sp=on has no effect: tp=1".
std::vector<std::string> settings_without_effect(const Strategy& strategy);

// One line per setting: key, values, (default): meaning.
std::string strategy_settings_help();

}  // namespace sextant
