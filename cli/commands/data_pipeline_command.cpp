// `sextant experiment data-pipeline`: images from JPEGs beside synthetic ones, on a CPU rank.
#include "backends/cpu/machine_load.h"
#include "cli/dry_run.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/base/quantile.h"
#include "experiments/data_pipeline/data_times.h"
#include "experiments/data_pipeline/loader_run.h"
#include "experiments/data_pipeline/pictures.h"
#include "io/images/image_data.h"
#include "io/training_host.h"
#include "simulator/reports/data_pipeline.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

struct DataPipelineArguments {
  std::string model =
      "conv:blocks=1x1,channels=8x16,stem_channels=8,stem_kernel=3,height=32,width=32,classes=10";
  std::int64_t batch = 8;
  std::int64_t steps = 12;  // of one run of a loader
  std::int64_t rounds = 3;
  std::int64_t pictures = 64;
  bool quick = false;  // one size, one round
};

constexpr PictureSize kSizes[] = {{256, 256}, {500, 375}};
constexpr std::int64_t kClasses = 4;

// A folder that goes away, also where something fails.
struct PictureFolder {
  std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("sextant-pictures-{}", getpid()))
          .string();
  PictureFolder() { std::filesystem::remove_all(path); }
  ~PictureFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  PictureFolder(const PictureFolder&) = delete;
  PictureFolder& operator=(const PictureFolder&) = delete;
};

// One loader on pictures of one size.
struct LoaderRow {
  PictureSize size;
  Loader loader;
  std::vector<double> step_s;  // ascending, of all rounds
  DataTimes data;
  std::optional<double> predicted_s;
  std::string limits;

  double median_s() const { return quantile(step_s, 0.5); }
};

// From the times of the actors and the step of synthetic data, whose input is read at its begin.
double predicted_step(const LoaderRow& row, double synthetic_s) {
  DataPipeline pipeline{{}, row.loader.registers};
  for (const DataActorTime& actor : row.data.actors)
    pipeline.actors.push_back({actor.name, duration_from_seconds(actor.act_s)});
  return to_seconds(
      schedule_data(pipeline, {duration_from_seconds(synthetic_s), Duration(0), Duration(0)}).step);
}

std::vector<LoaderRow> rows_of_size(const PhysicalGraph& graph, PictureSize size,
                                    const ImageData& data, const DataPipelineArguments& arguments,
                                    std::uint64_t seed, Console& console) {
  std::vector<LoaderRow> rows;
  for (const Loader& loader : all_loaders()) rows.push_back({size, loader, {}, {}, {}, {}});
  for (std::int64_t round = 0; round < arguments.rounds; ++round)
    for (LoaderRow& row : rows) {
      console.progress(fmt::format("{} x {}, {}, round {} of {}", size.width, size.height,
                                   row.loader.name, round + 1, arguments.rounds));
      LoaderTimes times = time_loader(graph, data, row.loader, arguments.steps, seed);
      row.step_s.insert(row.step_s.end(), times.step_s.begin(), times.step_s.end());
      row.data = std::move(times.data);
    }
  console.end_progress();
  for (LoaderRow& row : rows) std::sort(row.step_s.begin(), row.step_s.end());
  const double synthetic_s = rows.front().median_s();
  for (LoaderRow& row : rows) {
    if (row.data.actors.empty()) continue;
    row.predicted_s = predicted_step(row, synthetic_s);
    row.limits = verdict_of(row.data).text;
  }
  return rows;
}

Json json_of(const LoaderRow& row, double synthetic_s, std::int64_t batch, double one_core) {
  return {{"pictures", fmt::format("{}x{}", row.size.width, row.size.height)},
          {"loader", row.loader.name},
          {"steps", row.step_s.size()},
          {"step_time_s", row.median_s()},
          {"step_time_quartiles_s", {quantile(row.step_s, 0.25), quantile(row.step_s, 0.75)}},
          {"images_per_s", static_cast<double>(batch) / row.median_s()},
          {"loss_to_synthetic", row.median_s() / synthetic_s - 1},
          {"predicted_step_time_s", row.predicted_s ? Json(*row.predicted_s) : Json()},
          {"images_per_s_a_core", one_core},
          {"limits", row.limits},
          {"data", row.data.actors.empty() ? Json() : to_json(row.data)}};
}

void add_row(const LoaderRow& row, double synthetic_s, std::int64_t batch, Table& table) {
  table.add({fmt::format("{} x {}", row.size.width, row.size.height), row.loader.name,
             to_text(duration_from_seconds(row.median_s())),
             fmt::format("{:.3g} to {:.3g} ms", 1e3 * quantile(row.step_s, 0.25),
                         1e3 * quantile(row.step_s, 0.75)),
             fmt::format("{:.1f}", static_cast<double>(batch) / row.median_s()),
             fmt::format("{:+.1f} %", 100 * (row.median_s() / synthetic_s - 1)),
             row.predicted_s ? to_text(duration_from_seconds(*row.predicted_s)) : "",
             row.limits.empty() ? "" : row.limits.substr(0, row.limits.find(':'))});
}

PhysicalGraph graph_of(const DataPipelineArguments& arguments) {
  JobArguments job;
  job.plan_or_model = arguments.model;
  job.cluster = "cpu:ranks=1,memory=8GiB";
  job.strategy = fmt::format("micro_batch={}", arguments.batch);
  job.global_batch = arguments.batch;
  return physical_graph(load_planned_job(job));
}

void require_arguments(const DataPipelineArguments& arguments) {
  for (const auto& [name, value] :
       {std::pair{"--batch", arguments.batch}, std::pair{"--rounds", arguments.rounds},
        std::pair{"--pictures", arguments.pictures}})
    require(value > 0, ErrorCode::kUsage, "{} must be positive, not {}", name, value);
  require(arguments.steps > kWarmUpOfLoader + 1, ErrorCode::kUsage,
          "--steps {}: {} are warm-up, and two more are needed", arguments.steps, kWarmUpOfLoader);
}

void run_data_pipeline(DataPipelineArguments arguments, const CommonOptions& common,
                       Console& console) {
  if (arguments.quick) arguments.rounds = 1;
  require_arguments(arguments);
  require_results_folder(common, {"results.jsonl"});
  const PhysicalGraph graph = graph_of(arguments);
  require(has_input(graph, "images"), ErrorCode::kUsage, "{}: the model reads no images",
          arguments.model);
  if (common.dry_run)
    return say_dry_run(
        "experiment",
        fmt::format("train {} with {} loaders", arguments.model, all_loaders().size()),
        in_results(common, {"results.jsonl"}), console);
  const LoadWatch watch;
  Table table({"pictures", "loader", "step", "quartiles", "images/s", "against synthetic",
               "predicted", "limits"});
  std::string lines;
  Json rows = Json::array();
  for (const PictureSize size : kSizes) {
    const PictureFolder folder;
    write_pictures(folder.path, size, arguments.pictures, kClasses);
    const std::shared_ptr<const ImageSource> images = image_folder(folder.path);
    const double one_core = images_per_second(*images, 64, 2 * arguments.pictures);
    console.say(fmt::format("{} x {}: {:.0f} images/s a core, read, decoded and augmented",
                            size.width, size.height, one_core));
    const ImageData data(images, "pictures");
    const std::vector<LoaderRow> found =
        rows_of_size(graph, size, data, arguments, common.seed, console);
    for (const LoaderRow& row : found) {
      add_row(row, found.front().median_s(), arguments.batch, table);
      rows.push_back(json_of(row, found.front().median_s(), arguments.batch, one_core));
      lines += rows.back().dump() + "\n";
    }
    if (arguments.quick) break;
  }
  console.say(table.text());
  if (const auto load = watch.load(); load && !load->is_quiet())
    console.say(busy_text(*load) + " meanwhile: differences of a few percent say little");
  if (!common.out.empty()) {
    write_file_whole(common.out + "/results.jsonl", lines);
    console.say(fmt::format("every row in {}/results.jsonl", common.out));
  }
  console.document("experiment", {{"model", arguments.model}, {"rows", rows}});
}

}  // namespace

Verb experiment_data_pipeline_verb() {
  const auto arguments = std::make_shared<DataPipelineArguments>();
  DataPipelineArguments& a = *arguments;
  return {
      .path = "experiment data-pipeline",
      .text = "Images from JPEGs beside synthetic ones, on a CPU rank",
      .examples =
          "Examples:\n  sextant experiment data-pipeline --out e1\n"
          "  sextant experiment data-pipeline --quick --model "
          "conv:blocks=1x1,channels=8x16,height=32,width=32",
      .options =
          {
              {"--model", &a.model, "one that reads images"},
              {"--batch", &a.batch, "images of a step"},
              {"--steps", &a.steps, "of a loader, two of them warm-up"},
              {"--rounds", &a.rounds, "of all loaders in turn"},
              {"--pictures", &a.pictures, "JPEGs of each size"},
              {"--quick", &a.quick, "one size, one round"},
          },
      .action = [arguments](const CommonOptions& common,
                            Console& console) { run_data_pipeline(*arguments, common, console); },
      .is_seeded = true,
      .writes_results = true,
      .has_dry_run = true};
}

}  // namespace sextant
