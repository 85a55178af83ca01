// Collects findings; small helpers that several topics share.
#include "core/validator/findings.h"

#include <algorithm>

namespace sextant::validator {

std::vector<std::string> Findings::messages() const {
  std::vector<std::string> messages;
  for (const Finding& finding : findings_) {
    const std::string more =
        finding.more == 0 ? "" : fmt::format(" (and {} more of this kind)", finding.more);
    messages.push_back(fmt::format("{}: {}{}", finding.rule, finding.text, more));
  }
  return messages;
}

void Findings::add(std::string_view rule, std::string text) {
  const auto known = std::find_if(findings_.begin(), findings_.end(),
                                  [&](const Finding& finding) { return finding.rule == rule; });
  if (known != findings_.end()) {
    ++known->more;
  } else {
    findings_.push_back({.rule = std::string(rule), .text = std::move(text), .more = 0});
  }
}

std::vector<std::int32_t> writers_of(const Block& block) {
  std::vector<std::int32_t> writers(block.registers.size(), -1);
  for (std::size_t actor = 0; actor < block.actors.size(); ++actor)
    for (const std::int32_t reg : block.actors[actor].out)
      at(writers, reg) = static_cast<std::int32_t>(actor);
  return writers;
}

}  // namespace sextant::validator
