// Options are compared as one text, with the defaults that apply.
#include "cli/training/common_facts.h"

#include "cli/training/run_backend.h"
#include "compiler/expand/plan.h"
#include "core/base/error.h"

#include <fmt/core.h>

#include <string>
#include <vector>

namespace sextant {
namespace {

// As they were given; empty: none.
std::string checkpoint_options(const RunArguments& arguments) {
  std::string text;
  if (!arguments.checkpoint.empty()) text += " --checkpoint " + arguments.checkpoint;
  if (arguments.checkpoint_every)
    text += fmt::format(" --checkpoint-every {}", *arguments.checkpoint_every);
  if (arguments.keep) text += fmt::format(" --keep {}", *arguments.keep);
  if (!arguments.resume.empty()) text += " --resume " + arguments.resume;
  return text;
}

// What the processes of a run must have in common.
std::vector<CommonFact> common_facts(const PlannedJob& planned, const RunArguments& arguments,
                                     const CommonOptions& common) {
  const RunArguments& a = arguments;
  const std::string options = fmt::format(
      "--steps {} --seed {} --queues {} --kernels {} --profile {} --timeout {} --learning-rate {}"
      "{}{}",
      a.steps, common.seed, a.queues.empty() ? kDefaultQueues : a.queues,
      a.kernels.empty() ? kDefaultKernels : a.kernels, a.profile, a.timeout_s,
      planned.job.optimizer.learning_rate, a.record.empty() ? "" : " --record",
      checkpoint_options(a));
  const std::string dry = common.dry_run ? " --dry-run" : "";
  return {{"build", build_hash(), ErrorCode::kDevice},
          {"plan", text_hash(to_json_text(planned.plan))},
          {"model", planned.plan.model_hash},
          {"options", options + dry, ErrorCode::kUsage}};
}

}  // namespace

void require_common_run(const PlannedJob& planned, const RunArguments& arguments,
                        const CommonOptions& common, RunProcesses& processes) {
  if (!processes.are_several()) return;
  processes.require_common(common_facts(planned, arguments, common));
  std::vector<CommonFact> of_devices;
  processes.agree_after([&] { of_devices = common_facts_of_devices(arguments); });
  processes.require_common(of_devices);
}

std::optional<ArenaRoom> common_room(std::optional<ArenaRoom> room, RunProcesses& processes) {
  if (room) room->capacity = Bytes(processes.least(room->capacity.value));
  return room;
}

}  // namespace sextant
