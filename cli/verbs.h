// The verbs of the program, arguments that several files share, and texts that several verbs print.
#pragma once

#include "cli/console.h"
#include "cli/verb.h"
#include "cli/workflow.h"
#include "io/open_data.h"
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
  std::string sweep;          // "model=a;b cluster=x;y global_batch=64;256"; empty: one search
  std::vector<std::string> points;  // of a sweep, by name; empty: all
  std::string point_limit;          // of a sweep: "30s", the longest that a search may take
};
// Plans in a row without a better one, or a gap, with which a search without time limit ends.
inline constexpr std::int64_t kPatience = 24;
inline constexpr double kEnoughGap = 0.01;
// What `search` does instead with `words_problem`.
void run_words_problem(const SearchArguments& arguments, const CommonOptions& common,
                       Console& console);

// What `search` does instead with `sweep`.
void run_plan_sweep(const SearchArguments& arguments, const CommonOptions& common,
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
  std::string data_times;               // "read=1ms decode=40ms registers=2"; empty: no data actors
  std::string mode = "tape";
  double jitter = 0;
};
// What `simulate` does instead with `replay`.
void run_replay(const SimulateArguments& arguments, const CommonOptions& common, Console& console);

inline constexpr const char* kDefaultQueues = "asynchronous";
inline constexpr const char* kDefaultKernels = "fast";
inline constexpr const char* kRandomData = "random";
inline constexpr std::int64_t kDefaultDataRegisters = 2;
struct RunArguments {
  JobArguments job;
  std::string backend = "cpu";
  std::string queues, kernels;                // of CPU ranks; empty: the defaults
  std::string graphs;                         // of GPUs: on or off; empty: on with one rank
  bool deterministic = false;                 // of GPUs
  std::string matmul_cache;                   // of GPUs: file of measured algorithms; empty: none
  std::string gpus;                           // "0,1"; empty: all
  std::string collectives;                    // of GPUs: nccl, local; empty: by the cards
  std::optional<std::int64_t> ranks_per_gpu;  // nothing: 1
  double timeout_s = 60;                      // of waits for other ranks
  std::string data, data_format, data_order;  // the latter two: empty by the data
  std::optional<std::int64_t> registers;      // of data actors; nothing: 2
  std::int64_t steps = 20;
  std::int64_t profile = 0;
  std::string record;                            // file for launches and messages; empty: none
  std::optional<double> learning_rate;           // nothing: the plan's
  std::string checkpoint;                        // folder; empty: none are saved
  std::optional<std::int64_t> checkpoint_every;  // steps; nothing: one at the end
  std::optional<std::int64_t> keep;              // nothing: all
  std::string resume;                            // folder; empty: training is new
  std::string weights;  // file or folder that it begins with; empty: by the seed
  // What --data and its options say.
  DataOptions data_options() const {
    return {.path = data, .format = data_format, .order = data_order};
  }
};

struct CompareArguments {
  std::string plan;
  std::string run;    // folder written by `run`, or a recording
  std::string trace;  // file for both, of a recording
};
// What `compare` does where `run` is a recording.
void run_compare_recording(const CompareArguments& arguments, const PlannedJob& planned,
                           Console& console);
// Throws Error(kBadInput) where the recording in `file` is of another plan.
void require_recorded_plan(const RecordingHeader& header, const PhysicalGraph& graph,
                           const std::string& file);

// Each in a file of `commands`, with its options.
Verb search_verb();
Verb simulate_verb();
Verb explain_verb();
Verb boxing_verb();
Verb check_verb();
Verb run_verb();
Verb checkpoint_show_verb();
Verb checkpoint_check_verb();
Verb checkpoint_export_verb();
Verb export_verb();
Verb compare_verb();
Verb model_show_verb();
Verb strategy_show_verb();
Verb cluster_show_verb();
Verb cluster_import_verb();
Verb cluster_detect_verb();
Verb cluster_bench_verb();
Verb experiment_accuracy_verb();
Verb experiment_data_pipeline_verb();
Verb experiment_pytorch_verb();
std::vector<Verb> sweep_verbs();  // `experiment list`, `all` and by name
Verb doctor_verb();
Verb report_verb();
Verb plan_diff_verb();
Verb plan_convert_verb();

// Texts and JSON that several verbs print.
std::string percent(double fraction);
std::string grouped(std::int64_t number);  // "12,345"
std::string time_text(double seconds);
std::string step_text(Duration duration);
nlohmann::ordered_json parts_json(const StepParts& parts);
TextTable parts_table(const StepParts& parts, double step_s);
nlohmann::ordered_json memory_json(const std::vector<Bytes>& by_class);

}  // namespace sextant
