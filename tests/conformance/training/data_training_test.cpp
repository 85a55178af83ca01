// Training on images: with actors that read, decode and augment beside the step, under any plan and
// with any number of registers, it is the training of a loader that makes every batch in one piece.
#include "actor/runtime.h"
#include "compiler/expand/data_actors.h"
#include "core/base/error.h"
#include "io/images/image_data.h"
#include "io/images/jpeg.h"
#include "io/training_host.h"
#include "models/conv_net.h"
#include "tests/conformance/training/training_runs.h"
#include "tests/io/data/data_folder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace sextant::data_training_test {
namespace {

// Two classes of three images each, all of different sizes.
std::shared_ptr<const ImageSource> made_images(const testing::DataFolder& folder) {
  for (int i = 0; i < 6; ++i) {
    Pixels pixels{12 + i, 10 + 2 * i, {}};
    for (std::int64_t v = 0; v < pixels.width * pixels.height * 3; ++v)
      pixels.values.push_back(static_cast<std::uint8_t>((v * (i + 1)) % 251));
    const std::vector<std::byte> bytes = encoded_jpeg(pixels, 90);
    folder.write((i % 2 == 0 ? "even/" : "odd/") + std::to_string(i) + ".jpg",
                 {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return image_folder(folder.path.string());
}

TrainingCase small_conv() {
  TrainingCase training;
  training.build = [](std::int64_t samples, DType dtype) {
    ConvNetConfig config;
    config.name = "small";
    config.blocks = {1};
    config.channels = {4};
    config.stem_channels = 4;
    config.stem_kernel = 3;
    config.stem_stride = 1;
    config.stem_pool = false;
    config.bottleneck = false;
    config.height = config.width = 6;
    config.classes = 2;
    return build_graph(config, samples, dtype);
  };
  training.global_batch = 4;
  training.steps = 5;
  return training;
}

std::vector<double> losses_of(const PhysicalGraph& graph, const SampleData& data,
                              std::int64_t steps, std::int32_t registers, CpuQueueKind queues) {
  CpuOptions options;
  options.queues = queues;
  CpuWorld world(graph, options);
  TrainingHost host(data, 5, Bytes(1 << 20), registers);
  run_all(graph, world.devices(), host, steps);
  std::vector<double> losses;
  for (const StepMetrics& metrics : host.steps()) losses.push_back(metrics.loss());
  return losses;
}

PhysicalGraph with_actors(PhysicalGraph graph, const SampleData& data, std::int32_t registers) {
  add_data_actors(graph, data.main_input(), data.stage_kinds(), registers);
  return graph;
}

TEST_CASE("actors before the images change no loss, whatever their registers") {
  if (!has_jpeg()) return;
  const testing::DataFolder folder("sextant_data_training");
  const ImageData data(made_images(folder), "images");
  const TrainingCase training = small_conv();
  for (const char* strategy : {"micro_batch=4", "micro_batch=1", "dp=2 micro_batch=1"}) {
    CAPTURE(strategy);
    const PhysicalGraph plain = compile_case(training, strategy);
    const std::vector<double> wanted =
        losses_of(plain, data, training.steps, 1, CpuQueueKind::kInline);
    REQUIRE(wanted.size() == 5);
    CHECK(std::set<double>(wanted.begin(), wanted.end()).size() == 5);
    for (const std::int32_t registers : {1, 2, 3}) {
      CAPTURE(registers);
      const PhysicalGraph graph = with_actors(plain, data, registers);
      CHECK(validate(graph).empty());
      for (const CpuQueueKind queues : {CpuQueueKind::kInline, CpuQueueKind::kAsynchronous})
        CHECK(losses_of(graph, data, training.steps, registers, queues) == wanted);
    }
  }
}

TEST_CASE("every plan trains on the same images") {
  if (!has_jpeg()) return;
  const testing::DataFolder folder("sextant_data_plans");
  const ImageData data(made_images(folder), "images");
  const TrainingCase training = small_conv();
  std::vector<double> wanted;
  for (const char* strategy :
       {"micro_batch=4", "dp=4 micro_batch=1", "tp=2 micro_batch=4", "dp=2 micro_batch=2 zero=1"}) {
    CAPTURE(strategy);
    const PhysicalGraph graph = with_actors(compile_case(training, strategy), data, 2);
    const std::vector<double> found =
        losses_of(graph, data, training.steps, 2, CpuQueueKind::kAsynchronous);
    if (wanted.empty()) wanted = found;
    // Of f64: sums of another order differ by about 1e-16 per term; statistics of batch norm divide
    // by small deviations.
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - wanted[i]) < 1e-8);
  }
}

TEST_CASE("the order of launches and what their actors tell each other stay as they are") {
  if (!has_jpeg()) return;
  const testing::DataFolder folder("sextant_data_order");
  const ImageData data(made_images(folder), "images");
  const PhysicalGraph plain = compile_case(small_conv(), "dp=2 micro_batch=1");
  const PhysicalGraph graph = with_actors(plain, data, 2);
  const auto hashes = [&](const PhysicalGraph& of, std::int32_t registers) {
    CpuOptions options;
    options.queues = CpuQueueKind::kAsynchronous;
    CpuWorld world(of, options);
    TrainingHost host(data, 5, Bytes(1 << 20), registers);
    return run_all(of, world.devices(), host, 3);
  };
  CHECK(hashes(plain, 1) == hashes(graph, 2));
}

TEST_CASE("an image that cannot be decoded ends the run with its name") {
  if (!has_jpeg()) return;
  const testing::DataFolder folder("sextant_data_bad");
  const auto images = made_images(folder);
  folder.write("odd/3.jpg", "no image");
  const ImageData data(images, "images");
  const PhysicalGraph graph = with_actors(compile_case(small_conv(), "micro_batch=4"), data, 2);
  try {
    losses_of(graph, data, 5, 2, CpuQueueKind::kAsynchronous);
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    CHECK(std::string(error.what()).find("odd/3.jpg") != std::string::npos);
  }
}

TEST_CASE("registers that make no sense, and inputs that are not there, are refused") {
  PhysicalGraph graph = compile_case(small_conv(), "micro_batch=4");
  const std::vector<std::string> kinds = {"read"};
  CHECK_THROWS_AS(add_data_actors(graph, "images", kinds, 0), Error);
  CHECK_THROWS_AS(add_data_actors(graph, "images", kinds, kMostDataRegisters + 1), Error);
  CHECK_THROWS_WITH_AS(add_data_actors(graph, "pictures", kinds, 2),
                       "no rank has an input 'pictures'", Error);
}

}  // namespace
}  // namespace sextant::data_training_test
