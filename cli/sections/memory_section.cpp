// Tables and a chart in plain characters.
#include "cli/sections/memory_section.h"

#include "cli/verbs.h"
#include "compiler/memory/memory_report.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <tuple>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kOwnersShown = 12;
constexpr std::size_t kOwnersInJson = 50;

// The first rank of a program stands for all.
ProgramMemory report_program(const PhysicalGraph& graph, ProgramId program,
                             const Timeline& timeline, std::size_t windows) {
  const std::size_t num_runs = graph.programs[ProgramId(program)].order.size();
  std::vector<Time> begin(num_runs), end(num_runs);
  const auto rank = std::find_if(timeline.ranks.begin(), timeline.ranks.end(),
                                 [&](const RankTimeline& candidate) {
                                   return graph.ranks[candidate.rank].program == ProgramId(program);
                                 });
  if (rank != timeline.ranks.end())
    for (const TimedRun& run : rank->runs) {
      begin[run.run.index()] = run.begin;
      end[run.run.index()] = run.end;
    }
  return report_memory(graph, ProgramId(program), begin, end, windows);
}

const ProgramMemory& worst(const MemorySection& section) {
  return *std::max_element(
      section.programs.begin(), section.programs.end(),
      [](const ProgramMemory& a, const ProgramMemory& b) { return a.arena < b.arena; });
}

void say_classes(const MemorySection& section, const Console& console) {
  std::vector<std::string> header = {"memory at the peak"};
  std::vector<bool> shown(kNumMemoryClasses, false);
  for (const ProgramMemory& program : section.programs)
    for (std::size_t i = 0; i < kNumMemoryClasses; ++i)
      shown[i] = shown[i] || program.by_class[i].value > 0;
  for (std::size_t i = 0; i < kNumMemoryClasses; ++i)
    if (shown[i]) header.emplace_back(to_string(static_cast<MemoryClass>(i)));
  for (const char* name : {"in use", "arena", "bound", "packing"}) header.emplace_back(name);
  TextTable table(header);
  for (std::size_t p = 0; p < section.programs.size(); ++p) {
    const ProgramMemory& program = section.programs[p];
    std::vector<std::string> row = {program.program};
    for (std::size_t i = 0; i < kNumMemoryClasses; ++i)
      if (shown[i]) row.push_back(to_text(program.by_class[i]));
    row.push_back(to_text(program.peak));
    row.push_back(to_text(program.arena));
    row.push_back(to_text(program.lower_bound));
    row.emplace_back(to_string(section.rules[p]));
    table.add(std::move(row));
  }
  console.say(table.text());
}

// One character per window, from ' ' (nothing) to '@' (the most that any device has).
void say_chart(const MemorySection& section, const Console& console) {
  constexpr std::string_view kLevels = " .:-=+*#%@";
  Bytes most(1);
  std::size_t width = 0;
  for (const ProgramMemory& program : section.programs) {
    most = std::max(most, program.peak);
    width = std::max(width, program.program.size());
  }
  console.say(fmt::format("in use over the step ('@': {}):", to_text(most)));
  for (const ProgramMemory& program : section.programs) {
    std::string line;
    for (const Bytes bytes : program.over_time) {
      const double share = static_cast<double>(bytes.value) / static_cast<double>(most.value);
      const auto level = static_cast<std::size_t>(share * static_cast<double>(kLevels.size()));
      line += kLevels[std::min(level, kLevels.size() - 1)];
    }
    console.say(fmt::format("{:{}} |{}| peak at {}", program.program, width, line,
                            to_text(program.peak_at - program.begin)));
  }
  console.say("");
}

// Layers of one tensor together.
struct OwnerRow {
  std::string name;
  MemoryClass memory = MemoryClass::kActivations;
  int first_layer = 0, last_layer = 0;
  Bytes bytes;
  std::int64_t count = 0;
};

std::vector<OwnerRow> rows_of(const ProgramMemory& program) {
  std::map<std::tuple<std::string, MemoryClass>, OwnerRow> by_name;
  for (const MemoryOwner& owner : program.owners) {
    const auto [entry, is_new] = by_name.try_emplace({owner.name, owner.memory});
    OwnerRow& row = entry->second;
    if (is_new) row = {owner.name, owner.memory, owner.layer, owner.layer, Bytes(), 0};
    row.first_layer = std::min(row.first_layer, owner.layer);
    row.last_layer = std::max(row.last_layer, owner.layer);
    row.bytes += owner.bytes;
    row.count += owner.count;
  }
  std::vector<OwnerRow> rows;
  for (auto& [key, row] : by_name) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const OwnerRow& a, const OwnerRow& b) { return a.bytes > b.bytes; });
  return rows;
}

void say_owners(const ProgramMemory& program, const Console& console) {
  TextTable table({fmt::format("largest owners on {}", program.program), "layers", "class", "count",
                   "bytes", "share"});
  const std::vector<OwnerRow> rows = rows_of(program);
  Bytes rest = program.peak;
  for (std::size_t i = 0; i < std::min(rows.size(), kOwnersShown); ++i) {
    const OwnerRow& row = rows[i];
    const std::string layers = row.first_layer == row.last_layer
                                   ? fmt::format("{}", row.first_layer)
                                   : fmt::format("{}-{}", row.first_layer, row.last_layer);
    const double share =
        static_cast<double>(row.bytes.value) / static_cast<double>(program.peak.value);
    table.add({row.name, layers, std::string(to_string(row.memory)), fmt::format("{}", row.count),
               to_text(row.bytes), percent(share)});
    rest -= row.bytes;
  }
  if (rest.value > 0)
    table.add({"all others", "", "", "", to_text(rest),
               percent(static_cast<double>(rest.value) / static_cast<double>(program.peak.value))});
  console.say(table.text());
}

Json owners_json(const ProgramMemory& program) {
  Json owners = Json::array();
  for (std::size_t i = 0; i < std::min(program.owners.size(), kOwnersInJson); ++i) {
    const MemoryOwner& owner = program.owners[i];
    owners.push_back({{"name", owner.name},
                      {"layer", owner.layer},
                      {"class", to_string(owner.memory)},
                      {"bytes", owner.bytes.value},
                      {"count", owner.count}});
  }
  return owners;
}

}  // namespace

MemorySection memory_section(const ExpandedGraph& expanded, const Timeline& timeline,
                             std::size_t windows) {
  MemorySection section;
  for (const ProgramId p : expanded.graph().programs.keys()) {
    section.programs.push_back(report_program(expanded.graph(), p, timeline, windows));
    section.rules.push_back(expanded.packed()[p.index()].rule);
  }
  return section;
}

void say(const MemorySection& section, const Console& console) {
  say_classes(section, console);
  say_chart(section, console);
  say_owners(worst(section), console);
}

Json memory_section_json(const MemorySection& section) {
  Json programs = Json::array();
  for (std::size_t p = 0; p < section.programs.size(); ++p) {
    const ProgramMemory& program = section.programs[p];
    Json over_time = Json::array();
    for (const Bytes bytes : program.over_time) over_time.push_back(bytes.value);
    programs.push_back({{"program", program.program},
                        {"arena_bytes", program.arena.value},
                        {"lower_bound_bytes", program.lower_bound.value},
                        {"packing", to_string(section.rules[p])},
                        {"peak_bytes", program.peak.value},
                        {"peak_at_s", to_seconds(program.peak_at - program.begin)},
                        {"by_class_bytes", memory_json(program.by_class)},
                        {"over_time_bytes", std::move(over_time)},
                        {"owners", owners_json(program)}});
  }
  return {{"worst", worst(section).program},
          {"max_arena_bytes", worst(section).arena.value},
          {"programs", std::move(programs)}};
}

}  // namespace sextant
