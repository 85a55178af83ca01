// Texts and JSON that several verbs print.
#include "cli/verbs.h"
#include "simulator/reports/named_parts.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>

namespace sextant {

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }
std::string time_text(double seconds) { return to_text(duration_from_seconds(seconds)); }

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, 1, ',');
  return digits;
}

std::string step_text(Duration duration) { return to_text(duration); }

nlohmann::ordered_json parts_json(const StepParts& parts) {
  const auto spread = [](const StepParts::Spread& part) {
    return nlohmann::ordered_json{{"mean", part.mean_s}, {"min", part.min_s}, {"max", part.max_s}};
  };
  nlohmann::ordered_json json;
  for (const NamedPart& part : kNamedParts) json[part.key()] = spread(parts.*part.part);
  return json;
}

TextTable parts_table(const StepParts& parts, double step_s) {
  TextTable table({"part of the step", "mean", "share", "least", "most"});
  for (const NamedPart& named : kNamedParts) {
    const StepParts::Spread& part = parts.*named.part;
    table.add({std::string(named.name), time_text(part.mean_s), percent(part.mean_s / step_s),
               time_text(part.min_s), time_text(part.max_s)});
  }
  return table;
}

nlohmann::ordered_json memory_json(const std::vector<Bytes>& by_class) {
  nlohmann::ordered_json memory = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < by_class.size(); ++i)
    memory[std::string(to_string(static_cast<MemoryClass>(i)))] = by_class[i].value;
  return memory;
}

}  // namespace sextant
