// The command line: verbs, options, exit codes.
#include "cli/launched.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/base/nearest.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

namespace {

using namespace sextant;

// CLI11 calls the verb after parsing; everything it fills lives until then.
struct Program {
  CLI::App app{"Sextant: finds, simulates, explains and runs parallel training plans"};
  CommonOptions common;
  SearchArguments search;
  SimulateArguments simulate;
  ExplainArguments explain;
  ExportArguments exported;
  BoxingArguments boxing;
  JobArguments check;
  RunArguments run;
  CompareArguments compare;
  AccuracyArguments accuracy;
  ModelShowArguments model_show;
  std::string cluster_show, strategy_show;
  ClusterBenchArguments cluster_bench;
  ClusterDetectArguments cluster_detect;
  ClusterImportArguments cluster_import;
  std::string verb_name;
  std::function<void(Console&)> verb;
};

// All verbs take --seed and --out; for these they mean something.
constexpr std::string_view kSeeded[] = {"simulate", "run", "export"};
// What processes of a launcher share; all else is done once.
constexpr std::string_view kShared[] = {"search", "run", "accuracy"};
constexpr std::string_view kWriting[] = {"search", "run", "export", "bench", "accuracy"};

const char* const kMainFooter =
    "Examples:\n"
    "  sextant search llama2-7b -c dgx-h100:nodes=2 --global-batch 64 --out plans\n"
    "  sextant simulate plans/plan.json --trace trace.json\n"
    "Exit codes: 0 ok, 1 bug, 2 usage, 3 bad input file, 4 no feasible plan, 5 device,\n"
    "  6 a rank failed, 7 verification, 8 checkpoint, 130/143 signals";

void add_common(CLI::App& verb, CommonOptions& common) {
  verb.add_flag("--json", common.json, "one JSON document on standard output")
      ->envname("SEXTANT_JSON");
  verb.add_flag("-q,--quiet", common.quiet, "no text for people")->envname("SEXTANT_QUIET");
  verb.add_option("--seed", common.seed, "of weights, samples, jitter")->envname("SEXTANT_SEED");
  verb.add_option("--out", common.out, "folder for results")->envname("SEXTANT_OUT");
  verb.add_flag("--overwrite", common.overwrite, "replace the results that are in it");
}

void add_job(CLI::App& verb, JobArguments& job, bool with_strategy) {
  verb.add_option(with_strategy ? "plan" : "model", job.plan_or_model,
                  with_strategy ? "plan file, or MODEL with -c, --strategy, --global-batch"
                                : "file, built-in name or gpt:layers=..,hidden=..,...")
      ->required();
  verb.add_option("-c,--cluster", job.cluster, "file or dgx-h100:nodes=N, cpu:ranks=N, ...")
      ->envname("SEXTANT_CLUSTER");
  verb.add_option("--global-batch", job.global_batch, "samples per optimizer step")
      ->envname("SEXTANT_GLOBAL_BATCH");
  verb.add_option("--seq", job.sequence, "tokens per sample (default: the model's)")
      ->envname("SEXTANT_SEQ");
  verb.add_option("--dtype", job.dtype, "f32, bf16, f16, f64 (default: the device's best)")
      ->envname("SEXTANT_DTYPE");
  verb.add_option("--optimizer", job.optimizer,
                  "\"adamw lr=3e-4 warmup=100 schedule=cosine steps=1000 clip=1\"; sgd, momentum, "
                  "adamw, lamb")
      ->envname("SEXTANT_OPTIMIZER");
  if (!with_strategy) return;
  verb.add_option("--strategy", job.strategy,
                  "\"dp=2 tp=4 pp=2 micro_batch=1 schedule=1f1b zero=1\"; all settings: "
                  "sextant strategy show")
      ->envname("SEXTANT_STRATEGY");
}

CLI::App& add_verb(CLI::App& parent, Program& program, const char* name, const char* text,
                   const char* examples, std::function<void(Console&)> action) {
  CLI::App& verb = *parent.add_subcommand(name, text);
  verb.footer(examples);
  add_common(verb, program.common);
  verb.callback([&program, name, action = std::move(action)] {
    program.verb_name = name;
    program.verb = action;
  });
  return verb;
}

void add_search(Program& p) {
  CLI::App& verb = add_verb(
      p.app, p, "search", "Find the best plans",
      "Examples:\n  sextant search llama2-7b -c dgx-h100:nodes=2 --global-batch 64 --out plans\n"
      "  sextant search gpt.json -c cpu:ranks=4 --global-batch 16 --fix tp=1",
      [&p](Console& console) { run_search(p.search, p.common, console); });
  add_job(verb, p.search.job, false);
  verb.add_option("--memory", p.search.memory, "per device (default: the device's), 64GiB");
  verb.add_option("--fix", p.search.fixed, "only strategies with this value, tp=4; they add up")
      ->allow_extra_args(false);
  verb.add_option("--forbid", p.search.forbidden,
                  "no strategies with this value, zero=3; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--top", p.search.top, "plans to show");
  verb.add_flag(
      "--pareto", p.search.pareto,
      "plans that no other one beats in step time and memory; ends after 24 plans in a row "
      "that add none, or at --time-limit");
  verb.add_flag("--sensitivity", p.search.sensitivity,
                "which change of a link, of memory or of the batch makes another plan win; comes "
                "after --time-limit");
  verb.add_option(
          "--time-limit", p.search.time_limit,
          "search so long, 30s (default: to a gap of 1 %, or until 24 plans in a row are no "
          "better)")
      ->envname("SEXTANT_TIME_LIMIT");
  verb.add_option("--words-problem", p.search.words_problem,
                  "no search: write which words operators take on the mesh of --fix, FILE.lp");
}

void add_simulate(Program& p) {
  CLI::App& verb = add_verb(
      p.app, p, "simulate", "Where the step of a plan goes",
      "Examples:\n  sextant simulate plan.json --trace trace.json.gz --timeline step.html\n"
      "  sextant simulate gpt3-175b -c dgx-a100:nodes=128 --strategy \"dp=16 tp=8 pp=8\" "
      "--global-batch 1536",
      [&p](Console& console) { run_simulate(p.simulate, p.common, console); });
  add_job(verb, p.simulate.job, true);
  verb.add_option(
      "--trace", p.simulate.trace,
      "write a Chrome trace, or FILE.pftrace for Perfetto alone; FILE.gz is compressed");
  verb.add_option("--timeline", p.simulate.timeline, "write the step as one HTML page");
  verb.add_option("--replay", p.simulate.replay,
                  "repeat a run that run --record wrote, on the virtual clock");
  verb.add_option("--what-if", p.simulate.what_if,
                  "the same plan with a changed number: link.ib.bandwidth=2x, gpu.flops=1.5x, "
                  "host.launch=2us; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--sweep", p.simulate.sweep,
                  "the same over a range: link.ib.bandwidth=0.25x..4x");
  verb.add_option("--plot", p.simulate.plot, "write the sweep as SVG");
  verb.add_flag("--memory", p.simulate.memory, "by stage and class, over the step, largest owners");
  verb.add_flag("--unfolded", p.simulate.unfolded, "every rank, not one per class");
  verb.add_option(
          "--mode", p.simulate.mode,
          "tape: one pass over the recorded step (default); block, step: the same by layers, or "
          "by actors (slow); timed: links are shared, kernels and communications slow each "
          "other")
      ->check(CLI::IsMember({"tape", "block", "step", "timed"}));
  verb.add_flag("--critical-path", p.simulate.critical_path,
                "the chain of launches that bounds the step, and the slack of the others");
  verb.add_flag("--operators", p.simulate.operators, "what each operator takes, the longest first");
  verb.add_flag("--links", p.simulate.links, "what each link carries, the busiest first");
  verb.add_option("--routing", p.simulate.routing,
                  "tokens to experts: uniform, zipf=1.1 or a file, one number per expert; empty "
                  "places cost nothing");
  verb.add_option("--jitter", p.simulate.jitter, "relative deviation of compute times");
  verb.add_option("--samples", p.simulate.samples, "steps under --jitter: quantiles of their time");
  verb.add_option("--straggler", p.simulate.stragglers,
                  "a rank whose kernels take longer, 5=1.2x; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--failures", p.simulate.failures,
                  "what long runs keep: \"mtbf=50000h checkpoint=60s restart=5min every=30min\"");
}

void add_explain(Program& p) {
  CLI::App& verb = add_verb(p.app, p, "explain", "What a plan moves between devices, and why",
                            "Examples:\n  sextant explain plan.json --why-not tp=8\n"
                            "  sextant explain plan.json layer1.attention\n"
                            "  sextant explain plan.json --graphviz plan.dot",
                            [&p](Console& console) { run_explain(p.explain, p.common, console); });
  add_job(verb, p.explain.job, true);
  verb.add_option("name", p.explain.name, "part of an operator's or tensor's name");
  verb.add_option("--why-not", p.explain.why_not, "compare with the best plan that has tp=8, ...");
  verb.add_option("--dump", p.explain.dump, "staged: every operator with its words");
  verb.add_option("--graphviz", p.explain.graphviz,
                  "write the staged graph for `dot`: stages as clusters, boxing marked");
}

void add_boxing(Program& p) {
  CLI::App& verb = add_verb(
      p.app, p, "boxing", "How a tensor gets from one layout to another, and the ways that lost",
      "Examples:\n"
      "  sextant boxing \"(S(0),B)@[dp=2,tp=2]\" \"(B,S(1))@[dp=2,tp=2]\" --shape 5x7 --dtype "
      "bf16\n"
      "  sextant boxing \"P@[x=8]\" \"B@[y=8]{8-15}\" --shape 4096x4096 -c dgx-h100:nodes=2 "
      "--json\n"
      "Words on a placement: (S(0), B)@[dp=2, tp=2], one word per mesh axis: S(dim), B,\n"
      "  P(sum|max|min). Devices are 0, 1, 2, ... unless listed behind: {4-7} or {0, 2, 1, 3}",
      [&p](Console& console) { run_boxing(p.boxing, p.common, console); });
  verb.add_option("from", p.boxing.from, "words on a placement")->required();
  verb.add_option("to", p.boxing.to, "words on a placement")->required();
  verb.add_option("--shape", p.boxing.shape, "of the whole tensor, 5x7; () for a scalar")
      ->required();
  verb.add_option("--dtype", p.boxing.dtype, "of its elements (default: f32)")
      ->envname("SEXTANT_DTYPE");
  verb.add_option("--to-dtype", p.boxing.to_dtype,
                  "of its elements afterwards (default: the same)");
  verb.add_option("--reduce-dtype", p.boxing.reduce_dtype,
                  "in which reductions run (default: the wider of both)");
  verb.add_option("-c,--cluster", p.boxing.cluster, "file or dgx-h100:nodes=N, cpu:ranks=N, ...")
      ->envname("SEXTANT_CLUSTER");
  verb.add_option("--objective", p.boxing.objective,
                  "time or bytes (default: time with a cluster, else bytes)");
  verb.add_option("--top", p.boxing.top, "ways that lost to show");
  verb.add_flag("--pairs", p.boxing.pairs, "bytes from device to device");
}

void add_check(Program& p) {
  CLI::App& verb =
      add_verb(p.app, p, "check", "Prove that a plan is whole, fits and cannot deadlock",
               "Examples:\n  sextant check plan.json\n"
               "  sextant check gpt2-124m -c dgx-h100:nodes=1 --strategy \"pp=4 schedule=zb-h1\" "
               "--global-batch 8",
               [&p](Console& console) { run_check(p.check, p.common, console); });
  add_job(verb, p.check, true);
}

void add_run(Program& p) {
  CLI::App& verb = add_verb(p.app, p, "run", "Train with a plan",
                            "Examples:\n  sextant run plan.json --data text.txt --steps 50 --out "
                            "run\n"
                            "  sextant run plan.json --backend cuda --data random --profile 3\n"
                            "  sextant run plan.json --backend cuda --gpus 0,1 --data random\n"
                            "  sextant run plan.json --backend cuda --ranks-per-gpu 4",
                            [&p](Console& console) { run_run(p.run, p.common, console); });
  add_job(verb, p.run.job, true);
  verb.add_option("--backend", p.run.backend, "cpu, cuda");
  verb.add_option("--queues", p.run.queues, "cpu: asynchronous (default), inline, stress");
  verb.add_option("--kernels", p.run.kernels, "cpu: fast (default), reference");
  verb.add_option("--graphs", p.run.graphs,
                  "cuda: a step as one CUDA graph: on (default of one rank), off");
  verb.add_flag("--deterministic", p.run.deterministic, "cuda: the same bits in every run");
  verb.add_option("--matmul-cache", p.run.matmul_cache,
                  "cuda: file that keeps which algorithms were measured to be fast");
  verb.add_option("--gpus", p.run.gpus, "cuda: which ones, as 0,1; default: all");
  verb.add_option("--ranks-per-gpu", p.run.ranks_per_gpu,
                  "cuda: neighbouring ranks that share a GPU (1)");
  verb.add_option("--collectives", p.run.collectives,
                  "cuda: nccl (default where each rank has a GPU), local: ranks pull from each "
                  "other, may share a GPU");
  verb.add_option("--timeout", p.run.timeout_s,
                  "seconds in which something must end while a rank waits for others");
  verb.add_option("--data", p.run.data, "text file or folder of text files; random: uniform ids");
  verb.add_option("--steps", p.run.steps, "optimizer steps");
  verb.add_option("--profile", p.run.profile, "extra steps that time every operator");
  verb.add_option("--record", p.run.record,
                  "cpu: write launches and messages with their times: simulate --replay");
  verb.add_option("--learning-rate", p.run.learning_rate, "instead of the plan's");
}

void add_export(Program& p) {
  CLI::App& verb = add_verb(
      p.app, p, "export", "Weights and samples of a run, for other programs",
      "Examples:\n  sextant export plan.json --data text.txt --steps 200 --seed 3 --out exchange\n"
      "  sextant export gpt2-124m -c cpu:ranks=1 --strategy dp=1 --global-batch 1 --out weights\n"
      "Writes weights.safetensors, what a run with this seed starts from, and with --data\n"
      "  samples.safetensors, what it reads: tokens and labels, [steps, global batch, sequence]",
      [&p](Console& console) { run_export(p.exported, p.common, console); });
  add_job(verb, p.exported.job, true);
  verb.add_option("--data", p.exported.data, "text file or folder of text files");
  verb.add_option("--steps", p.exported.steps, "optimizer steps");
}

void add_compare(Program& p) {
  CLI::App& compare =
      add_verb(p.app, p, "compare", "Predicted beside measured",
               "Examples:\n  sextant compare plan.json run\n  sextant compare plan.json run --json",
               [&p](Console& console) { run_compare(p.compare, p.common, console); });
  compare.add_option("plan", p.compare.plan, "plan file")->required();
  compare
      .add_option("run", p.compare.run,
                  "folder that `run --out` wrote, or file that `run --record` wrote")
      ->required();
  compare.add_option("--trace", p.compare.trace,
                     "of a recording: plan and run in one Chrome trace, side by side");
}

void add_model(Program& p) {
  CLI::App& model = *p.app.add_subcommand("model", "Models");
  model.require_subcommand(1);
  CLI::App& show =
      add_verb(model, p, "show", "Parameters and FLOPs of a model",
               "Examples:\n  sextant model show llama2-7b\n  sextant model show config.json --json",
               [&p](Console& console) { run_model_show(p.model_show, p.common, console); });
  show.add_option("model", p.model_show.model, "file, built-in name or gpt:...")->required();
  show.add_option("--seq", p.model_show.sequence, "tokens per sample (default: the model's)");
}

void add_strategy(Program& p) {
  CLI::App& strategy = *p.app.add_subcommand("strategy", "Strategies");
  strategy.require_subcommand(1);
  CLI::App& show = add_verb(
      strategy, p, "show", "Settings of a strategy: values, defaults, meanings",
      "Examples:\n  sextant strategy show\n  sextant strategy show \"dp=2 pp=4 layers=7,*,*,8\"",
      [&p](Console& console) { run_strategy_show(p.strategy_show, p.common, console); });
  show.add_option("strategy", p.strategy_show, "one to read: what it says, what has no effect");
}

void add_cluster_show(CLI::App& cluster, Program& p) {
  CLI::App& cluster_show = add_verb(
      cluster, p, "show", "Figures of a cluster and where they come from",
      "Examples:\n  sextant cluster show dgx-h100:nodes=4\n  sextant cluster show cpu:ranks=4",
      [&p](Console& console) { run_cluster_show(p.cluster_show, p.common, console); });
  cluster_show.add_option("cluster", p.cluster_show, "file or built-in")->required();
}

void add_cluster_import(CLI::App& cluster, Program& p) {
  CLI::App& imported = add_verb(
      cluster, p, "import", "A file of another program as a cluster file, with what it leaves open",
      "Examples:\n  sextant cluster import topo.xml --base hgx-h200 --nodes 4 -o cluster.json\n"
      "  sextant cluster import all_reduce.json --base cluster.json -o calibrated.json\n"
      "Understood: NCCL topology and graph XML, `nvidia-smi topo -m`, nccl-tests JSON (-J),\n"
      "  ASTRA-sim analytical YAML, Calculon and LLMCompass JSON; -c takes them too",
      [&p](Console& console) { run_cluster_import(p.cluster_import, p.common, console); });
  imported.add_option("file", p.cluster_import.file, "of another program")->required();
  imported.add_option(
      "--base", p.cluster_import.base,
      "cluster with what the file does not say: devices, or the links to calibrate");
  imported.add_option("--nodes", p.cluster_import.nodes, "so many nodes of that kind");
  imported.add_option("-o,--output", p.cluster_import.output,
                      "cluster file to write (default: print it)");
}

void add_cluster_detect(CLI::App& cluster, Program& p) {
  CLI::App& detect = add_verb(
      cluster, p, "detect", "This machine's GPUs and links as a cluster file, nothing measured",
      "Examples:\n  sextant cluster detect -o here.json\n"
      "  sextant cluster detect --base hgx-h200 -o here.json",
      [&p](Console& console) { run_cluster_detect(p.cluster_detect, p.common, console); });
  detect.add_option("--base", p.cluster_detect.base,
                    "cluster with the figures of the GPUs (default: known by their names)");
  detect.add_option("-o,--output", p.cluster_detect.output,
                    "cluster file to write (default: print it)");
}

void add_cluster_bench(CLI::App& cluster, Program& p) {
  CLI::App& bench =
      add_verb(cluster, p, "bench", "Measure this machine's GPUs or CPU: a cluster file",
               "Examples:\n  sextant cluster bench --step gpt2-medium:16x1024 -o h200.json\n"
               "  sextant cluster bench --base hgx-h200:nodes=1 --gpus 0,1 -o two.json\n"
               "  sextant cluster bench --backend cpu --base cpu:ranks=4 -o here.json",
               [&p](Console& console) { run_cluster_bench(p.cluster_bench, p.common, console); });
  bench.add_option("--backend", p.cluster_bench.backend, "cuda (default) or cpu");
  bench.add_option("-o,--output", p.cluster_bench.output,
                   "cluster file to write (or --out: a folder for cluster.json)");
  bench.add_option("--base", p.cluster_bench.base,
                   "what is not measured: peaks, links, counts (dgx-h100:nodes=1; cpu: ranks and "
                   "memory of cpu:ranks=4)");
  bench.add_option("--dtype", p.cluster_bench.dtype, "of products and tensors (bf16; cpu: f32)");
  bench.add_option("--date", p.cluster_bench.date, "when this is: goes into the file (today)");
  bench
      .add_option("--step", p.cluster_bench.steps,
                  "MODEL:BATCHxSEQUENCE, a training step of one device whose launches to "
                  "measure; repeatable")
      ->allow_extra_args(false);
  bench.add_option(
      "--gpus", p.cluster_bench.gpus,
      "cuda: numbers of the GPUs, the first for kernels, all for links (default: all)");
  bench.add_option("--matmul-cache", p.cluster_bench.matmul_cache,
                   "file that keeps which algorithms were measured to be fast");
}

void add_cluster(Program& p) {
  CLI::App& cluster = *p.app.add_subcommand("cluster", "Clusters");
  cluster.require_subcommand(1);
  add_cluster_show(cluster, p);
  add_cluster_import(cluster, p);
  add_cluster_detect(cluster, p);
  add_cluster_bench(cluster, p);
}

void add_experiment(Program& p) {
  CLI::App& experiment = *p.app.add_subcommand("experiment", "Sweeps with a report");
  experiment.require_subcommand(1);
  CLI::App& accuracy =
      add_verb(experiment, p, "accuracy", "Predicted against published and measured runs",
               "Examples:\n  sextant experiment accuracy --out accuracy\n"
               "  sextant experiment accuracy --data FOLDER --group vtrain-multi",
               [&p](Console& console) { run_accuracy(p.accuracy, p.common, console); });
  accuracy.add_option("--data", p.accuracy.data,
                      "folder with the measurements ($SEXTANT_SHARED/data, ../shared/data)");
  accuracy.add_option("--group", p.accuracy.group, "part of a group's name (all)");
}

void add_doctor(Program& p) {
  add_verb(p.app, p, "doctor", "What works on this machine",
           "Examples:\n  sextant doctor\n  sextant doctor --json",
           [&p](Console& console) { run_doctor(p.common, console); });
}

// Names of the verbs, or of the options of the verb that was typed.
std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}
std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// The innermost verb among the arguments, and the first argument that is not one.
struct Typed {
  const CLI::App* app = nullptr;
  std::string next;
};
Typed typed_verb(const CLI::App& app, int argc, char** argv) {
  Typed typed{.app = &app, .next = {}};
  for (int i = 1; i < argc && typed.next.empty(); ++i) {
    const auto verbs = typed.app->get_subcommands(
        [&](const CLI::App* verb) { return verb->get_name() == argv[i]; });
    if (verbs.empty())
      typed.next = argv[i];
    else
      typed.app = verbs.front();
  }
  return typed;
}

// What CLI11 found, with the nearest name where a verb or an option is unknown.
std::string usage_text(const CLI::ParseError& error, const Program& program, int argc,
                       char** argv) {
  const Typed typed = typed_verb(program.app, argc, argv);
  const std::vector<std::string> verbs = verbs_of(*typed.app);
  if (!verbs.empty() && !typed.next.empty() && typed.next.front() != '-')
    return fmt::format("unknown verb '{}'{}", typed.next, did_you_mean(typed.next, verbs));
  std::string text = error.what();
  for (int i = 1; i < argc; ++i) {
    const std::string argument(argv[i]);
    const std::string option = argument.substr(0, argument.find('='));
    const std::vector<std::string> options = options_of(*typed.app);
    if (option.starts_with("--") &&
        std::find(options.begin(), options.end(), option) == options.end())
      return fmt::format("unknown option '{}'{}", option, did_you_mean(option, options));
  }
  return text;
}

// A value that was typed and is empty: a script's variable that was not set.
void require_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      require(!value.empty(), ErrorCode::kUsage, "{} is given an empty value", option->get_name());
  for (const CLI::App* verb : app.get_subcommands()) require_values(*verb);
}

// Whole numbers as people write them. CLI11 alone takes 010 for eight, 0x4 for four and cuts what
// does not fit.
std::string not_whole(const std::string& text, bool may_be_negative) {
  constexpr std::size_t kMostDigits = 18;
  const std::string digits = may_be_negative && text.starts_with('-') ? text.substr(1) : text;
  const bool is_whole = !digits.empty() && digits.size() <= kMostDigits &&
                        digits.find_first_not_of("0123456789") == std::string::npos &&
                        (digits.size() == 1 || digits.front() != '0');
  return is_whole ? ""
                  : fmt::format("'{}' is no whole number of 1 to {} digits without a leading zero",
                                text, kMostDigits);
}

void require_whole_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    const bool is_unsigned = type.starts_with("UINT");
    if (!is_unsigned && !type.starts_with("INT")) continue;
    option->check([is_unsigned](const std::string& text) { return not_whole(text, !is_unsigned); });
  }
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; }))
    require_whole_numbers(*verb);
}

void say_unused(const Program& program, const Console& console) {
  const auto means = [&](const auto& verbs) {
    return std::find(std::begin(verbs), std::end(verbs), program.verb_name) != std::end(verbs);
  };
  if (program.common.seed != 0 && !means(kSeeded))
    console.note("--seed had no effect, nothing is random here");
  if (!program.common.out.empty() && !means(kWriting))
    console.note("--out had no effect, no folder is written here");
  if (program.common.overwrite && !means(kWriting))
    console.note("--overwrite had no effect, no folder is written here");
}

// Of several processes one does what they cannot share.
bool is_left_to_the_first(const Program& program) {
  return !is_first_process() &&
         std::find(std::begin(kShared), std::end(kShared), program.verb_name) == std::end(kShared);
}

int usage_error(const CLI::ParseError& error, const Program& program, int argc, char** argv) {
  if (error.get_exit_code() == 0) return program.app.exit(error);  // help
  return report_error(Error(ErrorCode::kUsage, usage_text(error, program, argc, argv),
                            {"-h shows what is understood"}),
                      program.common.json);
}

int run(int argc, char** argv) {
  Program program;
  program.app.require_subcommand(1);
  program.app.footer(kMainFooter);
  // Options with the name of their environment variable and their text on one line.
  program.app.get_formatter()->column_width(48);
  add_search(program);
  add_simulate(program);
  add_explain(program);
  add_boxing(program);
  add_check(program);
  add_run(program);
  add_export(program);
  add_compare(program);
  add_model(program);
  add_strategy(program);
  add_cluster(program);
  add_experiment(program);
  add_doctor(program);
  require_whole_numbers(program.app);
  try {
    program.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (!is_first_process())  // the first says it
      return error.get_exit_code() == 0 ? 0 : static_cast<int>(ErrorCode::kUsage);
    return usage_error(error, program, argc, argv);
  }
  if (is_left_to_the_first(program)) return 0;
  watch_signals();
  if (program.common.json) owe_document();
  Console console(program.common);
  try {
    require_values(program.app);
    program.verb(console);
    say_unused(program, console);
  } catch (const Error& error) {
    console.end_progress();
    if (was_interrupted()) {
      report_interrupted(error, program.common.json);
      return 128 + interrupting_signal();
    }
    return report_error(error, program.common.json);
  } catch (const std::exception& error) {
    console.end_progress();
    return report_error(Error(ErrorCode::kInternal, error.what()), program.common.json);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return report_error(Error(ErrorCode::kBadInput, "standard output cannot be written"), false);
  return was_interrupted() ? 128 + interrupting_signal() : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error (internal): %s\n", error.what());
    return 1;
  }
}
