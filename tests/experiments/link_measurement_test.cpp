// The link of a cluster file from timers that obey a law: what the network model then says is the
// law.
#include "experiments/link_measurement.h"

#include "core/graphs/primitives.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/cluster_files/line_fit.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace sextant::link_measurement_test {
namespace {

// Quick to start or fast: of a tensor, 5 us and 20 GB/s, 9 us and 120 GB/s, or 20 us and a rate
// that differs by primitive, counted on the link.
class LawfulTimer final : public LinkTimer {
 public:
  explicit LawfulTimer(std::int64_t ranks) : ranks_(ranks) {}

  static double rate(Primitive primitive) {
    return primitive == Primitive::kTransfer ? 150e9 : 300e9 + 1e9 * static_cast<int>(primitive);
  }
  double law(Primitive primitive, double bytes) const {
    const double sent = bytes * link_bytes_per_tensor_byte(primitive, static_cast<double>(ranks_));
    return std::min({5e-6 + sent / 20e9, 9e-6 + sent / 120e9, 20e-6 + sent / rate(primitive)});
  }

  std::int64_t ranks() const override { return ranks_; }
  LinkSetting usual(Primitive primitive) const override {
    return {.blocks = primitive == Primitive::kTransfer ? 4 : 16, .is_registered = false};
  }
  double time(Primitive primitive, Bytes bytes, const LinkSetting& setting) override {
    const double usual_s = law(primitive, static_cast<double>(bytes.value));
    return setting == usual(primitive) ? usual_s : 10 * usual_s;  // must not reach the file
  }
  std::optional<BesideTiming> beside(Primitive, Bytes,
                                     std::span<const KernelContext> calls) override {
    if (calls[0].actor->kind.starts_with("attention")) return std::nullopt;
    const bool is_product = calls[0].actor->kind == "matmul";
    return BesideTiming{.kernel_alone_s = 1e-3,
                        .kernel_beside_s = is_product ? 1.25e-3 : 1e-3,
                        .link_alone_s = 3e-4,
                        .link_beside_s = is_product ? 6e-4 : 2.9e-4};
  }

 private:
  std::int64_t ranks_;
};

LinkMeasurement measured_by(LawfulTimer& timer) {
  return measure_links(timer, {.settings = {{.blocks = 8, .is_registered = true}},
                               .say = [](const std::string&) {}});
}

double modelled_seconds(const Cluster& cluster, Primitive primitive, std::int64_t bytes) {
  const bool is_transfer = primitive == Primitive::kTransfer;
  std::vector<Rank> ranks;
  for (std::int64_t rank = 0; rank < (is_transfer ? 2 : cluster.num_devices()); ++rank)
    ranks.emplace_back(static_cast<std::int32_t>(rank));
  Communication communication;
  communication.primitive = primitive;
  const auto n = static_cast<double>(cluster.num_devices());
  const double of_one = static_cast<double>(bytes) * link_bytes_per_tensor_byte(primitive, n);
  const CollectiveCost cost{.communication = &communication,
                            .members = ranks,
                            .global_bytes = Bytes(bytes),
                            .largest_volume = Bytes(static_cast<std::int64_t>(of_one))};
  return to_seconds(make_network_model(cluster)->duration(cost));
}

}  // namespace

TEST_CASE("a link from measured times takes these times, at sizes between them as well") {
  for (const std::int64_t ranks : {2, 4, 8}) {
    LawfulTimer timer(ranks);
    Cluster cluster = load_cluster("hgx-h200:nodes=1");
    cluster.devices_per_node = ranks;
    const FittedLink fitted = fit_link(cluster.intra_node, timer, measured_by(timer), "here");
    CHECK(fitted.worst < 0.01);
    cluster.intra_node = fitted.link;
    const Cluster read = cluster_from_json(to_json_text(cluster), "measured.json");
    CHECK(read.intra_node.bandwidth.provenance == Provenance::kMeasured);
    for (const Primitive primitive : kPrimitives)
      for (std::int64_t bytes = 1 << 10; bytes <= std::int64_t{1} << 30; bytes *= 2) {
        CAPTURE(to_string(primitive));
        CAPTURE(bytes);
        CAPTURE(ranks);
        CHECK(modelled_seconds(read, primitive, bytes) ==
              doctest::Approx(timer.law(primitive, static_cast<double>(bytes))).epsilon(0.02));
      }
  }
}

TEST_CASE("rates beside each other are means over kernels and primitives") {
  LawfulTimer timer(2);
  const LinkMeasurement measured = measured_by(timer);
  CHECK(measured.companies.size() == 2 * kPrimitives.size());  // attention has no kernel here
  DeviceKind device;
  set_company(measured.companies, "here", device);
  CHECK(device.compute_beside_communication.value == doctest::Approx((0.8 + 1) / 2));
  CHECK(device.communication_beside_compute.value == doctest::Approx((0.5 + 1) / 2));
  CHECK(device.communication_beside_compute.provenance == Provenance::kMeasured);
}

TEST_CASE("settings beside the usual are measured for the report") {
  LawfulTimer timer(2);
  const LinkMeasurement measured = measured_by(timer);
  const auto others =
      std::count_if(measured.points.begin(), measured.points.end(),
                    [](const LinkPoint& point) { return point.setting.is_registered; });
  CHECK(others == 11 * static_cast<std::int64_t>(kPrimitives.size()));
  CHECK(measured.points.size() == 2 * static_cast<std::size_t>(others));
}

TEST_CASE("times along three lines are fitted by three, along one by one") {
  std::vector<TimedSize> three, one;
  for (double bytes = 1024; bytes < 2e9; bytes *= 4) {
    three.push_back(
        {bytes, std::min({5e-6 + bytes / 20e9, 9e-6 + bytes / 120e9, 20e-6 + bytes / 300e9})});
    one.push_back({bytes, 5e-6 + bytes / 20e9});
  }
  const LineFit fit = fit_lines(three, 3);
  REQUIRE(fit.lines.size() == 3);
  CHECK(fit.worst < 0.01);
  CHECK(fit.lines[0].fixed == doctest::Approx(5e-6).epsilon(0.01));
  CHECK(1 / fit.lines[2].per_byte == doctest::Approx(300e9).epsilon(0.01));
  CHECK(fit_lines(three, 2).lines.size() == 2);
  CHECK(fit_lines(one, 3).lines.size() == 1);
}

}  // namespace sextant::link_measurement_test
