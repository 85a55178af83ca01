// What a checkpoint must have in common with the run that goes on from it.
#include "cli/training/run_start.h"

#include "compiler/training/optimizer_options.h"
#include "core/base/check.h"
#include "core/graphs/state_registers.h"
#include "io/checkpoints/checkpoint_folder.h"

#include <fmt/core.h>

#include <cstddef>
#include <span>

namespace sextant {
namespace {

// What `act` gives; of damage it says which checkpoint is before this one.
template <typename Act>
auto with_way_out(const std::string& before, const Act& act) {
  try {
    return act();
  } catch (const Error& error) {
    std::vector<std::string> hints = error.hints();
    if (error.code() == ErrorCode::kCheckpoint && !before.empty())
      hints.push_back("the checkpoint before it: --resume " + before);
    throw Error(error.code(), error.what(), hints);
  }
}

void note_if_other(const char* what, const std::string& was, const std::string& is,
                   const Console& console) {
  if (was != is)
    console.note(fmt::format("the {} of the checkpoint was {}, now it is {}", what, was, is));
}

}  // namespace

WriteState writing_to(const std::vector<Device*>& devices) {
  return [&devices](Rank rank, const StateRegister& state, std::span<const std::byte> from) {
    devices[rank.index()]->write_state(state.instance, state.reg, from);
  };
}

RunStart::RunStart(const std::string& path) {
  const std::vector<FoundCheckpoint> found = all_checkpoints(path);
  if (found.size() > 1) before_ = found[found.size() - 2].path;
  checkpoint_ =
      with_way_out(before_, [&] { return std::make_unique<CheckpointReader>(found.back()); });
}

std::int64_t RunStart::step() const { return is_resumed() ? facts().step : 0; }
std::int64_t RunStart::samples() const { return is_resumed() ? facts().samples : 0; }

std::string RunStart::id() const {
  return is_resumed()
             ? fmt::format("step {} ({})", step(), text_hash(to_json_text(checkpoint_->manifest())))
             : "none";
}

std::string RunStart::text() const {
  return is_resumed() ? fmt::format("step {} of {}", step(), checkpoint_->path()) : "";
}

void RunStart::require_same_training(const PlannedJob& planned, const RunArguments& arguments,
                                     std::uint64_t seed, const std::string& data_hash,
                                     const Console& console) const {
  if (!is_resumed()) return;
  const std::string file = checkpoint_->path() + "/" + kManifestFile;
  const std::string kind(to_string(planned.job.optimizer.kind));
  require(facts().model_hash == planned.plan.model_hash, ErrorCode::kCheckpoint,
          "{}: the checkpoint is of another model, {} (hash {}), not {} (hash {})", file,
          facts().model, facts().model_hash, name_of(planned.job.model), planned.plan.model_hash);
  require(facts().optimizer_kind == kind, ErrorCode::kCheckpoint,
          "{}: the checkpoint was trained with {}, not with {}: their states differ", file,
          facts().optimizer_kind, kind);
  require(facts().seed == seed, ErrorCode::kUsage,
          "--seed {}: the checkpoint was trained with --seed {}, which names its samples", seed,
          facts().seed);
  require(arguments.steps > step(), ErrorCode::kUsage,
          "--steps {}: {} has {} trained steps, and --steps counts the whole training: it must be "
          "more",
          arguments.steps, checkpoint_->path(), step());
  note_if_other("optimizer", facts().optimizer, to_string(planned.job.optimizer), console);
  note_if_other("global batch", std::to_string(facts().global_batch),
                std::to_string(planned.plan.global_batch), console);
  note_if_other("data (hash)", facts().data, data_hash, console);
}

void RunStart::require_same_batch(std::int64_t global_batch) const {
  require(!is_resumed() || facts().global_batch == global_batch, ErrorCode::kUsage,
          "--global-batch {}: the checkpoint was trained with {}, on which last_batch=drop and "
          "last_batch=pad depend; with last_batch=wrap it may change",
          global_batch, facts().global_batch);
}

void RunStart::require_states(const PhysicalGraph& graph) const {
  if (is_resumed()) sextant::require_states(*checkpoint_, graph);
}

void RunStart::load(const PhysicalGraph& graph, const std::vector<Device*>& devices) const {
  if (!is_resumed()) return;
  with_way_out(before_, [&] {
    load_states(*checkpoint_, graph, writing_to(devices),
                [&](Rank rank) { return devices[rank.index()] != nullptr; });
  });
}

}  // namespace sextant
