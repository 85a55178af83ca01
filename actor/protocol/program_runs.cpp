// The issue order as a table: sites, places on queues, launch groups and guards of every run.
#include "actor/protocol/program_parts.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>

namespace sextant {
namespace {

void number_runs(const ProgramSource& source, const ActorNumbers& numbers, ProgramTables& tables) {
  tables.runs.reserve(source.program.order.size());
  for (const Run& run : source.program.order) {
    const std::int32_t first = numbers.first_actor[run.instance] + run.first_actor;
    const Actor& actor = source.block(run.instance).actors[at(run.first_actor)];
    RunEntry entry;
    entry.first_site = numbers.site_of_actor[at(first)];
    entry.num_sites =
        numbers.site_of_actor[at(first + run.num_actors - 1)].value - entry.first_site.value + 1;
    entry.queue = actor.queue;
    entry.communicates = actor.communication.has_value();
    entry.position = tables.runs_per_step[entry.queue]++;
    tables.runs.push_back(entry);
  }
}

void check_acts(const ProgramSource& source, const ProgramTables& tables) {
  Table<SiteId, std::int32_t> next(tables.sites.size(), 0);
  for (std::size_t r = 0; r < tables.runs.size(); ++r) {
    const RunEntry& entry = tables.runs[r];
    for (const SiteId s : entry.sites()) {
      if (source.program.order[RunId(r)].act != next[s]) {
        fail(kBadProgram, "{}: act {} comes next", source.text(RunId(r)), next[s]);
      }
      ++next[s];
    }
  }
  for (const SiteId s : tables.sites.keys()) {
    const Site& site = tables.sites[s];
    if (!site.is_host() && next[s] != site.acts_per_step) {
      fail(
          kBadProgram, "program '{}': {} is issued {} times, not {}", source.program.name,
          actors_to_text(source.graph, source.id, site.instance, site.first_actor, site.num_actors),
          next[s], site.acts_per_step);
    }
  }
}

// A launch of its own.
void add_single(std::int32_t index, ProgramTables& tables) {
  RunEntry& entry = tables.runs[at(index)];
  entry.group_size = 1;
  entry.unit = tables.units_per_step[entry.queue]++;
  tables.last_of_unit[entry.queue].push_back(entry.position);
}

void add_group(const ProgramSource& source, std::int32_t first, std::int32_t end,
               ProgramTables& tables) {
  tables.runs[at(first)].group_size = end - first;
  tables.max_group_size = std::max(tables.max_group_size, end - first);
  FixedTable<QueueRole, bool, kNumQueueRoles> used;
  for (std::int32_t r = first; r < end; ++r) {
    RunEntry& entry = tables.runs[at(r)];
    if (r > first) entry.group_size = 0;
    if (!entry.communicates) {
      fail(kBadProgram, "{}: only communications start together in a launch group",
           source.text(RunId(r)));
    }
    for (std::int32_t other = first; other < r; ++other) {
      if (tables.runs[at(other)].first_site == entry.first_site) {
        fail(kBadProgram, "{}: a launch group holds one act of an actor", source.text(RunId(r)));
      }
    }
    std::vector<std::int32_t>& last_of_unit = tables.last_of_unit[entry.queue];
    if (!used[entry.queue]) last_of_unit.push_back(0);
    used[entry.queue] = true;
    entry.unit = size_of(last_of_unit) - 1;
    last_of_unit.back() = entry.position;
    tables.units_per_step[entry.queue] = entry.unit + 1;
  }
}

void form_groups(const ProgramSource& source, ProgramTables& tables) {
  const auto runs = static_cast<std::int32_t>(tables.runs.size());
  std::vector<LaunchGroupId> seen;
  for (std::int32_t first = 0; first < runs;) {
    const LaunchGroupId group = source.program.order[RunId(first)].launch_group;
    std::int32_t end = first + 1;
    while (group.is_valid() && end < runs && source.program.order[RunId(end)].launch_group == group)
      ++end;
    if (group.is_valid()) seen.push_back(group);
    if (end - first == 1)
      add_single(first, tables);
    else
      add_group(source, first, end, tables);
    first = end;
  }
  std::sort(seen.begin(), seen.end());
  const auto twice = std::adjacent_find(seen.begin(), seen.end());
  require(twice == seen.end(), kBadProgram,
          "program '{}': the runs of launch group {} are not neighbours", source.program.name,
          twice == seen.end() ? LaunchGroupId::none : *twice);
}

}  // namespace

void add_runs(const ProgramSource& source, const ActorNumbers& numbers, ProgramTables& tables) {
  number_runs(source, numbers, tables);
  check_acts(source, tables);
  form_groups(source, tables);
}

void add_guards(const ProgramSource& source, ProgramTables& tables) {
  const auto runs = static_cast<std::int32_t>(tables.runs.size());
  std::vector<Guard> guards = source.program.guards;
  std::stable_sort(guards.begin(), guards.end(),
                   [](const Guard& a, const Guard& b) { return a.later < b.later; });
  for (const Guard& guard : guards) {
    require(guard.later.value >= 0 && guard.later.value < runs && guard.earlier.value >= 0 &&
                guard.earlier.value < runs && (guard.lag == 0 || guard.lag == 1),
            kBadProgram, "program '{}': a guard of run {} on run {} with lag {}",
            source.program.name, guard.later.value, guard.earlier.value, guard.lag);
    require(guard.lag == 1 || guard.earlier < guard.later, kBadProgram,
            "program '{}': run {} cannot wait for run {}, which is issued later",
            source.program.name, guard.later.value, guard.earlier.value);
    const LaunchGroupId group = source.program.order[guard.later].launch_group;
    require(guard.lag == 1 || !group.is_valid() ||
                source.program.order[guard.earlier].launch_group != group,
            kBadProgram, "program '{}': a guard between runs {} and {} of one launch group",
            source.program.name, guard.earlier.value, guard.later.value);
    RunEntry& later = tables.runs[guard.later.index()];
    if (later.num_guards++ == 0) {
      later.first_guard = static_cast<std::int32_t>(tables.guards.size());
    }
    const RunEntry& earlier = tables.runs[guard.earlier.index()];
    tables.guards.push_back({earlier.queue, earlier.position, guard.lag});
  }
}

}  // namespace sextant
