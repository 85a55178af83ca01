// A point per size of pictures and loader; each takes turns with synthetic data, so that both see
// the same machine.
#include "experiments/data_pipeline/data_pipeline.h"

#include "compiler/expand/expand.h"
#include "core/base/check.h"
#include "core/base/quantile.h"
#include "experiments/data_pipeline/data_times.h"
#include "experiments/data_pipeline/loader_run.h"
#include "experiments/data_pipeline/pictures.h"
#include "experiments/jobs/job.h"
#include "experiments/sweeps/shapes.h"
#include "io/images/image_data.h"
#include "io/training_host.h"
#include "models/any_model.h"
#include "simulator/costs/models.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace sextant::data_pipeline {

namespace {

constexpr std::array<PictureSize, 2> kSizes = {{{256, 256}, {500, 375}}};
constexpr std::int64_t kClasses = 4;
constexpr std::uint64_t kSeed = 0;

std::string size_text(PictureSize size) { return fmt::format("{}x{}", size.width, size.height); }

constexpr const char* kAsBytes = " u8";  // behind the loader in names of points

std::string point_name(PictureSize size, const Loader& loader, bool as_bytes = false) {
  return fmt::format("{} {}{}", size_text(size), loader.name, as_bytes ? kAsBytes : "");
}

// The model that takes its images as bytes and normalises them itself; nothing where there is none,
// or where the question says how they come.
std::optional<std::string> model_of_bytes(const std::string& model) {
  if (model.find("input=") != std::string::npos) return std::nullopt;
  const bool has_settings = model.find(':') != std::string::npos;
  const std::string of_bytes = fmt::format("{}{}input=u8", model, has_settings ? "," : ":");
  try {
    load_any_model(of_bytes);
  } catch (const Error&) {
    return std::nullopt;
  }
  return of_bytes;
}

// A folder that goes away, also where something fails.
class PictureFolder {
 public:
  PictureFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "sextant-pictures-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, ErrorCode::kBadInput,
            "no folder for pictures can be made in {}",
            std::filesystem::temp_directory_path().string());
    path_ = name;
  }
  ~PictureFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PictureFolder(const PictureFolder&) = delete;
  PictureFolder& operator=(const PictureFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

PhysicalGraph graph_of(const Question& question) {
  const Job job = make_job(
      {.plan_or_model = question.model,
       .cluster = question.backend == "cuda" ? "hgx-h200:nodes=1" : "cpu:ranks=1,memory=8GiB",
       .global_batch = question.batch});
  const Strategy strategy = parse_strategy(fmt::format("micro_batch={}", question.batch));
  const TimingModels timing = make_timing_models(job.cluster, job.dtype);
  return compile(training_graph(job, strategy), strategy, job.global_batch, *timing.cost,
                 *timing.network);
}

void require_sense(const Question& question) {
  for (const auto& [name, value] :
       {std::pair{"--batch", question.batch}, std::pair{"--rounds", question.rounds},
        std::pair{"--pictures", question.pictures}})
    require(value > 0, ErrorCode::kUsage, "{} must be positive, not {}", name, value);
  parse_loader_backend(question.backend);
  require(question.steps > kWarmUpOfLoader + 1, ErrorCode::kUsage,
          "--steps {}: {} are warm-up, and two more are needed", question.steps, kWarmUpOfLoader);
  require(has_input(graph_of(question), "images"), ErrorCode::kUsage,
          "{}: the model reads no images", question.model);
}

// Steps of one loader over all rounds.
struct Measured {
  std::vector<double> step_s;
  DataTimes data;  // of the last round

  void take(LoaderTimes times) {
    step_s.insert(step_s.end(), times.step_s.begin(), times.step_s.end());
    data = std::move(times.data);
  }
  double median_s() const { return median(step_s); }
  double spread() const {
    const auto [least, most] = std::minmax_element(step_s.begin(), step_s.end());
    return (*most - *least) / median_s();
  }
};

PointResult result_of(const Question& question, const Measured& own, const Measured& synthetic,
                      double one_core) {
  const double step_s = own.median_s(), synthetic_s = synthetic.median_s();
  PointResult result = {.values = {{"step_s", step_s},
                                   {"images_per_s", static_cast<double>(question.batch) / step_s},
                                   {"synthetic_step_s", synthetic_s},
                                   {"over_synthetic", step_s / synthetic_s - 1},
                                   {"images_per_s_a_core", one_core}},
                        .spread = own.spread()};
  if (own.data.actors.empty()) return result;
  result.values.emplace_back("limits", verdict_of(own.data).text);
  for (const DataActorTime& actor : own.data.actors)
    result.values.emplace_back(actor.name + ".busy", actor.busy);
  return result;
}

PointResult measure(const Question& question, PictureSize size, const Loader& loader) {
  const PhysicalGraph graph = graph_of(question);
  const PictureFolder folder;
  write_pictures(folder.path(), size, question.pictures, kClasses);
  const std::shared_ptr<const ImageSource> images = image_folder(folder.path());
  const double one_core = images_per_second(*images, 64, 2 * question.pictures);
  const ImageData data(images, "pictures");
  const LoaderBackend backend = parse_loader_backend(question.backend);
  Measured own, synthetic;
  for (std::int64_t round = 0; round < question.rounds; ++round) {
    synthetic.take(time_loader(graph, data, all_loaders().front(), backend, question.steps, kSeed));
    own.take(time_loader(graph, data, loader, backend, question.steps, kSeed));
  }
  return result_of(question, own, synthetic, one_core);
}

SweepPoint point_of(const Question& question, PictureSize size, const Loader& loader,
                    bool as_bytes = false) {
  return {.name = point_name(size, loader, as_bytes),
          .way = ResultWay::kMeasured,
          .parameters = {{"model", question.model},
                         {"batch", static_cast<double>(question.batch)},
                         {"steps", static_cast<double>(question.steps)},
                         {"rounds", static_cast<double>(question.rounds)},
                         {"pictures", static_cast<double>(question.pictures)},
                         {"backend", question.backend},
                         {"size", size_text(size)},
                         {"loader", loader.name}}};
}

std::vector<SweepPoint> points(const Question& question, bool quick) {
  std::vector<SweepPoint> points;
  for (const PictureSize size : kSizes)
    for (const Loader& loader : all_loaders())
      if (!loader.is_synthetic && (!quick || size.width == kSizes.front().width))
        points.push_back(point_of(question, size, loader));
  if (const auto of_bytes = model_of_bytes(question.model)) {
    Question bytes = question;
    bytes.model = *of_bytes;
    for (const PictureSize size : kSizes)
      if (!quick || size.width == kSizes.front().width)
        points.push_back(point_of(bytes, size, all_loaders().back(), true));
  }
  return points;
}

PointResult evaluate(Question question, const SweepPoint& point) {
  question.model = word_of(point.parameters, "model");
  for (const PictureSize size : kSizes)
    for (const Loader& loader : all_loaders())
      if (word_of(point.parameters, "size") == size_text(size) &&
          word_of(point.parameters, "loader") == loader.name)
        return measure(question, size, loader);
  fail(ErrorCode::kInternal, "'{}' is no point", point.name);
}

// Two registers with images as floats or as bytes, whichever is the faster; nothing where there is
// no row of either.
std::optional<std::string> faster_input(const ResultRows& rows, PictureSize size) {
  const std::string floats = point_name(size, all_loaders().back());
  const std::string bytes = point_name(size, all_loaders().back(), true);
  const auto of_floats = rows.value(floats, "step_s"), of_bytes = rows.value(bytes, "step_s");
  if (!of_floats && !of_bytes) return std::nullopt;
  return of_bytes && (!of_floats || *of_bytes < *of_floats) ? bytes : floats;
}

// That two registers lose less than 3 % to synthetic data.
ShapeClaim two_registers(const ResultRows& rows, PictureSize size) {
  ShapeClaim shape = {
      fmt::format("{}: two registers lose less than 3 % to synthetic data", size_text(size)),
      std::nullopt, "its row is missing"};
  const std::string point = faster_input(rows, size).value_or("");
  const auto over = rows.value(point, "over_synthetic");
  if (!over) return shape;
  shape.holds = *over < 0.03;
  for (const SweepRow& row : rows.all())
    if (row.point.name == point)
      shape.detail = fmt::format("{}: {:+.1f} %; {}", point, 100 * *over,
                                 word_of(row.result.values, "limits"));
  return shape;
}

ShapeClaim more_registers(const ResultRows& rows, PictureSize size) {
  const std::vector<Loader> loaders = all_loaders();
  ShapeClaim shape = {fmt::format("{}: a second register does not cost time", size_text(size)),
                      std::nullopt, "a row is missing"};
  const auto one = rows.value(point_name(size, loaders[loaders.size() - 2]), "over_synthetic");
  const auto two = rows.value(point_name(size, loaders.back()), "over_synthetic");
  if (!one || !two) return shape;
  shape.holds = *two < *one + 0.03;
  shape.detail = fmt::format("{:+.1f} % with one, {:+.1f} % with two", 100 * *one, 100 * *two);
  return shape;
}

ShapeClaim bytes_cost_nothing(const ResultRows& rows, PictureSize size) {
  return ratio_shape(rows,
                     fmt::format("{}: images as bytes make a step no longer", size_text(size)),
                     {"step_s", "step"}, point_name(size, all_loaders().back(), true),
                     point_name(size, all_loaders().back()), {.most = 1.03});
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  std::vector<ShapeClaim> shapes;
  for (const PictureSize size : kSizes) {
    shapes.push_back(bytes_cost_nothing(rows, size));
    shapes.push_back(two_registers(rows, size));
    shapes.push_back(more_registers(rows, size));
  }
  return shapes;
}

}  // namespace

Experiment experiment(const Question& question) {
  // The default makes sense, and every program that has a catalogue of experiments asks it.
  if (question != Question()) require_sense(question);
  return {.name = "data-pipeline",
          .question = "Does a step wait for its images (arXiv 2110.15032, figure 9)?",
          .expectation =
              "not with two registers where a core is to spare and decoding takes less "
              "than a step; else the trace names who limits",
          .baseline = "synthetic images, which cost nothing",
          .columns = {{"step_s", "step", "s"},
                      {"synthetic_step_s", "synthetic", "s"},
                      {"over_synthetic", "over synthetic", ""},
                      {"images_per_s", "images", "1/s"},
                      {"images_per_s_a_core", "images a core", "1/s"},
                      {"limits", "limits", ""}},
          .points = [question](bool quick) { return points(question, quick); },
          .evaluate = [question](const SweepPoint& point) { return evaluate(question, point); },
          .shapes = shapes};
}

}  // namespace sextant::data_pipeline
