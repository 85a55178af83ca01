// Copies of ranks begin, the last of them hands over, the writer waits for them and writes.
#include "cli/training/run_checkpoints.h"

#include "compiler/training/optimizer_options.h"
#include "core/base/check.h"
#include "core/base/units.h"
#include "core/text/counted_text.h"
#include "io/checkpoints/checkpoint_folder.h"
#include "io/checkpoints/checkpoint_writer.h"
#include "io/checkpoints/manifest.h"
#include "io/checkpoints/state_copies.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
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

void require_checkpoint_options(const RunArguments& arguments) {
  const bool saves = !arguments.checkpoint.empty();
  require(saves || (!arguments.checkpoint_every && !arguments.keep), ErrorCode::kUsage,
          "--checkpoint-every and --keep say how --checkpoint FOLDER is filled; it is missing");
  require(arguments.checkpoint_every.value_or(1) > 0, ErrorCode::kUsage,
          "--checkpoint-every must be positive, not {}", arguments.checkpoint_every.value_or(1));
  require(arguments.keep.value_or(1) > 0, ErrorCode::kUsage, "--keep must be positive, not {}",
          arguments.keep.value_or(1));
  require(arguments.resume.empty() || arguments.weights.empty(), ErrorCode::kUsage,
          "--weights {} with --resume {}: a training that goes on has its weights",
          arguments.weights, arguments.resume);
}

std::unique_ptr<FolderLock> lock_present_folder(const RunArguments& arguments) {
  return std::filesystem::is_directory(arguments.checkpoint)
             ? std::make_unique<FolderLock>(arguments.checkpoint)
             : nullptr;
}

std::unique_ptr<FolderLock> lock_folder(const RunArguments& arguments,
                                        std::unique_ptr<FolderLock> present,
                                        RunProcesses& processes) {
  if (arguments.checkpoint.empty()) return present;
  std::unique_ptr<FolderLock> lock = std::move(present);
  processes.agree_after([&] {
    if (!processes.is_first()) return;
    if (!lock) lock = std::make_unique<FolderLock>(arguments.checkpoint);
    if (processes.are_several()) lock->share();
  });
  processes.agree_after([&] {
    if (!processes.is_first())
      lock = std::make_unique<FolderLock>(FolderLock::beside(arguments.checkpoint));
  });
  return lock;
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
                               std::unique_ptr<FolderLock> lock, RunProcesses& processes)
    : planned_(planned),
      arguments_(arguments),
      facts_(facts_of(graph, planned, common, start, std::move(data_hash))),
      pieces_(is_wanted() ? pieces_to_save(graph) : std::vector<std::vector<StateRegister>>()),
      lock_(std::move(lock)),
      writer_([this](const CheckpointContents& contents, const StopWriting& stop) {
        write(contents, stop);
      }) {
  if (!is_wanted() || !processes.are_several()) return;
  shared_.emplace(processes.group(), storage_, [this](const Error& error) {
    const std::lock_guard guard(mutex_);
    common_failure_ = error;
  });
}

void RunCheckpoints::prepare(const std::vector<Device*>& devices) {
  if (!is_wanted()) return;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    copies_.push_back(nullptr);
    if (devices[rank] == nullptr) continue;
    ++num_here_;
    std::vector<StateToCopy> states;
    for (const StateRegister& state : pieces_[rank])
      states.push_back({state.instance, state.reg, size_of_box(state)});
    copies_.back() = devices[rank]->make_state_copies(std::move(states));
  }
}

std::optional<Error> RunCheckpoints::common_failure() const {
  const std::lock_guard lock(mutex_);
  return common_failure_;
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

CheckpointContents RunCheckpoints::contents_at(std::int64_t step) const {
  CheckpointContents contents{facts_at(step), to_json_text(planned_.plan), {}};
  contents.ranks.resize(pieces_.size());
  for (std::size_t rank = 0; rank < pieces_.size(); ++rank)
    if (const auto& copies = copies_[rank])
      contents.ranks[rank] = saved_pieces(
          pieces_[rank], [&](std::size_t state) { return copies->bytes(state); }, copies);
  return contents;
}

// A step of a rank with states is over when all such ranks have come to it: updates wait for
// gradients of all. Else its copies would take the place of those that are still to be written.
void RunCheckpoints::require_turn(Rank rank, std::int64_t steps) const {
  const std::lock_guard lock(mutex_);
  const bool is_ahead = !pending_.empty() && pending_.begin()->first < steps;
  require(pieces_[rank.index()].empty() || !is_ahead, ErrorCode::kInternal,
          "rank {} comes to the checkpoint of step {} before all came to that of step {}",
          rank.value, steps, is_ahead ? pending_.begin()->first : steps);
}

void RunCheckpoints::at(Rank rank, Device& /*device*/, std::int64_t steps) {
  const double begin_s = wall_seconds();
  writer_.wait_until_idle();
  require_turn(rank, steps);
  copies_[rank.index()]->begin();
  {
    const std::lock_guard lock(mutex_);
    Pending& pending = pending_[steps];
    pending.wait_s = std::max(pending.wait_s, wall_seconds() - begin_s);
    if (++pending.arrived < num_here_) return;
    wait_s_[steps] = pending.wait_s;
    pending_.erase(steps);
  }
  writer_.begin(contents_at(steps));
}

void RunCheckpoints::write(const CheckpointContents& contents, const StopWriting& stop) {
  const double begin_s = wall_seconds();
  for (const std::shared_ptr<StateCopies>& copies : copies_)
    if (copies) copies->wait();
  const std::int64_t keep = arguments_.keep.value_or(0);
  const WrittenCheckpoint written =
      shared_ ? shared_->write(arguments_.checkpoint, contents, keep, stop)
              : write_checkpoint(storage_, arguments_.checkpoint, contents, keep, stop);
  const std::lock_guard lock(mutex_);
  const std::int64_t step = contents.facts.step;
  const auto waited = wait_s_.extract(step);
  saved_.push_back({step, written.path, written.bytes, waited.empty() ? 0.0 : waited.mapped(),
                    wall_seconds() - begin_s});
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
