// `sextant experiment pytorch`: the experiment of that name, with where its script is as options.
#include "cli/runs/experiment_run.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "experiments/pytorch/pytorch.h"

#include <memory>

namespace sextant {
namespace {

struct PytorchArguments {
  pytorch::Bench bench;
  SweepChoice choice;
};

}  // namespace

Verb experiment_pytorch_verb() {
  const auto arguments = std::make_shared<PytorchArguments>();
  pytorch::Bench& bench = arguments->bench;
  return {.path = "experiment pytorch",
          .text = "How long are steps on GPUs beside PyTorch's on the same cards?",
          .examples =
              "Examples:\n  sextant experiment pytorch --out e10\n"
              "  sextant experiment pytorch --point medium-16x1024 --point-limit 10min --out e10",
          .options = joined(
              {
                  {"--bench", &bench.script, "script that measures both sides"},
                  {"--peer", &bench.peer, "PyTorch program for rows of GPT-2"},
                  {"--build", &bench.build, "folder of a CUDA build (the script's)"},
                  {"--logs", &bench.logs, "folder that keeps what the script leaves"},
              },
              sweep_options(arguments->choice)),
          .action =
              [arguments](const CommonOptions& common, Console& console) {
                run_experiment_verb(pytorch::experiment(arguments->bench), arguments->choice,
                                    common, console);
              },
          .writes_results = true,
          .has_dry_run = true};
}

}  // namespace sextant
