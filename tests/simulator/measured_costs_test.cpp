// Durations from measured kernels, solved by hand.
#include "core/base/error.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <string>

namespace sextant::measured_costs_test {
namespace {

// 100 TFLOP/s, 1 TB/s, no overheads: times of the roofline are plain.
Cluster with_measured(std::vector<MeasuredKernel> kernels) {
  Cluster cluster;
  cluster.name = "lab";
  cluster.device.name = "round";
  cluster.device.memory = Bytes(1 << 30);
  cluster.device.peaks = {{DType::kBF16, {100e12, Provenance::kAssumed, ""}}};
  cluster.device.matmul_efficiency.value = 1;
  cluster.device.memory_bandwidth.value = 1e12;
  cluster.device.memory_efficiency.value = 1;
  cluster.device.measured = MeasuredKernels{.dtype = DType::kBF16,
                                            .provenance = Provenance::kMeasured,
                                            .source = "cluster bench on round",
                                            .kernels = std::move(kernels)};
  return cluster;
}

MeasuredKernel matmul(std::int64_t m, std::int64_t n, std::int64_t k, double seconds) {
  return {
      .kernel = "matmul:" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
      .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
      .bytes = Bytes(2 * (m * n + m * k + n * k)),
      .seconds = seconds};
}

Work work_of(const MeasuredKernel& kernel) {
  return {.flops = kernel.flops, .read = kernel.bytes, .written = {}, .kernel = kernel.kernel};
}

Duration time_of(const Cluster& cluster, const MeasuredKernel& kernel) {
  return make_cost_model(cluster, DType::kBF16)->duration(work_of(kernel));
}

}  // namespace

TEST_CASE("work that was measured takes what it took, and the mean where it was measured twice") {
  const MeasuredKernel once = matmul(1024, 1024, 1024, 7e-6);
  MeasuredKernel again = once;
  again.seconds = 9e-6;
  CHECK(time_of(with_measured({once}), once) == Duration(7'000'000));
  CHECK(time_of(with_measured({once, again}), once) == Duration(8'000'000));
}

TEST_CASE("what starts no kernel takes no time, whatever was measured") {
  const MeasuredKernel view{"none", 0, Bytes(0), 1.3e-6};
  CHECK(time_of(with_measured({view}), view) == Duration());
}

// Of 2048 rows, one octave from both, the mean of the logarithms: the roofline says that 1024, 2048
// and 4096 rows move 270,336, 532,480 and 1,056,768 B at 1 TB/s; 7.398 and 30.281 times as long was
// measured, so 14.967 times 532,480 ps it is.
TEST_CASE("a matmul between two measured ones has the mean of their ratios to the roofline") {
  const Cluster cluster =
      with_measured({matmul(1024, 64, 64, 2e-6), matmul(4096, 64, 64, 4 * 8e-6)});
  CHECK(to_seconds(time_of(cluster, matmul(2048, 64, 64, 0))) ==
        doctest::Approx(7.9698e-6).epsilon(1e-3));
}

// Bytes count, not FLOPs: 4 MB in 4 us, so 8 MB in 8 us.
TEST_CASE("other kernels scale with bytes from the nearest measured one") {
  const Cluster cluster = with_measured({{"elementwise", 1e6, Bytes(4'000'000), 4e-6}});
  CHECK(time_of(cluster, {"elementwise", 2e6, Bytes(8'000'000), 0}) == Duration(8'000'000));
}

// A gradient has more FLOPs to a byte than what it is the gradient of, and so has a product whose
// epilogue writes a second output fewer: half as much of either takes half as long as the whole,
// whatever else of the family was measured nearby.
TEST_CASE("work that differs from measured work in its size alone has the rate of that work") {
  const Cluster attention = with_measured({{"attention", 34e9, Bytes(135'000'000), 100e-6},
                                           {"attention", 17e9, Bytes(67'500'000), 50e-6},
                                           {"attention", 86e9, Bytes(270'000'000), 400e-6}});
  const Duration gradient = time_of(attention, {"attention", 43e9, Bytes(135'000'000), 0});
  CHECK(to_seconds(gradient) == doctest::Approx(200e-6).epsilon(0.05));
  const Duration forward = time_of(attention, {"attention", 8.5e9, Bytes(33'750'000), 0});
  CHECK(to_seconds(forward) == doctest::Approx(25e-6).epsilon(0.05));

  MeasuredKernel fused = matmul(16384, 4096, 1024, 240e-6);
  fused.bytes = Bytes(310'000'000);  // of 176 MB without the second output
  const Cluster products =
      with_measured({matmul(16384, 4096, 1024, 180e-6), matmul(4096, 4096, 1024, 45e-6), fused});
  MeasuredKernel half = matmul(8192, 4096, 1024, 0);
  CHECK(to_seconds(time_of(products, half)) == doctest::Approx(90e-6).epsilon(0.05));
  half.bytes = Bytes(160'000'000);
  CHECK(to_seconds(time_of(products, half)) == doctest::Approx(120e-6).epsilon(0.05));
}

// 2 x 1024^3 FLOP at 100 TFLOP/s take 21.475 us; 7 ms were measured, 325.96 times as long.
TEST_CASE("what is far from all that was measured keeps their ratio, other families the roofline") {
  const Cluster cluster = with_measured({matmul(1024, 1024, 1024, 7e-3)});
  CHECK(to_seconds(time_of(cluster, matmul(1024, 1024, 32768, 0))) ==
        doctest::Approx(32 * 7e-3).epsilon(1e-6));
  CHECK(time_of(cluster, {"reduction", 0, Bytes(1'000'000), 0}) == Duration(1'000'000));
  CHECK(time_of(cluster, {"", 0, Bytes(0), 0}) == Duration(0));
}

// Each kernel from the other one: half as long as it took, and twice.
TEST_CASE("a table knows how far it is off where it is asked for others") {
  const Cluster cluster =
      with_measured({{"copy", 0, Bytes(1'000'000), 2e-6}, {"copy", 0, Bytes(2'000'000), 8e-6}});
  CHECK(leave_one_out_error(cluster) == doctest::Approx(0.5).epsilon(1e-6));
  Cluster none = cluster;
  none.device.measured.reset();
  CHECK(leave_one_out_error(none) == 0);
}

TEST_CASE("times measured in one type say nothing about another") {
  Cluster cluster = with_measured({matmul(1024, 1024, 1024, 7e-3)});
  cluster.device.peaks.push_back({DType::kF32, {50e12, Provenance::kAssumed, ""}});
  const Work work = work_of(matmul(1024, 1024, 1024, 0));
  CHECK(make_cost_model(cluster, DType::kF32)->duration(work) ==
        make_roofline(cluster, DType::kF32)->duration(work));
}

TEST_CASE("measured kernels are written and read alike, and refused by key where they are wrong") {
  const Cluster cluster = with_measured({matmul(64, 32, 16, 1.5e-6), {"copy", 0, Bytes(12), 2e-6}});
  const std::string text = to_json_text(cluster);
  const Cluster read = cluster_from_json(text, "lab.json");
  REQUIRE(read.device.measured.has_value());
  CHECK(read.device.measured->kernels == cluster.device.measured->kernels);
  CHECK(read.device.measured->source == "cluster bench on round");
  CHECK(to_json_text(read) == text);
  const auto refused = [&text](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    CHECK_THROWS_AS(cluster_from_json(changed, "lab.json"), Error);
  };
  refused("\"seconds\": 2e-06", "\"seconds\": 0.0");
  refused("\"bytes\": 12", "\"bytes\": -1");
  refused("\"flops\": 0.0", "\"flops\": -1.0");
  refused("\"kernel\": \"copy\"", "\"kernel\": \"\"");
}

}  // namespace sextant::measured_costs_test
