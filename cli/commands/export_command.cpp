// `sextant export`: initial weights and samples of a run as safetensors, so that another framework
// trains from the same bits.
#include "cli/dry_run.h"
#include "cli/signals.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "io/exchange.h"
#include "io/open_data.h"
#include "io/safetensors.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>

namespace sextant {
namespace {

struct ExportArguments {
  JobArguments job;
  DataOptions data;  // no path: weights alone
  std::int64_t steps = 20;
};

// What `write` writes to `path`, of which a signal leaves nothing.
template <typename Write>
auto written_whole(const std::string& path, const Write& write) {
  const RemovedBySignal removed(unfinished_path(path));
  return write();
}

void run_export(const ExportArguments& arguments, const CommonOptions& common, Console& console) {
  require(!common.out.empty(), ErrorCode::kUsage, "--out FOLDER is needed: where the files go");
  require(arguments.steps > 0, ErrorCode::kUsage, "--steps must be positive, not {}",
          arguments.steps);
  require_results_folder(common, {"weights.safetensors"});
  if (!arguments.data.path.empty()) require_results_folder(common, {"samples.safetensors"});
  const PlannedJob planned = load_planned_job(arguments.job);
  const Plan& plan = planned.plan;
  if (common.dry_run) {
    std::vector<std::string> files = {"weights.safetensors"};
    if (!arguments.data.path.empty()) {
      open_tokens(arguments.data);  // readable
      files.emplace_back("samples.safetensors");
    }
    return say_dry_run("export", fmt::format("export {}", name_of(planned.job.model)),
                       in_results(common, files), console);
  }
  std::filesystem::create_directories(common.out);
  const std::string weights = common.out + "/weights.safetensors";
  const LogicalGraph forward =
      build_graph(planned.job.model, plan.global_batch, plan.sequence, planned.job.dtype);
  const std::int64_t elements =
      written_whole(weights, [&] { return write_initial_weights(weights, forward, common.seed); });
  console.say(fmt::format("{} parameters in {}", elements, weights));
  nlohmann::ordered_json document = {{"parameters", elements}, {"weights", weights}};
  if (!arguments.data.path.empty()) {
    const std::string samples = common.out + "/samples.safetensors";
    const std::unique_ptr<TokenData> data = open_tokens(arguments.data);
    written_whole(samples, [&] {
      write_samples(
          samples, *data,
          {common.seed, arguments.steps, plan.global_batch, plan.sequence, token_mask_of(forward)});
    });
    console.say(fmt::format("{} of {} of {} in {}", counted(arguments.steps, "step"),
                            counted(plan.global_batch, "sample"), counted(plan.sequence, "token"),
                            samples));
    document["samples"] = samples;
  }
  console.document("export", document);
}

}  // namespace

Verb export_verb() {
  const auto arguments = std::make_shared<ExportArguments>();
  ExportArguments& a = *arguments;
  return {.path = "export",
          .text = "Weights and samples of a run, for other programs",
          .examples =
              "Examples:\n  sextant export plan.json --data text.txt --steps 200 --seed 3 --out "
              "exchange\n"
              "  sextant export gpt2-124m -c cpu:ranks=1 --strategy dp=1 --global-batch 1 --out "
              "weights\n"
              "Writes weights.safetensors, what a run with this seed starts from, and with --data\n"
              "  samples.safetensors, what it reads: tokens and labels, [steps, global batch, "
              "sequence]",
          .options = joined(job_options(a.job, true),
                            {
                                {"--data", &a.data.path, "text, token file or folder of them"},
                                {"--data-format", &a.data.format, "as run has it"},
                                {"--data-order", &a.data.order, "as run has it"},
                                {"--steps", &a.steps, "optimizer steps"},
                            }),
          .action = [arguments](const CommonOptions& common,
                                Console& console) { run_export(*arguments, common, console); },
          .is_seeded = true,
          .writes_results = true,
          .has_dry_run = true};
}

}  // namespace sextant
