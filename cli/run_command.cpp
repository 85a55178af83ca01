// `sextant run`: trains with a plan on CPU ranks in this process.
#include "backends/cpu/cpu_backend.h"
#include "cli/run_record.h"
#include "cli/verbs.h"
#include "compiler/memory_report.h"
#include "core/check.h"
#include "core/nearest.h"
#include "io/training_host.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// The first steps fill caches and page in memory.
constexpr std::int64_t kWarmUpSteps = 2;

CpuQueueKind parse_queues(const std::string& text) {
  if (text == "inline") return CpuQueueKind::kInline;
  if (text == "asynchronous") return CpuQueueKind::kAsynchronous;
  require(text == "stress", ErrorCode::kUsage,
          "--queues '{}' is not one of inline, asynchronous, stress", text);
  return CpuQueueKind::kStress;
}

CpuKernels parse_kernels(const std::string& text) {
  require(text == "fast" || text == "reference", ErrorCode::kUsage,
          "--kernels '{}' is not one of fast, reference", text);
  return text == "fast" ? CpuKernels::kFast : CpuKernels::kReference;
}

CpuOptions cpu_options(const RunArguments& arguments, const CommonOptions& common) {
  CpuOptions options;
  options.queues = parse_queues(arguments.queues);
  options.kernels = parse_kernels(arguments.kernels);
  options.seed = common.seed;
  return options;
}

// What one training run measured, as it goes.
class Recorder {
 public:
  Recorder(const PlannedJob& planned, Bytes peak_memory, Console& console)
      : planned_(planned), peak_memory_(peak_memory), console_(console), last_s_(wall_seconds()) {}

  void add(const StepMetrics& metrics) {
    const double now = wall_seconds();
    const double step_s = now - last_s_;
    last_s_ = now;
    if (metrics.step >= kWarmUpSteps) step_times_.push_back(step_s);
    losses_.push_back(metrics.loss());
    const double tokens_per_s = metrics.values.at("token_count") / step_s;
    const auto value = mfu(planned_.job, step_s, planned_.plan.strategy.ranks());
    Json line = {{"step", metrics.step},
                 {"loss", metrics.loss()},
                 {"step_time_s", step_s},
                 {"tokens_per_s", tokens_per_s},
                 {"mfu", value ? Json(*value) : Json(nullptr)},
                 {"peak_memory_bytes", peak_memory_.value}};
    for (const char* name : {"grad_norm", "loss_scale"})
      if (const auto found = metrics.values.find(name); found != metrics.values.end())
        line[name] = found->second;
    lines_ += line.dump() + "\n";
    console_.progress(fmt::format("step {}: loss {:.4f}, {:.0f} tokens/s", metrics.step,
                                  metrics.loss(), tokens_per_s));
  }

  const std::vector<double>& losses() const { return losses_; }
  const std::vector<double>& step_times() const { return step_times_; }
  const std::string& lines() const { return lines_; }

 private:
  const PlannedJob& planned_;
  const Bytes peak_memory_;
  Console& console_;
  double last_s_;
  std::vector<double> losses_, step_times_;
  std::string lines_;
};

// The user's text; needed where the model reads tokens, useless where it does not.
std::optional<TokenData> token_data(const PhysicalGraph& graph, const std::string& path) {
  const bool reads_tokens = synthetic_inputs(graph, true) != synthetic_inputs(graph, false);
  require(!path.empty() || !reads_tokens, ErrorCode::kUsage,
          "--data is needed: a text file or a folder of text files");
  require(path.empty() || reads_tokens, ErrorCode::kUsage,
          "--data {}: this model reads no tokens; leave it out", path);
  if (path.empty()) return std::nullopt;
  return TokenData::from_path(path);
}

TrainingHost training_host(const std::optional<TokenData>& data, std::uint64_t seed) {
  return data ? TrainingHost(*data, seed) : TrainingHost(seed);
}

void say_synthetic_inputs(const PhysicalGraph& graph, bool has_data, const Console& console) {
  const std::vector<std::string> names = synthetic_inputs(graph, has_data);
  if (!names.empty()) console.say("synthetic data for " + comma_list(names));
}

// Extra steps with stamps; the first is warm-up. Seconds per step, mean over ranks.
std::map<std::string, double> profile(const PhysicalGraph& graph, CpuOptions options,
                                      const std::optional<TokenData>& data, std::int64_t steps) {
  options.profile = true;
  CpuWorld world(graph, options);
  TrainingHost host = training_host(data, options.seed);
  const std::vector<Device*> devices = world.devices();
  run_all(graph, devices, host, steps + 1);
  std::map<std::string, double> seconds;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    for (const Stamp& stamp : devices[rank]->stamps()) {
      if (stamp.step == 0) continue;
      seconds[run_name(graph, Rank(rank), stamp.run)] +=
          to_seconds(stamp.end - stamp.begin) /
          (static_cast<double>(steps) * static_cast<double>(devices.size()));
    }
  }
  return seconds;
}

// Runs; nothing when the user interrupted (what was measured stays in the recorder).
std::optional<std::vector<IssueHash>> train(const PhysicalGraph& graph, CpuWorld& world,
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
  record.queues = arguments.queues;
  record.kernels = arguments.kernels;
  record.seed = common.seed;
  record.steps = static_cast<std::int64_t>(recorder.losses().size());
  record.warm_up_steps = kWarmUpSteps;
  record.step_time_s = median(recorder.step_times());
  record.step_time_quartiles_s[0] = quantile(recorder.step_times(), 0.25);
  record.step_time_quartiles_s[1] = quantile(recorder.step_times(), 0.75);
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
  const double tokens =
      static_cast<double>(planned.plan.global_batch) * static_cast<double>(planned.plan.sequence);
  console.say(fmt::format(
      "step {} (median of {} after {} warm-up steps; quartiles {} and {}), {:.0f} tokens/s",
      to_text(duration_from_seconds(record.step_time_s)), recorder.step_times().size(),
      record.warm_up_steps, to_text(duration_from_seconds(record.step_time_quartiles_s[0])),
      to_text(duration_from_seconds(record.step_time_quartiles_s[1])),
      tokens / record.step_time_s));
}

}  // namespace

void run_run(const RunArguments& arguments, const CommonOptions& common, Console& console) {
  require(arguments.backend != "cuda", ErrorCode::kDevice,
          "this version runs plans on CPU ranks only; its CUDA device runs single operators");
  require(arguments.backend == "cpu", ErrorCode::kUsage, "--backend '{}' is not one of cpu, cuda",
          arguments.backend);
  require(arguments.steps > 0, ErrorCode::kUsage, "--steps must be positive, not {}",
          arguments.steps);
  require(arguments.profile >= 0, ErrorCode::kUsage, "--profile must not be negative, not {}",
          arguments.profile);
  if (arguments.learning_rate)
    require(std::isfinite(*arguments.learning_rate) && *arguments.learning_rate > 0,
            ErrorCode::kUsage, "--learning-rate must be positive and finite, not {}",
            *arguments.learning_rate);
  require_folder(common.out);
  const CpuOptions options = cpu_options(arguments, common);
  PlannedJob planned = load_planned_job(arguments.job);
  // The plan, and with it its hash, stays as it is: a learning rate changes no launch.
  if (arguments.learning_rate) planned.job.optimizer.learning_rate = *arguments.learning_rate;
  const PhysicalGraph graph = physical_graph(planned);
  require_fits(planned, graph);
  const std::optional<TokenData> data = token_data(graph, arguments.data);

  console.say(fmt::format("{} on {} CPU ranks: {}", name_of(planned.job.model), graph.ranks.size(),
                          to_string(planned.plan.strategy)));
  CpuWorld world(graph, options);
  say_synthetic_inputs(graph, data.has_value(), console);
  TrainingHost host = training_host(data, common.seed);
  Recorder recorder(planned, peak_memory(graph), console);
  const auto issued = train(graph, world, host, recorder, arguments.steps);
  console.end_progress();
  RunRecord record = make_record(planned, graph, arguments, common, recorder);
  if (issued) record.issued = *issued;
  if (issued && arguments.profile > 0)
    record.operator_time_s = profile(graph, options, data, arguments.profile);

  say_result(record, planned, recorder, console);
  if (!common.out.empty()) {
    write_file_whole(common.out + "/metrics.jsonl", recorder.lines());
    write_file_whole(common.out + "/run.json", to_json_text(record));
    console.say(fmt::format("metrics in {}/metrics.jsonl; next: sextant compare PLAN {}",
                            common.out, common.out));
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
