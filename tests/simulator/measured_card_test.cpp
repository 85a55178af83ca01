// What was measured on one card beside what is predicted of it: launches within training steps, by
// kind, from the built-in figures and from a table that `cluster bench` made of the same card
// without knowing these models. h200_steps.json has both; its launches are means of three profiled
// steps, its steps medians of nine unprofiled ones.
#include "core/graphs/kernel_names.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant::measured_card_test {
namespace {

// Launches of one name: all that they do in a step, and how many kernels' work that is.
struct Launches {
  std::string kernel;
  double operators = 0, flops = 0, bytes = 0, seconds = 0;
};

struct Step {
  std::string name;
  DType dtype = DType::kBF16;
  double seconds = 0;
  std::vector<Launches> launches;
};

struct Card {
  Cluster measured;
  std::vector<Step> steps;
};

Card read_card() {
  std::ifstream file(std::string(SEXTANT_SOURCE_ROOT) + "/tests/simulator/h200_steps.json");
  const auto json = nlohmann::json::parse(file);
  Card card;
  card.measured = cluster_from_json(json.at("bench").dump(), "h200_steps.json");
  for (const auto& from : json.at("steps")) {
    Step step{.name = from.at("name"),
              .dtype = parse_dtype(from.at("dtype").get<std::string>()),
              .seconds = from.at("seconds"),
              .launches = {}};
    for (const auto& row : from.at("launches"))
      step.launches.push_back({row[0], row[1], row[2], row[3], row[4]});
    card.steps.push_back(std::move(step));
  }
  return card;
}

const Card& card() {
  static const Card read = read_card();
  return read;
}

Work work_of(const Launches& launches) {
  return {.flops = launches.flops / launches.operators,
          .read = Bytes(std::llround(launches.bytes / launches.operators)),
          .written = {},
          .kernel = launches.kernel};
}

double predicted(const CostModel& cost, const Launches& launches) {
  return launches.operators * to_seconds(cost.duration(work_of(launches)));
}

double predicted(const CostModel& cost, const Step& step) {
  double sum = 0;
  for (const Launches& launches : step.launches) sum += predicted(cost, launches);
  return sum;
}

std::string kind_of(const std::string& kernel) {
  const std::string family(kernel_family(kernel));
  static const std::map<std::string, std::string> kinds = {
      {"normalization", "norm"},       {"normalization_sum", "norm"}, {"channel_sum", "norm"},
      {"channel_grad", "norm"},        {"cast", "element-wise"},      {"copy", "element-wise"},
      {"elementwise", "element-wise"}, {"routing", "experts"},        {"combination", "experts"}};
  const auto found = kinds.find(family);
  return found == kinds.end() ? family : found->second;
}

struct Pair {
  double predicted = 0, measured = 0;
  double error() const { return predicted / measured - 1; }
};

// By what the kernels do, without those whose name begins with `left_out`.
std::map<std::string, Pair> by_kind(const CostModel& cost, const Step& step,
                                    std::string_view left_out = "-") {
  std::map<std::string, Pair> kinds;
  for (const Launches& launches : step.launches) {
    if (launches.kernel.starts_with(left_out)) continue;
    Pair& pair = kinds[kind_of(launches.kernel)];
    pair.predicted += predicted(cost, launches);
    pair.measured += launches.seconds;
  }
  return kinds;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Left out where something else than the kernel decides: stamps of launches of a few microseconds
// hold the host's time, and expert places that stay empty multiply by zeros, at a higher clock.
bool is_judged(const Step& step, const std::string& kind) {
  static const std::set<std::string> short_launches = {"gpt2-124m 1x1024, 4 times",
                                                       "wide-deep 16384"};
  if (short_launches.contains(step.name)) return false;
  return kind != "matmul" ||
         !by_kind(*make_roofline(card().measured, step.dtype), step).contains("experts");
}

// Errors of kinds that take more than 2 % of a step, by kind.
std::map<std::string, std::vector<double>> errors_by_kind(
    const std::function<std::unique_ptr<CostModel>(DType)>& model,
    const std::function<bool(const Step&)>& is_meant, std::string_view left_out = "-") {
  std::map<std::string, std::vector<double>> errors;
  for (const Step& step : card().steps) {
    if (!is_meant(step)) continue;
    const auto cost = model(step.dtype);
    for (const auto& [kind, pair] : by_kind(*cost, step, left_out)) {
      if (pair.measured < 0.02 * step.seconds || !is_judged(step, kind)) continue;
      INFO(step.name, ", ", kind, ": ", pair.error());
      CHECK(std::abs(pair.error()) < 0.30);
      errors[kind].push_back(std::abs(pair.error()));
    }
  }
  return errors;
}

void check_medians(const std::map<std::string, std::vector<double>>& errors) {
  constexpr std::size_t kFewest = 3;
  for (const auto& [kind, values] : errors) {
    if (values.size() < kFewest) continue;
    CAPTURE(kind);
    CHECK(median_of(values) < 0.10);
  }
}

// "Llama 1.2B 8x2048" is of the same model as "Llama 1.2B 1x16384": what stands before the size.
std::string model_of(const Step& step) {
  const std::size_t size =
      step.name.find_first_of("0123456789", step.name.rfind(' ', step.name.find('x')));
  return step.name.substr(0, size);
}

// A table as `cluster bench --step` makes it of the steps of all other models.
Cluster without_model(const Step& left_out) {
  Cluster cluster = card().measured;
  for (const Step& step : card().steps) {
    if (step.dtype != left_out.dtype || model_of(step) == model_of(left_out)) continue;
    for (const Launches& launches : step.launches) {
      const Work work = work_of(launches);
      if (launches.seconds <= 0) continue;
      cluster.device.measured->kernels.push_back(
          {.kernel = work.kernel,
           .flops = work.flops,
           .bytes = work.read,
           .seconds = launches.seconds / launches.operators});
    }
  }
  return cluster;
}

// Steps that more than the figures of kernels decide, too: 4,800 launches of about ten
// microseconds, which follow each other faster than stamps say, and rows of 50,257 numbers, whose
// products have one rate here and three on the card.
bool is_judged_whole(const Step& step) {
  static const std::set<std::string> others = {"GPT-2 medium 4x1024, 8 times",
                                               "GPT-3 6.7B, 3 layers, 2x2048"};
  return is_judged(step, "matmul") && !others.contains(step.name);
}

// Errors of whole steps in bf16.
std::vector<double> step_errors(const std::function<Cluster(const Step&)>& cluster_for,
                                double most) {
  std::vector<double> errors;
  for (const Step& step : card().steps) {
    if (step.dtype != DType::kBF16 || !is_judged_whole(step)) continue;
    const auto cost = make_cost_model(cluster_for(step), step.dtype);
    const double error = predicted(*cost, step) / step.seconds - 1;
    INFO(step.name, ": ", error);
    CHECK(std::abs(error) < most);
    errors.push_back(std::abs(error));
  }
  return errors;
}

}  // namespace

// Tokens went to experts by another kernel when the steps were measured: six times as slow.
TEST_CASE("the built-in H200 is right kind by kind") {
  const Cluster builtin = load_cluster("hgx-h200:nodes=1");
  const auto errors = errors_by_kind([&](DType dtype) { return make_cost_model(builtin, dtype); },
                                     [](const Step&) { return true; }, "routing");
  CHECK(errors.size() >= 8);
  check_medians(errors);
}

// Eight dispatches of a Mixtral of four layers, 8 x 2,048 tokens 2,048 wide of two choices, into
// 640 places of each of 8 experts and sample: 2.43 ms of a step on an H200, driver 580.159.
TEST_CASE("the built-in H200 sends tokens to experts as fast as it was measured to") {
  const auto cost = make_cost_model(load_cluster("hgx-h200:nodes=1"), DType::kBF16);
  constexpr std::int64_t kTokens = 8 * 2048, kWidth = 2048, kPlaces = 8 * 8 * 640, kBf16 = 2;
  constexpr std::int64_t kChoices = kTokens * 2 * 2 * 4;  // bytes: experts and positions
  const Duration predicted =
      cost->duration({2.0 * kPlaces * kWidth, Bytes(kTokens * kWidth * kBf16 + kChoices),
                      Bytes(kPlaces * kWidth * kBf16), "routing"});
  CHECK(8 * to_seconds(predicted) == doctest::Approx(2.43e-3).epsilon(0.05));
}

TEST_CASE("a measured card is right kind by kind for models that it was not given") {
  const auto errors =
      errors_by_kind([](DType dtype) { return make_cost_model(card().measured, dtype); },
                     [](const Step& step) { return step.dtype == DType::kBF16; });
  CHECK(errors.size() >= 8);
  check_medians(errors);
}

TEST_CASE("a measured card predicts steps of models that it was not given") {
  const auto errors = step_errors([](const Step&) { return card().measured; }, 0.05);
  CHECK(errors.size() >= 15);
  CHECK(median_of(errors) < 0.03);
}

TEST_CASE("with the launches of other models it predicts the model that is left out") {
  const auto errors = step_errors(without_model, 0.05);
  CHECK(median_of(errors) < 0.03);
}

TEST_CASE("the file of a measured card says what to expect of it") {
  CHECK(card().measured.device.measured->expected_error > 0.01);
  CHECK(card().measured.device.measured->expected_error < 0.08);
}

// From the extents on that it has.
TEST_CASE("a table never makes twice the work faster") {
  const auto cost = make_cost_model(card().measured, DType::kBF16);
  const auto product = [&](double m, double n, double k) {
    const auto whole = [](double extent) { return std::to_string(std::llround(extent)); };
    const double bytes = 2 * (m * k + k * n + m * n);
    return cost->duration({2 * m * n * k, Bytes(std::llround(bytes)), Bytes(0),
                           "matmul:" + whole(m) + "x" + whole(n) + "x" + whole(k)});
  };
  for (double m = 1024; m <= 32768; m *= 1.7)
    for (double n = 1024; n <= 32768; n *= 1.7)
      for (double k = 1024; k <= 32768; k *= 1.7) {
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        CHECK(product(2 * m, n, k) >= product(m, n, k));
        CHECK(product(m, 2 * n, k) >= product(m, n, k));
        CHECK(product(m, n, 2 * k) >= product(m, n, k));
      }
  for (const char* kernel :
       {"elementwise", "normalization:2048", "attention:2048x128", "optimizer"})
    for (double bytes = 1e5; bytes < 1e10; bytes *= 1.7) {
      CAPTURE(kernel);
      CAPTURE(bytes);
      const auto time = [&](double size) {
        return cost->duration({100 * size, Bytes(std::llround(size)), Bytes(0), kernel});
      };
      CHECK(time(2 * bytes) >= time(bytes));
    }
}

}  // namespace sextant::measured_card_test
