// Changes by text: what they change, what follows, what is refused.

#include "simulator/reports/what_if.h"

#include "core/base/error.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

namespace sextant::what_if_test {
namespace {

Cluster h100() { return load_cluster("dgx-h100:nodes=4"); }

Cluster after(const Cluster& cluster, const char* text) {
  return changed(cluster, parse_what_if(text));
}

}  // namespace

TEST_CASE("a factor changes the number that its key names, and says what it was") {
  const Cluster before = h100();
  CHECK(after(before, "link.ib.bandwidth=2x").inter_node.bandwidth.value ==
        2 * before.inter_node.bandwidth.value);
  CHECK(after(before, "link.inter_node.latency=+50%").inter_node.latency.value ==
        doctest::Approx(1.5 * before.inter_node.latency.value));
  CHECK(after(before, "link.nvlink4.bandwidth=-20%").intra_node.bandwidth.value ==
        doctest::Approx(0.8 * before.intra_node.bandwidth.value));
  CHECK(after(before, "gpu.memory_bandwidth=0.5x").device.memory_bandwidth.value ==
        before.device.memory_bandwidth.value / 2);
  CHECK(after(before, "gpu.memory=2x").device.memory == 2 * before.device.memory);
  const Sourced launch = after(before, "host.launch=3x").device.launch_overhead;
  CHECK(launch.value == doctest::Approx(3 * before.device.launch_overhead.value));
  CHECK(launch.provenance == Provenance::kAssumed);
  CHECK(launch.source.find("what if host.launch=3x: was ") == 0);
}

TEST_CASE("a quantity has the unit of its key") {
  CHECK(after(h100(), "link.ib.bandwidth=100GB/s").inter_node.bandwidth.value == 100e9);
  CHECK(after(h100(), "link.ib.latency=2us").inter_node.latency.value == doctest::Approx(2e-6));
  CHECK(after(h100(), "gpu.flops.bf16=2PFLOP/s").device.peaks[0].flops_per_second.value == 2e15);
  CHECK(after(h100(), "gpu.memory=141GB").device.memory == Bytes(141'000'000'000));
  CHECK_THROWS_AS(after(h100(), "link.ib.bandwidth=2us"), Error);
  CHECK_THROWS_AS(after(h100(), "gpu.flops=2PFLOP/s"), Error);  // of which dtype?
}

TEST_CASE("all peaks follow gpu.flops, and device stands for gpu") {
  const Cluster before = h100(), doubled = after(before, "device.flops=2x");
  for (std::size_t i = 0; i < before.device.peaks.size(); ++i)
    CHECK(doubled.device.peaks[i].flops_per_second.value ==
          2 * before.device.peaks[i].flops_per_second.value);
}

TEST_CASE("measured times follow the rate that bounds them") {
  Cluster cluster = h100();
  cluster.device.measured = MeasuredKernels{
      DType::kBF16,
      Provenance::kMeasured,
      "here",
      {{"matmul:64x64x64", 1e6, Bytes(100), 8e-6}, {"elementwise", 0, Bytes(100), 4e-6}}};
  const auto times = [](const Cluster& of) {
    return std::pair(of.device.measured->kernels[0].seconds,
                     of.device.measured->kernels[1].seconds);
  };
  CHECK(times(after(cluster, "gpu.flops=2x")) == std::pair(4e-6, 4e-6));
  CHECK(times(after(cluster, "gpu.flops.bf16=2x")) == std::pair(4e-6, 4e-6));
  CHECK(times(after(cluster, "gpu.flops.f32=2x")) == std::pair(8e-6, 4e-6));
  CHECK(times(after(cluster, "gpu.memory_bandwidth=2x")) == std::pair(8e-6, 2e-6));
}

TEST_CASE("every key that is listed can be changed, and changes something") {
  for (const char* name : {"dgx-h100:nodes=4", "v100x8:nodes=2", "cpu:ranks=2,memory=2GiB"}) {
    const Cluster cluster = load_cluster(name);
    const auto keys = what_if_keys(cluster);
    CHECK(std::is_sorted(keys.begin(), keys.end()));
    for (const std::string& key : keys) {
      CAPTURE(key);
      const Cluster other = changed(cluster, {key, 0.9, ""});
      CHECK(to_json_text(other) != to_json_text(cluster));
    }
  }
}

TEST_CASE("changes without sense are refused with what would do") {
  for (const char* text :
       {"", "=", "gpu.flops", "gpu.flops=", "=2x", "gpu.flops=x", "gpu.flops=0x", "gpu.flops=-2x",
        "gpu.flops=-100%", "gpu.flops=+x", "gpu.flops=nanx", "gpu.flops=infx", "gpu.flops=1e400x"})
    CHECK_THROWS_AS(parse_what_if(text), Error);
  CHECK_THROWS_WITH_AS(after(h100(), "link.ibb.bandwidth=2x"),
                       doctest::Contains("did you mean 'link.ib.bandwidth'"), Error);
  // More than all of the bandwidth.
  CHECK_THROWS_WITH_AS(after(h100(), "link.ib.efficiency=2x"), doctest::Contains("efficiency"),
                       Error);
  CHECK_THROWS_WITH_AS(after(h100(), "gpu.memory=1e12x"),
                       doctest::Contains("a factor of 1e+12 is no machine's: 0.0001 to 10000"),
                       Error);
  CHECK_THROWS_WITH_AS(after(h100(), "link.ib.latency=3s"),
                       doctest::Contains("inter_node.latency is 3 s, no machine's"), Error);
  CHECK_THROWS_WITH_AS(after(h100(), "gpu.memory_bandwidth=3KB/s"),
                       doctest::Contains("device.memory_bandwidth is 3000 B/s, no machine's"),
                       Error);
}

TEST_CASE("a change at the end of its range leaves times that are counted, or names what is not") {
  const Work work{1e15, Bytes(1 << 30), Bytes(1 << 30), "matmul:100000x100000x50000"};
  for (const std::string& key : what_if_keys(h100()))
    for (const char* factor : {"=0.0001x", "=10000x"}) {
      CAPTURE(key + factor);
      std::optional<Cluster> other;
      try {
        other = after(h100(), (key + factor).c_str());
      } catch (const Error& error) {
        CHECK(std::string(error.what()).find(key) != std::string::npos);
        continue;
      }
      CHECK(make_cost_model(*other, DType::kBF16)->duration(work) > Duration(0));
    }
  Cluster slow = h100();
  for (PeakRate& peak : slow.device.peaks) peak.flops_per_second.value = 1e6;
  CHECK_THROWS_WITH_AS(make_cost_model(slow, DType::kBF16)->duration(work),
                       doctest::Contains("one matmul:100000x100000x50000 would take"), Error);
}

TEST_CASE("a sweep goes by factors from end to end") {
  const auto changes = parse_sweep("link.ib.bandwidth=0.25x..4x");
  REQUIRE(changes.size() == 9);
  CHECK(changes.front() == WhatIf{"link.ib.bandwidth", 0.25, ""});
  CHECK(changes[4].factor == doctest::Approx(1));
  CHECK(changes.back().factor == 4);
  for (std::size_t i = 1; i < changes.size(); ++i)
    CHECK(changes[i].factor / changes[i - 1].factor == doctest::Approx(std::sqrt(2.0)));
  CHECK(parse_sweep("gpu.flops=1x..2x:5").size() == 5);
  CHECK(parse_sweep("gpu.flops=2x..1x:2")[1].factor == 1);
  const auto list = parse_sweep("link.ib.latency=1us,2us,2x");
  REQUIRE(list.size() == 3);
  CHECK(list[1].quantity == "2us");
  CHECK(list[2].factor == 2);
  for (const char* text : {"gpu.flops=1x..", "gpu.flops=..2x", "gpu.flops=1x..2x:1",
                           "gpu.flops=1,,2", "gpu.flops=1x..2x:1.5", "gpu.flops=1e-9x..2x",
                           "gpu.flops=1x,2x,1x", "gpu.flops=1GB/s..2GB/s", "gpu.flops=1x..2x:9999"})
    CHECK_THROWS_AS(parse_sweep(text), Error);
}

}  // namespace sextant::what_if_test
