// `sextant checkpoint export`: the weights of a checkpoint as Hugging Face has them.
#include "cli/dry_run.h"
#include "cli/signals.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "cli/workflow.h"
#include "core/base/check.h"
#include "core/base/nearest.h"
#include "io/checkpoints/checkpoint_folder.h"
#include "io/checkpoints/checkpoint_reader.h"
#include "io/weights/write_foreign_weights.h"
#include "models/hugging_face_weights.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sextant {
namespace {

constexpr const char *kWeights = "model.safetensors", *kConfig = "config.json";

struct CheckpointExportArguments {
  std::string folder;
  std::string dtype = "f32";
};

const ModelConfig& transformer_of(const PlannedJob& planned) {
  const auto* config = std::get_if<ModelConfig>(&planned.job.model);
  require(config != nullptr, ErrorCode::kBadInput,
          "{} is no transformer: its weights have no names at Hugging Face; `sextant export` and "
          "the shards of the checkpoint have ours",
          name_of(planned.job.model));
  return *config;
}

DType dtype_of(const std::string& text) {
  const DType dtype = parse_dtype(text);
  require(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16, ErrorCode::kUsage,
          "--dtype {}: wanted f32, bf16 or f16", text);
  return dtype;
}

// What no config.json of the family holds and training depends on.
void say_what_is_lost(const ModelConfig& config, const Console& console) {
  std::vector<std::string> lost;
  if (config.label_smoothing > 0)
    lost.push_back(fmt::format("label_smoothing={}", config.label_smoothing));
  if (config.capacity_factor)
    lost.push_back(fmt::format("capacity_factor={}", *config.capacity_factor));
  const bool has_rates = !config.causal || config.norm == ModelConfig::Norm::kLayerNorm;
  if (config.residual_dropout > 0 && !has_rates)
    lost.push_back(fmt::format("dropout={}", config.residual_dropout));
  if (!lost.empty()) console.note("not in config.json: " + comma_list(lost));
}

void export_checkpoint(const CheckpointExportArguments& arguments, const CommonOptions& common,
                       Console& console) {
  require(!common.out.empty(), ErrorCode::kUsage, "--out FOLDER is needed: where the files go");
  require_results_folder(common, {kWeights, kConfig});
  const DType dtype = dtype_of(arguments.dtype);
  CheckpointReader checkpoint(last_checkpoint(arguments.folder));
  const PlannedJob planned =
      load_planned_job({.plan_or_model = checkpoint.path() + "/" + kCheckpointPlanFile});
  const ModelConfig& config = transformer_of(planned);
  const ForeignModel model = hugging_face_weights(config);
  std::map<std::string, const CheckpointState*> states;
  std::vector<NamedTensor> own;
  for (const CheckpointState& state : checkpoint.manifest().states) {
    if (state.name.role != kParameterRole) continue;
    states.emplace(state.name.owner, &state);
    own.push_back({state.name.owner, state.type});
  }
  if (common.dry_run)
    return say_dry_run("checkpoint_export", "export " + checkpoint.path(),
                       in_results(common, {kWeights, kConfig}), console);
  std::filesystem::create_directories(common.out);
  const std::string weights = common.out + "/" + kWeights, json = common.out + "/" + kConfig;
  {
    const RemovedBySignal removed(unfinished_path(weights));
    write_foreign_weights(weights, own, model, dtype, [&](const std::string& name) {
      return checkpoint.read(*states.at(name));
    });
  }
  write_file_whole(json, hugging_face_config(config, dtype) + "\n");
  say_what_is_lost(config, console);
  console.say(fmt::format("step {} of {}: {} in {}, {}", checkpoint.manifest().facts.step,
                          config.name, to_string(dtype), weights, json));
  console.document("checkpoint_export", {{"checkpoint", checkpoint.path()},
                                         {"step", checkpoint.manifest().facts.step},
                                         {"weights", weights},
                                         {"config", json}});
}

}  // namespace

Verb checkpoint_export_verb() {
  const auto arguments = std::make_shared<CheckpointExportArguments>();
  return {
      .path = "checkpoint export",
      .text = "Weights of a checkpoint for Hugging Face",
      .examples =
          "Examples:\n  sextant checkpoint export checkpoints --out model\n"
          "  sextant checkpoint export checkpoints/step-000100 --dtype bf16 --out model\n"
          "Writes model.safetensors and config.json, which transformers loads",
      .options = {{"folder", &arguments->folder,
                   "a checkpoint (step-000100), or the folder of --checkpoint", true},
                  {"--dtype", &arguments->dtype, "f32, bf16 or f16"}},
      .action = [arguments](const CommonOptions& common,
                            Console& console) { export_checkpoint(*arguments, common, console); },
      .writes_results = true,
      .has_dry_run = true};
}

}  // namespace sextant
