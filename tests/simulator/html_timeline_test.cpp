// The data inside the page: every launch once, equal ranks in one row, nothing loaded from
// elsewhere.

#include "simulator/reports/html_timeline.h"

#include "core/base/error.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace sextant::html_timeline_test {
namespace {

nlohmann::json data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t first = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(first, page.find("</script>", first) - first));
}

struct Simulated {
  PhysicalGraph graph;
  Timeline timeline;
  Simulation simulation;
};

Simulated simulated(std::int32_t replicas, double jitter) {
  ToyPipeline pipeline{{70'000, 110'000, 50'000}, {130'000, 90'000, 170'000}};
  pipeline.micro_batches = 4;
  pipeline.replicas = replicas;
  pipeline.gradient_bytes = 6000;
  pipeline.optimizer = 4000;
  Simulated result{make_toy_pipeline(pipeline), {}, {}};
  SimulateOptions options;
  options.folded = false;
  options.jitter = jitter;
  result.timeline = simulate_timeline(result.graph, ToyCost(300), ToyNetwork(1100), options);
  result.simulation = simulate(result.graph, ToyCost(300), ToyNetwork(1100), options);
  return result;
}

std::string page_of(const Simulated& of, const HtmlTimelineOptions& options) {
  return to_html_timeline(of.graph, of.timeline, of.simulation.parts, options);
}

}  // namespace

TEST_CASE("ranks with equal times share a row, others do not") {
  const auto smooth = data_of(page_of(simulated(4, 0), {}));
  CHECK(smooth["rows"].size() == 3);
  for (const auto& row : smooth["rows"]) CHECK(row["ranks"] == 4);
  const auto uneven = data_of(page_of(simulated(4, 0.1), {}));
  CHECK(uneven["rows"].size() == 12);
  CHECK(uneven["all_rows"] == 12);
}

TEST_CASE("a page holds every launch of the step, in order of each queue and inside the span") {
  const Simulated one = simulated(1, 0);
  const auto data = data_of(page_of(one, {}));
  std::size_t slices = 0, runs = 0;
  for (const auto& rank : one.timeline.ranks) runs += rank.runs.size();
  for (const auto& row : data["rows"])
    for (const auto& lane : row["lanes"]) {
      const auto& numbers = lane["slices"];
      REQUIRE(numbers.size() % 5 == 0);
      slices += numbers.size() / 5;
      double last = -1;
      for (std::size_t i = 0; i < numbers.size(); i += 5) {
        CHECK(numbers[i].get<double>() >= last);
        last = numbers[i];
        CHECK(last + numbers[i + 1].get<double>() <= data["span_ns"].get<double>() + 1e-3);
        CHECK(numbers[i + 2].get<std::size_t>() < data["texts"].size());
        CHECK(numbers[i + 3].get<int>() < 8);
      }
    }
  CHECK(slices == runs);
  CHECK(data["step_s"].get<double>() == doctest::Approx(to_seconds(one.timeline.step_time())));
}

TEST_CASE("more rows than asked for are thinned, and those that end last stay") {
  const Simulated many = simulated(16, 0.2);
  HtmlTimelineOptions options;
  options.max_rows = 9;
  const auto data = data_of(page_of(many, options));
  CHECK(data["rows"].size() == 9);
  CHECK(data["all_rows"] == 48);
  Time latest;
  Rank last;
  for (const RankTimeline& rank : many.timeline.ranks)
    for (const TimedRun& run : rank.runs)
      if (run.end > latest) {
        latest = run.end;
        last = rank.rank;
      }
  bool shown = false;
  for (const auto& row : data["rows"])
    shown =
        shown || row["label"].get<std::string>().starts_with("rank " + std::to_string(last.value));
  CHECK(shown);
}

TEST_CASE("texts cannot end the page's data, and nothing is loaded from elsewhere") {
  HtmlTimelineOptions options;
  options.title = "</script><script>alert(1)</script>";
  options.notes = {"a < b", "\xff not utf-8"};
  options.memory = {{"stage </script>", {Bytes(10), Bytes(20)}}};
  const std::string page = page_of(simulated(1, 0), options);
  CHECK(data_of(page)["title"] == options.title);
  CHECK(data_of(page)["memory"][0]["bytes"][1] == 20);
  CHECK(page.find("alert(1)</script>") == std::string::npos);
  CHECK(page.find("src=") == std::string::npos);
  CHECK(page.find("http") == std::string::npos);
}

TEST_CASE("no rows at all are refused") {
  HtmlTimelineOptions options;
  options.max_rows = 0;
  CHECK_THROWS_AS(page_of(simulated(1, 0), options), Error);
}

}  // namespace sextant::html_timeline_test
