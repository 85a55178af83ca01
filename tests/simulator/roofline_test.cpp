// Closed forms of the compute cost model.

#include "core/base/error.h"
#include "core/graphs/kernel_names.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <cmath>
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

double microseconds(Duration duration) { return 1e6 * to_seconds(duration); }

// Tiles of 128 x 64 on 10 units. m = n = 640: 50 tiles, 5 waves. k = 384, plus half an edge of 128.
// time = 5 waves x 10 units x 128 x 64 x 448 x 2 FLOP / (0.9 x 50 TFLOP/s) = 8.15559 us, plus 2 us;
// 25 whole tiles in 3 waves would take 8.808 us.
TEST_CASE("a matmul pays for whole waves of tiles and for filling them") {
  Cluster cluster = round_numbers();
  cluster.device.matmul_tile.value = 128;
  cluster.device.matmul_units.value = 10;
  const Work work{2.0 * 640 * 640 * 384, Bytes(0), Bytes(0), "matmul:640x640x384"};
  CHECK(microseconds(time_of(cluster, work)) == doctest::Approx(10.15559));
  SUBCASE("one row more than a full tile starts a new row of tiles") {
    // 6 x 5 whole tiles are still 3 waves: 220,200,960 multiply-adds for 641 x 640 x 384.
    const Work wider{2.0 * 641 * 640 * 384, Bytes(0), Bytes(0), "matmul:641x640x384"};
    CHECK(microseconds(time_of(cluster, wider)) == doctest::Approx(10.808038));
  }
  SUBCASE("a card may lose more of the inner extent") {
    // 128 of it: 5 waves x 10 units x 128 x 64 x 512 x 2 FLOP / 45 TFLOP/s = 9.32068 us, plus 2 us.
    KernelRate rate{.kernel = "matmul"};
    rate.lost_extent.value = 128;
    cluster.device.rates.push_back(rate);
    CHECK(microseconds(time_of(cluster, work)) == doctest::Approx(11.32068));
  }
  SUBCASE("without units the shape is no matter") {
    cluster.device.matmul_units.value = 0;
    // 314,572,800 FLOP / 50 TFLOP/s = 6.291456 us, plus 2 us.
    CHECK(time_of(cluster, work) == Duration(8'291'456));
  }
}

// m = n = 256: 4 tiles on 10 units. k = 65,536 goes over the units in 32 parts of 2,048: 13 waves
// x 10 units x 128 x 128 x (2,048 + 64) x 2 FLOP / 50 TFLOP/s = 179.9356 us, and half of 32 parts
// of 256 x 256 x 4 B, written and read at 0.8 TB/s, 10.48576 us; plus 2 us. Half of it in 16 parts:
// 7 waves, 96.8884 us and 5.24288 us.
TEST_CASE("a sum over few tiles is split over the units, and pays for its parts") {
  Cluster cluster = round_numbers();
  cluster.device.matmul_tile.value = 128;
  cluster.device.matmul_units.value = 10;
  const auto time = [&](std::int64_t k) {
    const std::string key = "matmul:256x256x" + std::to_string(k);
    return microseconds(
        time_of(cluster, {2.0 * 256 * 256 * static_cast<double>(k), Bytes(0), Bytes(0), key}));
  };
  CHECK(time(65'536) == doctest::Approx(192.42138));
  CHECK(time(32'768) == doctest::Approx(104.13130));
}

// What an epilogue moves beside the operands, 8 MB of 8 + 6 MB, comes behind the product: 10 us at
// 0.8 TB/s; 2 x 1000^3 FLOP take 40 us.
TEST_CASE("bytes beyond the operands of a product are added") {
  const Work plain{2e9, Bytes(4'000'000), Bytes(2'000'000), "matmul:1000x1000x1000"};
  const Work fused{2e9, Bytes(12'000'000), Bytes(2'000'000), "matmul:1000x1000x1000"};
  CHECK(time_of(round_numbers(), plain) == Duration(42'000'000));
  CHECK(time_of(round_numbers(), fused) == Duration(52'000'000));
}

KernelRate attention_rate() {
  KernelRate rate{.kernel = "attention", .dtype = DType::kBF16};
  rate.flops_efficiency.value = 0.8;
  rate.overhead.value = 5e-6;
  rate.lost_extent.value = 512;
  rate.pair_time.value = 1e-12;
  return rate;
}

// 10^7 pairs of heads of 64: 2.56e9 FLOP / 80 TFLOP/s = 32 us, and 10 us of exponentials; half as
// much again for 512 of 1,024 keys; plus 5 us. A head of 80 is computed as one of 128: 64 us for
// its products. Bounds know no keys.
TEST_CASE("attention pays for exponentials, for blocks that are not full, and for heads in steps") {
  Cluster cluster = round_numbers();
  cluster.device.rates = {attention_rate()};
  const auto time = [&](const char* kernel, double head) {
    return microseconds(time_of(cluster, {1e7 * 4 * head, Bytes(0), Bytes(0), kernel}));
  };
  CHECK(time("attention:1024x64", 64) == doctest::Approx(68));
  CHECK(time("attention:1024x80", 80) == doctest::Approx(116));
  CHECK(time("attention:0x64", 64) == doctest::Approx(47));
  SUBCASE("a rate of another type is not this one's") {
    cluster.device.rates[0].dtype = DType::kF16;
    CHECK(time("attention:1024x64", 64) == doctest::Approx(2 + 51.2));
  }
}

TEST_CASE("a family with a rate of its own has that, and rows of norms cost as if longer") {
  Cluster cluster = round_numbers();
  KernelRate rate{.kernel = "normalization"};
  rate.bytes_efficiency.value = 0.5;
  rate.lost_extent.value = 100;
  cluster.device.rates = {rate};
  const auto time = [&](const char* kernel) {
    return microseconds(time_of(cluster, {0, Bytes(10'000'000), Bytes(0), kernel}));
  };
  CHECK(time("normalization:100") == doctest::Approx(42));  // twice 20 us
  CHECK(time("normalization") == doctest::Approx(22));
  CHECK(time("elementwise") == doctest::Approx(14.5));
}

TEST_CASE("products whose rows are not aligned run at the rate of such") {
  Cluster cluster = round_numbers();
  KernelRate rate{.kernel = std::string(kLooseProducts)};
  rate.flops_efficiency.value = 0.1;
  cluster.device.rates = {rate};
  const auto time = [&](const char* kernel) {
    return microseconds(time_of(cluster, {1e9, Bytes(0), Bytes(0), kernel}));
  };
  CHECK(time("matmul:1000x1000x504") == doctest::Approx(22));
  CHECK(time("matmul:1000x1000x503") == doctest::Approx(102));
}

// BERT's vocabulary: rows of 61,044 bytes in 16 bits, of 122,088 in f32.
TEST_CASE("rows that are not aligned slow tensor cores down, which f32 does not have") {
  for (const char* const name : {"hgx-h200:nodes=1", "dgx-a100:nodes=1", "dgx1-v100:nodes=1"}) {
    CAPTURE(std::string(name));
    const Cluster cluster = load_cluster(name);
    const auto slower = [&](DType dtype) {
      const auto cost = make_roofline(cluster, dtype);
      const double flops = 2.0 * 4096 * 30522 * 768;
      const auto time = [&](const char* kernel) {
        return microseconds(cost->duration({flops, Bytes(0), Bytes(0), kernel}));
      };
      return time("matmul:4096x30522x768") / time("matmul:4096x30528x768");
    };
    CHECK(slower(DType::kF32) == doctest::Approx(1).epsilon(0.01));
    CHECK(slower(DType::kF16) > 3);
  }
}

TEST_CASE("all keys seen lose half as many as a causal row") {
  Cluster cluster = round_numbers();
  KernelRate rate{.kernel = "attention"};
  rate.flops_efficiency.value = 0.5;
  rate.pair_time.value = 1e-12;
  rate.lost_extent.value = 100;
  cluster.device.rates = {rate};
  const auto time = [&](const char* kernel) {
    return microseconds(time_of(cluster, {1e9, Bytes(0), Bytes(0), kernel})) - 2;
  };
  // 1e9 / 256 pairs of 1 ps beside 20 us of products.
  const double full = 20 + 1e9 / 256 * 1e-6;
  CHECK(time("attention:100x64") == doctest::Approx(2 * full).epsilon(1e-3));
  CHECK(time("attention:100x64:all") == doctest::Approx(1.5 * full).epsilon(1e-3));
}

TEST_CASE("more work never takes less time") {
  Cluster cluster = load_cluster("hgx-h200:nodes=1");
  const auto cost = make_roofline(cluster, DType::kBF16);
  const auto time = [&](double m, double n, double k) {
    const auto whole = [](double extent) { return std::llround(extent); };
    return cost->duration({2 * m * n * k, Bytes(0), Bytes(0),
                           "matmul:" + std::to_string(whole(m)) + "x" + std::to_string(whole(n)) +
                               "x" + std::to_string(whole(k))});
  };
  for (const double m : {64, 136, 1000, 1024, 4096, 20480})
    for (const double n : {64, 264, 1600, 4096})
      for (const double k : {64, 1024, 8200, 65536}) {
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        for (const double more : {8.0, 128.0}) {
          CHECK(time(m + more, n, k) >= time(m, n, k));
          CHECK(time(m, n + more, k) >= time(m, n, k));
          CHECK(time(m, n, k + more) >= time(m, n, k));
        }
      }
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
