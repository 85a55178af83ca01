// `sextant experiment data-pipeline`: the experiment of that name, with what it trains as options.
#include "backends/cpu/machine_load.h"
#include "cli/runs/experiment_run.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "experiments/data_pipeline/data_pipeline.h"

#include <memory>

namespace sextant {
namespace {

struct DataPipelineArguments {
  data_pipeline::Question question;
  SweepChoice choice;
};

void run_data_pipeline(const DataPipelineArguments& arguments, const CommonOptions& common,
                       Console& console) {
  const LoadWatch watch;
  run_experiment_verb(data_pipeline::experiment(arguments.question), arguments.choice, common,
                      console);
  if (const auto load = watch.load(); load && !load->is_quiet() && !common.dry_run)
    console.note(busy_text(*load) + " meanwhile: differences of a few percent say little");
}

}  // namespace

Verb experiment_data_pipeline_verb() {
  const auto arguments = std::make_shared<DataPipelineArguments>();
  data_pipeline::Question& q = arguments->question;
  return {
      .path = "experiment data-pipeline",
      .text = "Does a step wait for its images?",
      .examples =
          "Examples:\n  sextant experiment data-pipeline --out e1\n"
          "  sextant experiment data-pipeline --quick --model "
          "conv:blocks=1x1,channels=8x16,height=32,width=32\n"
          "  sextant experiment data-pipeline --backend cuda --model resnet50 --batch 256 "
          "--pictures 1024",
      .options = joined(
          {
              {"--model", &q.model, "one that reads images"},
              {"--batch", &q.batch, "images of a step"},
              {"--steps", &q.steps, "of a loader, two of them warm-up"},
              {"--rounds", &q.rounds, "of a loader and synthetic data in turn"},
              {"--pictures", &q.pictures, "JPEGs of each size"},
              {"--backend", &q.backend, "cpu, cuda: the first GPU"},
          },
          sweep_options(arguments->choice)),
      .action = [arguments](const CommonOptions& common,
                            Console& console) { run_data_pipeline(*arguments, common, console); },
      .writes_results = true,
      .has_dry_run = true,
      .shares_processes = true};
}

}  // namespace sextant
