// `sextant checkpoint show` and `sextant checkpoint check`: what a checkpoint is of, and whether
// all of it is as it was written.
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/base/units.h"
#include "core/text/counted_text.h"
#include "io/checkpoints/checkpoint_folder.h"
#include "io/checkpoints/checkpoint_reader.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

struct CheckpointArguments {
  std::string folder;
};

std::size_t shards_of(const Manifest& manifest) {
  std::map<std::string, int> files;
  for (const CheckpointState& state : manifest.states)
    for (const CheckpointPiece& piece : state.pieces) ++files[piece.file];
  return files.size();
}

struct RoleSum {
  std::int64_t states = 0, elements = 0, bytes = 0;
};

std::map<std::string, RoleSum> sums_by_role(const Manifest& manifest) {
  std::map<std::string, RoleSum> sums;
  for (const CheckpointState& state : manifest.states) {
    RoleSum& sum = sums[state.name.role];
    ++sum.states;
    sum.elements += state.type.shape.elements();
    sum.bytes += size_of(state.type).value;
  }
  return sums;
}

Json summary_json(const FoundCheckpoint& found, const Manifest& manifest) {
  return {{"path", found.path},
          {"step", manifest.facts.step},
          {"bytes", bytes_of_states(manifest)},
          {"shards", shards_of(manifest)},
          {"strategy", manifest.facts.strategy},
          {"devices", manifest.facts.devices}};
}

Json states_json(const Manifest& manifest) {
  Json states = Json::array();
  for (const CheckpointState& state : manifest.states)
    states.push_back({{"name", state.name.owner},
                      {"role", state.name.role},
                      {"shape", state.type.shape.extents()},
                      {"dtype", to_string(state.type.dtype)},
                      {"pieces", state.pieces.size()}});
  return states;
}

void say_training(const Manifest& manifest, const Console& console) {
  const TrainingFacts& facts = manifest.facts;
  console.say(fmt::format("step {} of {}, {} read, seed {}", facts.step, facts.model,
                          counted(facts.samples, "sample"), facts.seed));
  console.say(fmt::format("strategy: {}; global batch {} on {}", facts.strategy, facts.global_batch,
                          counted(facts.devices, "device")));
  console.say("optimizer: " + facts.optimizer);
}

void say_roles(const Manifest& manifest, const Console& console) {
  TextTable table({"state", "tensors", "elements", "size"});
  for (const auto& [role, sum] : sums_by_role(manifest))
    table.add({role, fmt::format("{}", sum.states), fmt::format("{}", sum.elements),
               to_text(Bytes(sum.bytes))});
  console.say(table.text());
}

// A row per tensor, in one checkpoint only.
void say_states(const Manifest& manifest, const Console& console) {
  TextTable table({"tensor", "shape", "dtype", "pieces"});
  for (const CheckpointState& state : manifest.states)
    table.add({to_string(state.name), to_string(state.type.shape),
               std::string(to_string(state.type.dtype)), fmt::format("{}", state.pieces.size())});
  console.say(table.text());
}

void say_all(const std::vector<CheckpointReader>& checkpoints, const Console& console) {
  TextTable table({"checkpoint", "size", "shards", "strategy"});
  for (const CheckpointReader& checkpoint : checkpoints) {
    const Manifest& manifest = checkpoint.manifest();
    table.add({checkpoint.path(), to_text(Bytes(bytes_of_states(manifest))),
               fmt::format("{}", shards_of(manifest)), manifest.facts.strategy});
  }
  console.say(table.text());
}

void show_checkpoints(const CheckpointArguments& arguments, Console& console) {
  const std::vector<FoundCheckpoint> found = all_checkpoints(arguments.folder);
  std::vector<CheckpointReader> checkpoints;
  Json list = Json::array();
  for (const FoundCheckpoint& one : found) {
    checkpoints.emplace_back(one);
    list.push_back(summary_json(one, checkpoints.back().manifest()));
  }
  const Manifest& last = checkpoints.back().manifest();
  if (found.size() > 1) say_all(checkpoints, console);
  say_training(last, console);
  say_roles(last, console);
  if (found.size() == 1) say_states(last, console);
  const TrainingFacts& facts = last.facts;
  console.document("checkpoint_show", {{"checkpoints", list},
                                       {"model", facts.model},
                                       {"model_hash", facts.model_hash},
                                       {"optimizer", facts.optimizer},
                                       {"strategy", facts.strategy},
                                       {"global_batch", facts.global_batch},
                                       {"step", facts.step},
                                       {"samples", facts.samples},
                                       {"seed", facts.seed},
                                       {"data", facts.data},
                                       {"states", states_json(last)}});
}

// What is wrong with a checkpoint; empty: nothing.
std::string damage_of(const FoundCheckpoint& found) {
  try {
    CheckpointReader checkpoint(found);
    checkpoint.check();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void check_checkpoints(const CheckpointArguments& arguments, Console& console) {
  std::string damage;
  Json list = Json::array();
  for (const FoundCheckpoint& found : all_checkpoints(arguments.folder)) {
    const std::string found_damage = damage_of(found);
    if (found_damage.empty()) {
      console.say(found.path + ": whole");
      list.push_back({{"path", found.path}, {"step", found.step}});
    } else {
      damage += (damage.empty() ? "" : "\n") + found_damage;
    }
  }
  for (const std::string& left : unfinished_in(arguments.folder))
    console.note(left + ": was never finished; the next run that saves here deletes it");
  require(damage.empty(), ErrorCode::kCheckpoint, "{}", damage);
  console.document("checkpoint_check", {{"whole", list}});
}

Verb verb_on_folder(const char* path, const char* text, const char* examples,
                    void (*act)(const CheckpointArguments&, Console&)) {
  const auto arguments = std::make_shared<CheckpointArguments>();
  return {.path = path,
          .text = text,
          .examples = examples,
          .options = {{"folder", &arguments->folder,
                       "a checkpoint (step-000100), or the folder of --checkpoint", true}},
          .action = [arguments, act](const CommonOptions&, Console& console) {
            act(*arguments, console);
          }};
}

}  // namespace

Verb checkpoint_show_verb() {
  return verb_on_folder("checkpoint show", "Steps, model, plan and states of checkpoints",
                        "Examples:\n  sextant checkpoint show checkpoints\n"
                        "  sextant checkpoint show checkpoints/step-000100 --json",
                        show_checkpoints);
}

Verb checkpoint_check_verb() {
  return verb_on_folder("checkpoint check", "Compare every checksum; exit code 8 where one is off",
                        "Examples:\n  sextant checkpoint check checkpoints\n"
                        "  sextant checkpoint check checkpoints/step-000100 --json",
                        check_checkpoints);
}

}  // namespace sextant
