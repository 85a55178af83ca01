// One row per links that are used alike.
#include "cli/sections/link_section.h"

#include "cli/verbs.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// What people see of all links of a kind.
struct Kind {
  const LinkUse* busiest = nullptr;
  std::int64_t links = 0;  // in use
  double mean_utilisation = 0;
};

// The one with the busiest link first.
std::vector<Kind> kinds_of(const LinkUses& links) {
  std::vector<Kind> kinds;
  for (const LinkUse& use : links.used) {
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const Kind& other) { return other.busiest->kind == use.kind; });
    if (kind == kinds.end()) kind = kinds.insert(kind, {&use, 0, 0});
    kind->links += use.links;
    kind->mean_utilisation += static_cast<double>(use.links) * use.utilisation;
  }
  for (Kind& kind : kinds) kind.mean_utilisation /= static_cast<double>(kind.links);
  return kinds;
}

double busy_share(const LinkUse& use, const LinkUses& links) {
  return links.step_time.value == 0 ? 0 : to_seconds(use.busy) / to_seconds(links.step_time);
}

}  // namespace

void say(const LinkUses& links, const Console& console) {
  if (links.used.empty()) {
    console.say(
        fmt::format("links: no communication in the step uses one ({} are idle)", links.idle));
    return;
  }
  TextTable table(
      {"links", "in use", "mean utilisation", "busiest", "carries", "of", "busy", "utilisation"});
  for (const Kind& kind : kinds_of(links)) {
    const LinkUse& use = *kind.busiest;
    table.add({use.kind, fmt::format("{}", kind.links), percent(kind.mean_utilisation), use.name,
               to_text(use.bytes), bandwidth_to_text(use.capacity_b_s),
               percent(busy_share(use, links)), percent(use.utilisation)});
  }
  console.say(table.text());
  if (links.is_crowded)
    console.say(
        "note: some links would carry more than they can while they are busy: only --mode timed "
        "lets communications share them");
}

Json links_json(const LinkUses& links) {
  Json rows = Json::array();
  for (const LinkUse& use : links.used)
    rows.push_back({{"name", use.name},
                    {"links", use.links},
                    {"capacity_bytes_per_s", use.capacity_b_s},
                    {"bytes", use.bytes.value},
                    {"busy_s", to_seconds(use.busy)},
                    {"utilisation", use.utilisation}});
  return {{"used", std::move(rows)}, {"idle", links.idle}, {"crowded", links.is_crowded}};
}

std::vector<std::string> link_notes(const LinkUses& links) {
  std::vector<std::string> notes;
  for (const Kind& kind : kinds_of(links)) {
    const LinkUse& use = *kind.busiest;
    notes.push_back(fmt::format("{} of {}: {} a step, busy {}, utilisation {}", use.name,
                                kind.links, to_text(use.bytes), percent(busy_share(use, links)),
                                percent(use.utilisation)));
  }
  return notes;
}

}  // namespace sextant
