// `sextant export`: initial weights and samples of a run as safetensors, so that another framework
// trains from the same bits.
#include "cli/verbs.h"
#include "core/check.h"
#include "core/counted_text.h"
#include "io/exchange.h"
#include "io/token_data.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <filesystem>

namespace sextant {

void run_export(const ExportArguments& arguments, const CommonOptions& common, Console& console) {
  require(!common.out.empty(), ErrorCode::kUsage, "--out FOLDER is needed: where the files go");
  require(arguments.steps > 0, ErrorCode::kUsage, "--steps must be positive, not {}",
          arguments.steps);
  require_results_folder(common, {"weights.safetensors"});
  if (!arguments.data.empty()) require_results_folder(common, {"samples.safetensors"});
  const PlannedJob planned = load_planned_job(arguments.job);
  const Plan& plan = planned.plan;
  std::filesystem::create_directories(common.out);
  const std::string weights = common.out + "/weights.safetensors";
  const std::int64_t elements = write_initial_weights(
      weights, build_graph(planned.job.model, plan.global_batch, plan.sequence, planned.job.dtype),
      common.seed);
  console.say(fmt::format("{} parameters in {}", elements, weights));
  nlohmann::ordered_json document = {{"parameters", elements}, {"weights", weights}};
  if (!arguments.data.empty()) {
    const std::string samples = common.out + "/samples.safetensors";
    write_samples(samples, TokenData::from_path(arguments.data),
                  {common.seed, arguments.steps, plan.global_batch, plan.sequence});
    console.say(fmt::format("{} of {} of {} in {}", counted(arguments.steps, "step"),
                            counted(plan.global_batch, "sample"), counted(plan.sequence, "token"),
                            samples));
    document["samples"] = samples;
  }
  console.document("export", document);
}

}  // namespace sextant
