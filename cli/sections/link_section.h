// `simulate --links`: what the links carry in a step, the busiest first.
#pragma once

#include "cli/console.h"
#include "simulator/reports/link_use.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace sextant {

// How busy links are, as tables for people and as part of the verb's document (seconds, bytes).
void say(const LinkUses& links, const Console& console);
nlohmann::ordered_json links_json(const LinkUses& links);
// The busiest of each kind as lines under the title of a page.
std::vector<std::string> link_notes(const LinkUses& links);

}  // namespace sextant
