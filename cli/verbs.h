// What each verb takes and does; main.cpp turns the command line into these.
#pragma once

#include "cli/console.h"
#include "cli/workflow.h"
#include "simulator/recordings/recording.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct SearchArguments {
  JobArguments job;
  std::string memory;                  // "64GiB"; empty: the device's
  std::vector<std::string> fixed;      // "tp=4"
  std::vector<std::string> forbidden;  // "zero=3"
  std::int64_t top = 10;
  std::string time_limit;     // "30s"; empty: none
  bool pareto = false;        // also the plans that no other one beats in time and memory
  bool sensitivity = false;   // also what would make another plan win
  std::string words_problem;  // file for the problem of words on a fixed mesh; empty: a search
};
// Plans in a row without a better one, or a gap, with which a search without time limit ends.
inline constexpr std::int64_t kPatience = 24;
inline constexpr double kEnoughGap = 0.01;
void run_search(const SearchArguments& arguments, const CommonOptions& common, Console& console);
// What `search` does instead with `words_problem`.
void run_words_problem(const SearchArguments& arguments, const CommonOptions& common,
                       Console& console);

struct SimulateArguments {
  JobArguments job;
  std::string trace;                 // file; .gz: compressed
  std::string timeline;              // file of an HTML page
  std::string replay;                // file of `run --record`; empty: simulate
  std::vector<std::string> what_if;  // "link.ib.bandwidth=2x"
  std::string sweep;                 // "gpu.flops=0.5x..2x"
  std::string plot;                  // file for the sweep's chart
  bool memory = false;
  bool unfolded = false;
  bool critical_path = false;
  bool links = false;
  bool operators = false;
  std::string routing;  // of tokens to experts: "zipf=1.1"; empty: all places are full
  std::vector<std::string> stragglers;  // "5=1.2x"
  std::int64_t samples = 0;             // of the step time, under jitter
  std::string failures;                 // "mtbf=50000h checkpoint=60s"; empty: none
  std::string mode = "tape";
  double jitter = 0;
};
void run_simulate(const SimulateArguments& arguments, const CommonOptions& common,
                  Console& console);
// What `simulate` does instead with `replay`.
void run_replay(const SimulateArguments& arguments, const CommonOptions& common, Console& console);

struct ExplainArguments {
  JobArguments job;
  std::string name;      // operator or tensor; empty: the boxing of the whole plan
  std::string why_not;   // "tp=8"
  std::string dump;      // "staged": the whole graph as text
  std::string graphviz;  // file for the staged graph
};
void run_explain(const ExplainArguments& arguments, const CommonOptions& common, Console& console);

struct BoxingArguments {
  std::string from, to;  // "(S(0), B)@[dp=2, tp=2]"
  std::string shape;
  std::string dtype = "f32";
  std::string to_dtype, reduce_dtype;  // empty: nothing asked
  std::string cluster;
  std::string objective;  // "time" or "bytes"; empty: time with a cluster, else bytes
  std::int64_t top = 5;
  bool pairs = false;
};
void run_boxing(const BoxingArguments& arguments, const CommonOptions& common, Console& console);

void run_check(const JobArguments& job, const CommonOptions& common, Console& console);

inline constexpr const char* kDefaultQueues = "asynchronous";
inline constexpr const char* kDefaultKernels = "fast";
inline constexpr const char* kRandomData = "random";
struct RunArguments {
  JobArguments job;
  std::string backend = "cpu";
  std::string queues, kernels;                // of CPU ranks; empty: the defaults
  std::string graphs;                         // of GPUs: on or off; empty: on with one rank
  bool deterministic = false;                 // likewise
  std::string matmul_cache;                   // likewise: file of measured algorithms; empty: none
  std::string gpus;                           // likewise: "0,1"; empty: all
  std::string collectives;                    // likewise: nccl, local; empty: by the cards
  std::optional<std::int64_t> ranks_per_gpu;  // likewise; nothing: 1
  double timeout_s = 60;                      // of waits for other ranks
  std::string data;
  std::int64_t steps = 20;
  std::int64_t profile = 0;
  std::string record;                   // file for launches and messages; empty: none
  std::optional<double> learning_rate;  // nothing: the plan's
};
void run_run(const RunArguments& arguments, const CommonOptions& common, Console& console);

struct ExportArguments {
  JobArguments job;
  std::string data;  // text file or folder; empty: weights alone
  std::int64_t steps = 20;
};
void run_export(const ExportArguments& arguments, const CommonOptions& common, Console& console);

struct CompareArguments {
  std::string plan;
  std::string run;    // folder written by `run`, or a recording
  std::string trace;  // file for both, of a recording
};
void run_compare(const CompareArguments& arguments, const CommonOptions& common, Console& console);
// What `compare` does where `run` is a recording.
void run_compare_recording(const CompareArguments& arguments, const PlannedJob& planned,
                           Console& console);
// Throws Error(kBadInput) where the recording in `file` is of another plan.
void require_recorded_plan(const RecordingHeader& header, const PhysicalGraph& graph,
                           const std::string& file);

struct AccuracyArguments {
  std::string data;   // folder of the measurements; empty: $SEXTANT_SHARED/data or ../shared/data
  std::string group;  // part of a name; empty: all
};
void run_accuracy(const AccuracyArguments& arguments, const CommonOptions& common,
                  Console& console);

struct ModelShowArguments {
  std::string model;
  std::optional<std::int64_t> sequence;
};
void run_model_show(const ModelShowArguments& arguments, const CommonOptions& common,
                    Console& console);

// Without a strategy the settings alone.
void run_strategy_show(const std::string& strategy, const CommonOptions& common, Console& console);

struct ClusterBenchArguments {
  std::string backend = "cuda";    // or cpu
  std::string base;                // what is not measured; empty: dgx-h100:nodes=1, or cpu
  std::string dtype;               // empty: bf16, of a CPU f32
  std::string date;                // of the measurement; empty: today
  std::string output;              // file; empty: cluster.json in the folder for results
  std::vector<std::string> steps;  // "gpt2-medium:16x1024": training steps to measure launches of
  std::string matmul_cache;        // file
  std::string gpus;                // "0,1", the first measured as a device; empty: all
};
void run_cluster_bench(const ClusterBenchArguments& arguments, const CommonOptions& common,
                       Console& console);
void run_cluster_show(const std::string& cluster, const CommonOptions& common, Console& console);

struct ClusterDetectArguments {
  std::string base;    // CLUSTER with the devices' figures; empty: known by their names
  std::string output;  // file; empty: standard output
};
void run_cluster_detect(const ClusterDetectArguments& arguments, const CommonOptions& common,
                        Console& console);

struct ClusterImportArguments {
  std::string file;        // of another program
  std::string base;        // CLUSTER with what the file does not say; empty: none
  std::int64_t nodes = 0;  // 0: as many as the file says
  std::string output;      // file; empty: standard output
};
void run_cluster_import(const ClusterImportArguments& arguments, const CommonOptions& common,
                        Console& console);
void run_doctor(const CommonOptions& common, Console& console);

// Texts and JSON that several verbs print.
std::string percent(double fraction);
std::string time_text(double seconds);
std::string step_text(Duration duration);
nlohmann::ordered_json parts_json(const StepParts& parts);
Table parts_table(const StepParts& parts, double step_s);
nlohmann::ordered_json memory_json(const std::vector<Bytes>& by_class);

}  // namespace sextant
