// `sextant run`: trains with a plan, on CPU ranks in this process or on a GPU.
#include "actor/runtime.h"
#include "backends/cpu/machine_load.h"
#include "cli/run_backend.h"
#include "cli/run_record.h"
#include "cli/throughput.h"
#include "cli/verbs.h"
#include "compiler/memory_report.h"
#include "core/check.h"
#include "core/nearest.h"
#include "core/quantile.h"
#include "io/training_host.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// The first steps fill caches and page in memory. On a GPU the third is captured, and libraries
// load their code on the way.
std::int64_t warm_up_steps(const RunArguments& arguments) {
  return arguments.backend == "cuda" ? 5 : 2;
}

// What one training run measured, as it goes.
class Recorder {
 public:
  Recorder(const PlannedJob& planned, Bytes peak_memory, std::int64_t warm_up_steps,
           Console& console)
      : planned_(planned),
        peak_memory_(peak_memory),
        warm_up_steps_(warm_up_steps),
        console_(console),
        last_s_(wall_seconds()) {}

  void add(const StepMetrics& metrics) {
    const double now = wall_seconds();
    const double step_s = now - last_s_;
    last_s_ = now;
    if (metrics.step >= warm_up_steps_) step_times_.push_back(step_s);
    losses_.push_back(metrics.loss());
    const Throughput rate = throughput(planned_.job, step_s);
    const auto value = mfu(planned_.job, step_s, planned_.plan.strategy.ranks());
    Json line = {{"step", metrics.step}, {"loss", metrics.loss()}, {"step_time_s", step_s}};
    add_to(line, rate);
    line["mfu"] = value ? Json(*value) : Json(nullptr);
    line["peak_memory_bytes"] = peak_memory_.value;
    for (const char* name : {"grad_norm", "loss_scale"})
      if (const auto found = metrics.values.find(name); found != metrics.values.end())
        line[name] = found->second;
    lines_ += line.dump() + "\n";
    console_.progress(
        fmt::format("step {}: loss {:.4f}, {}", metrics.step, metrics.loss(), to_text(rate)));
  }

  const std::vector<double>& losses() const { return losses_; }
  const std::vector<double>& step_times() const { return step_times_; }
  const std::string& lines() const { return lines_; }

 private:
  const PlannedJob& planned_;
  const Bytes peak_memory_;
  const std::int64_t warm_up_steps_;
  Console& console_;
  double last_s_;
  std::vector<double> losses_, step_times_;
  std::string lines_;
};

// The user's text; needed where the model reads tokens, useless where it does not. Nothing for
// `random`: then tokens are drawn like every other input.
std::optional<TokenData> token_data(const PhysicalGraph& graph, const std::string& path) {
  const bool reads_tokens = synthetic_inputs(graph, true) != synthetic_inputs(graph, false);
  require(!path.empty() || !reads_tokens, ErrorCode::kUsage,
          "--data is needed: a text file or a folder of text files, or `random` for uniform ids");
  require(path.empty() || reads_tokens, ErrorCode::kUsage,
          "--data {}: this model reads no tokens; leave it out", path);
  if (path.empty() || path == kRandomData) return std::nullopt;
  return TokenData::from_path(path);
}

TrainingHost training_host(const std::optional<TokenData>& data, std::uint64_t seed) {
  return data ? TrainingHost(*data, seed) : TrainingHost(seed);
}

void say_synthetic_inputs(const PhysicalGraph& graph, bool has_data, const Console& console) {
  const std::vector<std::string> names = synthetic_inputs(graph, has_data);
  if (!names.empty())
    console.say("synthetic data for " + comma_list(names) + ": every step reads the same batch");
}

// The part of the step that a stamp is of; for a whole run of several kinds there is no kind.
std::string kind_of(const PhysicalGraph& graph, Rank rank, const Stamp& stamp) {
  const Run& run = graph.program_of(rank).order[stamp.run.index()];
  const Block& block = graph.block_of(graph.program_of(rank).instances[run.instance.index()]);
  if (stamp.num_actors == 0 && run.num_actors > 1) return "";
  const std::int32_t actor = stamp.num_actors == 0 ? run.first_actor : stamp.first_actor;
  return block.actors[static_cast<std::size_t>(actor)].kind;
}

// Extra steps with stamps; the first is warm-up. Seconds per step, mean over ranks.
void profile(const PhysicalGraph& graph, const RunArguments& arguments, std::uint64_t seed,
             const std::optional<TokenData>& data, RunRecord& record) {
  const auto world = make_run_devices(graph, arguments, seed, true, [](const std::string&) {});
  TrainingHost host = training_host(data, seed);
  const std::vector<Device*> devices = world->devices();
  run_all(graph, devices, host, arguments.profile + 1);
  const double share =
      1.0 / (static_cast<double>(arguments.profile) * static_cast<double>(devices.size()));
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    for (const Stamp& stamp : devices[rank]->stamps()) {
      if (stamp.step == 0) continue;
      const double seconds = to_seconds(stamp.end - stamp.begin) * share;
      const std::string name =
          stamp.num_actors == 0
              ? run_name(graph, Rank(rank), stamp.run)
              : run_name(graph, Rank(rank), stamp.run, stamp.first_actor, stamp.num_actors);
      record.operator_time_s[name] += seconds;
      record.kind_time_s[kind_of(graph, Rank(rank), stamp)] += seconds;
    }
  }
  // Times of a part would stand beside predictions of the whole.
  if (record.kind_time_s.contains("")) record.kind_time_s.clear();
}

// Runs; nothing when the user interrupted (what was measured stays in the recorder).
std::optional<std::vector<IssueHash>> train(const PhysicalGraph& graph, RunDevices& world,
                                            TrainingHost& host, Recorder& recorder,
                                            std::int64_t steps) {
  host.on_step([&](const StepMetrics& metrics) {
    recorder.add(metrics);
    if (was_interrupted()) world.abort("interrupted");
  });
  try {
    return run_all(graph, world.devices(), host, steps);
  } catch (const Error&) {
    if (!was_interrupted()) throw;
    return std::nullopt;
  }
}

RunRecord make_record(const PlannedJob& planned, const PhysicalGraph& graph,
                      const RunArguments& arguments, const CommonOptions& common,
                      const Recorder& recorder) {
  RunRecord record;
  record.plan_hash = graph.header.plan_hash;
  record.strategy = to_string(planned.plan.strategy);
  record.backend = arguments.backend;
  if (arguments.backend == "cpu") {
    record.queues = arguments.queues.empty() ? kDefaultQueues : arguments.queues;
    record.kernels = arguments.kernels.empty() ? kDefaultKernels : arguments.kernels;
  }
  record.devices = devices_text(arguments, graph);
  record.seed = common.seed;
  record.steps = static_cast<std::int64_t>(recorder.losses().size());
  record.warm_up_steps = warm_up_steps(arguments);
  std::vector<double> times = recorder.step_times();
  std::sort(times.begin(), times.end());
  if (!times.empty()) {
    record.step_time_s = quantile(times, 0.5);
    record.step_time_quartiles_s[0] = quantile(times, 0.25);
    record.step_time_quartiles_s[1] = quantile(times, 0.75);
  }
  if (!recorder.losses().empty()) {
    record.first_loss = recorder.losses().front();
    record.last_loss = recorder.losses().back();
  }
  return record;
}

void say_result(const RunRecord& record, const PlannedJob& planned, const Recorder& recorder,
                const Console& console) {
  Table table({"step", "loss"});
  const std::size_t steps = recorder.losses().size();
  const std::size_t every = std::max<std::size_t>(1, steps / 10);
  for (std::size_t i = 0; i < steps; ++i)
    if (i % every == 0 || i + 1 == steps)
      table.add({fmt::format("{}", i), fmt::format("{:.4f}", recorder.losses()[i])});
  console.say(table.text());
  if (recorder.step_times().empty()) return;
  const auto utilisation = mfu(planned.job, record.step_time_s, planned.plan.strategy.ranks());
  console.say(fmt::format(
      "step {} (median of {} after {} warm-up steps; quartiles {} and {}), {}{}",
      to_text(duration_from_seconds(record.step_time_s)), recorder.step_times().size(),
      record.warm_up_steps, to_text(duration_from_seconds(record.step_time_quartiles_s[0])),
      to_text(duration_from_seconds(record.step_time_quartiles_s[1])),
      to_text(throughput(planned.job, record.step_time_s)),
      utilisation
          ? fmt::format(", MFU {:.1f} % of {}", 100 * *utilisation, planned.job.cluster.device.name)
          : std::string()));
}

// What the profiled steps say, by kind; by run where a device times no less. The rest of the step
// is between the launches.
void say_profile(const RunRecord& record, const Console& console) {
  const auto& times = record.kind_time_s.empty() ? record.operator_time_s : record.kind_time_s;
  if (times.empty()) return;
  std::vector<std::pair<double, std::string>> rows;
  double sum = 0;
  for (const auto& [name, seconds] : times) {
    rows.emplace_back(seconds, name);
    sum += seconds;
  }
  std::sort(rows.rbegin(), rows.rend());
  Table table({"profiled", "per step", "share"});
  const auto add = [&](const std::string& name, double seconds) {
    table.add({name, to_text(duration_from_seconds(seconds)), percent(seconds / sum)});
  };
  for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), 25); ++i)
    add(rows[i].second, rows[i].first);
  add("sum", sum);
  console.say(table.text());
}

}  // namespace

void run_run(const RunArguments& arguments, const CommonOptions& common, Console& console) {
  require_backend(arguments);
  require(arguments.steps > 0, ErrorCode::kUsage, "--steps must be positive, not {}",
          arguments.steps);
  require(arguments.profile >= 0, ErrorCode::kUsage, "--profile must not be negative, not {}",
          arguments.profile);
  if (arguments.learning_rate)
    require(std::isfinite(*arguments.learning_rate) && *arguments.learning_rate > 0,
            ErrorCode::kUsage, "--learning-rate must be positive and finite, not {}",
            *arguments.learning_rate);
  require_folder(common.out);
  PlannedJob planned = load_planned_job(arguments.job);
  // The plan, and with it its hash, stays as it is: a learning rate changes no launch.
  if (arguments.learning_rate) planned.job.optimizer.learning_rate = *arguments.learning_rate;
  const PhysicalGraph graph = physical_graph(planned);
  require_fits(planned, graph);
  require_ranks(arguments, graph);
  const std::optional<TokenData> data = token_data(graph, arguments.data);

  console.say(fmt::format("{} on {}: {}", name_of(planned.job.model),
                          devices_text(arguments, graph), to_string(planned.plan.strategy)));
  std::unique_ptr<RunDevices> world = make_run_devices(
      graph, arguments, common.seed, false, [&](const std::string& text) { console.say(text); });
  say_synthetic_inputs(graph, data.has_value(), console);
  TrainingHost host = training_host(data, common.seed);
  Recorder recorder(planned, peak_memory(graph), warm_up_steps(arguments), console);
  const PolledSignals polled;  // what was trained is written
  const LoadWatch watch;
  const auto issued = train(graph, *world, host, recorder, arguments.steps);
  const OthersLoad load =
      arguments.backend == "cpu" ? watch.load().value_or(OthersLoad{}) : OthersLoad{};
  world.reset();  // its memory is the profile's now
  console.end_progress();
  RunRecord record = make_record(planned, graph, arguments, common, recorder);
  if (issued) record.issued = *issued;
  record.others_share = load.others;
  if (issued && arguments.profile > 0) profile(graph, arguments, common.seed, data, record);

  say_result(record, planned, recorder, console);
  if (!load.is_quiet())
    console.say(busy_text(load) + " during the run: steps took longer than on a quiet one");
  say_profile(record, console);
  if (!common.out.empty()) {
    write_file_whole(common.out + "/metrics.jsonl", recorder.lines());
    write_file_whole(common.out + "/run.json", to_json_text(record));
    write_file_whole(common.out + "/plan.json", to_json_text(planned.plan));
    console.say(fmt::format("metrics in {0}/metrics.jsonl; next: sextant compare {0}/plan.json {0}",
                            common.out));
  }
  const auto& losses = recorder.losses();
  const auto bad =
      std::find_if(losses.begin(), losses.end(), [](double loss) { return !std::isfinite(loss); });
  require(bad == losses.end(), ErrorCode::kVerification,
          "the loss of step {} is not finite: training diverged; try a smaller --learning-rate",
          bad - losses.begin());
  console.document("run", Json::parse(to_json_text(record)));
}

}  // namespace sextant
