// Ranks copy, the last of them hands over, the writer writes.
#include "cli/runs/run_checkpoints.h"

#include "compiler/training/optimizer_options.h"
#include "core/base/check.h"
#include "core/base/units.h"
#include "core/text/counted_text.h"
#include "io/checkpoints/checkpoint_folder.h"
#include "io/checkpoints/state_copies.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>

namespace sextant {
namespace {

TrainingFacts facts_of(const PhysicalGraph& graph, const PlannedJob& planned,
                       const CommonOptions& common, const RunStart& start, std::string data_hash) {
  return {.step = start.step(),
          .samples = start.samples(),
          .seed = common.seed,
          .model = name_of(planned.job.model),
          .model_hash = planned.plan.model_hash,
          .optimizer = to_string(planned.job.optimizer),
          .optimizer_kind = std::string(to_string(planned.job.optimizer.kind)),
          .strategy = to_string(planned.plan.strategy),
          .plan_hash = graph.header.plan_hash,
          .devices = planned.plan.strategy.ranks(),
          .global_batch = planned.plan.global_batch,
          .data = std::move(data_hash)};
}

std::string waiting_text(double seconds) { return to_text(duration_from_seconds(seconds)); }

}  // namespace

void require_checkpoint_options(const RunArguments& arguments, bool are_several_processes) {
  const bool saves = !arguments.checkpoint.empty();
  require(saves || (!arguments.checkpoint_every && !arguments.keep), ErrorCode::kUsage,
          "--checkpoint-every and --keep say how --checkpoint FOLDER is filled; it is missing");
  require(arguments.checkpoint_every.value_or(1) > 0, ErrorCode::kUsage,
          "--checkpoint-every must be positive, not {}", arguments.checkpoint_every.value_or(1));
  require(arguments.keep.value_or(1) > 0, ErrorCode::kUsage, "--keep must be positive, not {}",
          arguments.keep.value_or(1));
  const bool resumes = !arguments.resume.empty(), begins = !arguments.weights.empty();
  require(!resumes || !begins, ErrorCode::kUsage,
          "--weights {} with --resume {}: a training that goes on has its weights",
          arguments.weights, arguments.resume);
  if (!saves && !resumes && !begins) return;
  const char* option = saves ? "--checkpoint" : resumes ? "--resume" : "--weights";
  require(arguments.backend == "cpu", ErrorCode::kUsage,
          "{} with --backend {}: only CPU ranks load and save states in this version", option,
          arguments.backend);
  require(!are_several_processes, ErrorCode::kUsage,
          "{} in several processes: only ranks of one process load and save states in this version",
          option);
}

std::unique_ptr<FolderLock> lock_present_folder(const RunArguments& arguments) {
  return std::filesystem::is_directory(arguments.checkpoint)
             ? std::make_unique<FolderLock>(arguments.checkpoint)
             : nullptr;
}

void require_checkpoint_folder(const RunArguments& arguments, std::int64_t step) {
  if (arguments.checkpoint.empty()) return;
  require_writable("--checkpoint", arguments.checkpoint + "/" + kManifestFile);
  const std::vector<FoundCheckpoint> found = checkpoints_in(arguments.checkpoint);
  if (found.empty() || found.back().step <= step) return;
  throw Error(
      ErrorCode::kUsage,
      fmt::format("--checkpoint {}: has a checkpoint of step {}, and this run begins at step {}: "
                  "it would stay the last one",
                  arguments.checkpoint, found.back().step, step),
      {"another folder", fmt::format("--resume {}, to go on from it", arguments.checkpoint)});
}

RunCheckpoints::RunCheckpoints(const PhysicalGraph& graph, const PlannedJob& planned,
                               const RunArguments& arguments, const CommonOptions& common,
                               const RunStart& start, std::string data_hash,
                               std::unique_ptr<FolderLock> lock)
    : planned_(planned),
      arguments_(arguments),
      facts_(facts_of(graph, planned, common, start, std::move(data_hash))),
      pieces_(is_wanted() ? pieces_to_save(graph) : std::vector<std::vector<StateRegister>>()),
      lock_(std::move(lock)),
      writer_([this](const CheckpointContents& contents, const StopWriting& stop) {
        write(contents, stop);
      }) {
  if (is_wanted() && !lock_) lock_ = std::make_unique<FolderLock>(arguments.checkpoint);
}

std::int64_t RunCheckpoints::next(std::int64_t steps) const {
  if (!arguments_.checkpoint_every) return std::numeric_limits<std::int64_t>::max();
  const std::int64_t every = *arguments_.checkpoint_every;
  const std::int64_t before = steps - steps % every;
  const bool is_far = before > std::numeric_limits<std::int64_t>::max() - every;
  return is_far ? std::numeric_limits<std::int64_t>::max() : before + every;
}

TrainingFacts RunCheckpoints::facts_at(std::int64_t step) const {
  TrainingFacts facts = facts_;
  facts.samples += (step - facts.step) * facts.global_batch;
  facts.step = step;
  return facts;
}

void RunCheckpoints::at(Rank rank, Device& device, std::int64_t steps) {
  const double begin_s = wall_seconds();
  writer_.wait_until_idle();
  std::vector<SavedPiece> pieces = copied_pieces(
      pieces_[rank.index()], [&](const StateRegister& state, std::span<std::byte> to) {
        device.read_state(state.instance, state.reg, to);
      });
  std::unique_lock lock(mutex_);
  Pending& pending = pending_[steps];
  pending.ranks.resize(pieces_.size());
  pending.ranks[rank.index()] = std::move(pieces);
  pending.wait_s = std::max(pending.wait_s, wall_seconds() - begin_s);
  if (++pending.arrived < pieces_.size()) return;
  CheckpointContents contents{facts_at(steps), to_json_text(planned_.plan),
                              std::move(pending.ranks)};
  wait_s_[steps] = pending.wait_s;
  pending_.erase(steps);
  lock.unlock();
  writer_.begin(std::move(contents));
}

void RunCheckpoints::write(const CheckpointContents& contents, const StopWriting& stop) {
  const double begin_s = wall_seconds();
  const WrittenCheckpoint written = write_checkpoint(storage_, arguments_.checkpoint, contents,
                                                     arguments_.keep.value_or(0), stop);
  const std::lock_guard lock(mutex_);
  const std::int64_t step = contents.facts.step;
  saved_.push_back({step, written.path, written.bytes, wait_s_[step], wall_seconds() - begin_s});
}

void RunCheckpoints::say(const Console& console) const {
  const std::lock_guard lock(mutex_);
  if (saved_.empty()) return;
  const Saved& last = saved_.back();
  console.say(fmt::format("{}, the last {}: {}, ranks waited {}, written in {}; go on: --resume {}",
                          counted(saved_.size(), "checkpoint"), last.path,
                          to_text(Bytes(last.bytes)), waiting_text(last.wait_s),
                          waiting_text(last.write_s), arguments_.checkpoint));
}

nlohmann::ordered_json RunCheckpoints::document() const {
  const std::lock_guard lock(mutex_);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Saved& saved : saved_)
    list.push_back({{"step", saved.step},
                    {"path", saved.path},
                    {"bytes", saved.bytes},
                    {"wait_s", saved.wait_s},
                    {"write_s", saved.write_s}});
  return list;
}

}  // namespace sextant
