// Closed forms of the compute cost model.

#include "core/base/error.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <string>

namespace sextant::roofline_test {
namespace {

// 100 TFLOP/s at 50 %, 1 TB/s at 80 %, 2 us per kernel.
Cluster round_numbers() {
  Cluster cluster;
  cluster.device.name = "round";
  cluster.device.peaks = {{DType::kBF16, {100e12, Provenance::kAssumed, ""}}};
  cluster.device.matmul_efficiency.value = 0.5;
  cluster.device.memory_bandwidth.value = 1e12;
  cluster.device.memory_efficiency.value = 0.8;
  cluster.device.kernel_overhead.value = 2e-6;
  cluster.device.launch_overhead.value = 5e-6;
  return cluster;
}

Duration time_of(const Cluster& cluster, const Work& work) {
  return make_roofline(cluster, DType::kBF16)->duration(work);
}

// 1e9 FLOP / 50 TFLOP/s = 20 us > 8 MB / 0.8 TB/s = 10 us; plus 2 us.
TEST_CASE("the larger of compute and memory time counts") {
  CHECK(time_of(round_numbers(), {1e9, Bytes(4'000'000), Bytes(4'000'000), "attention"}) ==
        Duration(22'000'000));
  // 40 MB / 0.8 TB/s = 50 us.
  CHECK(time_of(round_numbers(), {1e9, Bytes(30'000'000), Bytes(10'000'000), "elementwise"}) ==
        Duration(52'000'000));
}

TEST_CASE("an act without work costs one kernel") {
  CHECK(time_of(round_numbers(), {}) == Duration(2'000'000));
  CHECK(time_of(round_numbers(), {0, Bytes(0), Bytes(0), "matmul:0x128x64"}) ==
        Duration(2'000'000));
}

TEST_CASE("a launch costs the host its overhead") {
  CHECK(make_roofline(round_numbers(), DType::kBF16)->launch_cost() == Duration(5'000'000));
}

// Tiles of 128 on 10 units. m = n = 640: 25 tiles, 3 waves. k = 384, plus one edge of 128.
// time = 3 waves x 10 units x 128 x 128 x 512 x 2 FLOP / 50 TFLOP/s = 503,316,480 / 50e12
//      = 10.0663296 us, plus 2 us.
TEST_CASE("a matmul pays for whole waves of tiles and for filling them") {
  Cluster cluster = round_numbers();
  cluster.device.matmul_tile.value = 128;
  cluster.device.matmul_units.value = 10;
  const Work work{2.0 * 640 * 640 * 384, Bytes(0), Bytes(0), "matmul:640x640x384"};
  CHECK(time_of(cluster, work) == Duration(12'066'330));
  SUBCASE("one row more than a full tile starts a new row of tiles") {
    const Work wider{2.0 * 641 * 640 * 384, Bytes(0), Bytes(0), "matmul:641x640x384"};
    // 6 x 5 = 30 tiles are still 3 waves.
    CHECK(time_of(cluster, wider) == Duration(12'066'330));
  }
  SUBCASE("without units the shape is no matter") {
    cluster.device.matmul_units.value = 0;
    // 314,572,800 FLOP / 50 TFLOP/s = 6.291456 us, plus 2 us.
    CHECK(time_of(cluster, work) == Duration(8'291'456));
  }
}

// m = n = 256: 4 tiles on 10 units. k = 65,536 goes over the units in 2 parts of 32,768:
// one wave x 10 units x 128 x 128 x (32,768 + 128) x 2 FLOP / 50 TFLOP/s = 215.5872256 us, and 2
// parts of 256 x 256 x 4 B, written and read at 0.8 TB/s, 1.31072 us; plus 2 us.
TEST_CASE("a long sum over few tiles is split over the units, and pays for its parts") {
  Cluster cluster = round_numbers();
  cluster.device.matmul_tile.value = 128;
  cluster.device.matmul_units.value = 10;
  const auto time = [&](std::int64_t k) {
    const std::string key = "matmul:256x256x" + std::to_string(k);
    return time_of(cluster, {2.0 * 256 * 256 * static_cast<double>(k), Bytes(0), Bytes(0), key});
  };
  CHECK(time(65'536) == Duration(218'897'946));
  // Whole: 4 tiles of one wave, 163,840 x (32,767 + 128) x 2 FLOP.
  CHECK(time(32'767) == Duration(217'580'672));
}

TEST_CASE("no shape is faster than peak times efficiency") {
  Cluster cluster = round_numbers();
  cluster.device.kernel_overhead.value = 0;
  cluster.device.matmul_tile.value = 128;
  cluster.device.matmul_units.value = 132;
  for (const std::int64_t extent : {1, 64, 128, 129, 1024, 16384}) {
    const double flops = 2.0 * static_cast<double>(extent * extent * extent);
    const std::string text = std::to_string(extent);
    const Work work{flops, Bytes(0), Bytes(0), "matmul:" + text + "x" + text + "x" + text};
    CAPTURE(extent);
    CHECK(time_of(cluster, work) >= duration_from_seconds(flops / 50e12));
  }
}

TEST_CASE("a matmul key that does not parse is refused by name") {
  for (const char* kernel :
       {"matmul:", "matmul:1x2", "matmul:1x2x3x4", "matmul:axbxc", "matmul:1x-2x3", "matmul:1x2x"})
    CHECK_THROWS_WITH_AS(time_of(round_numbers(), {1, Bytes(0), Bytes(0), kernel}),
                         doctest::Contains(kernel), Error);
}

TEST_CASE("a dtype without a peak is refused naming those that have one") {
  CHECK_THROWS_WITH_AS(make_roofline(round_numbers(), DType::kF64),
                       "device 'round' has no peak rate for f64; it has bf16", Error);
}

}  // namespace
}  // namespace sextant::roofline_test
