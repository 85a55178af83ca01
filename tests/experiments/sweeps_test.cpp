// Rows on disk, sweeps that go on where they ended, tables and summaries.
#include "core/base/check.h"
#include "core/base/parallel.h"
#include "core/text/json_reader.h"
#include "experiments/sweeps/results_file.h"
#include "experiments/sweeps/shapes.h"
#include "experiments/sweeps/summary.h"
#include "experiments/sweeps/sweep.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sextant::sweeps_test {
namespace {

// A file in a folder that goes away with it.
class ScratchFile {
 public:
  ScratchFile() {
    std::string name = std::filesystem::temp_directory_path() / "sweeps-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~ScratchFile() { std::filesystem::remove_all(folder_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  std::string path() const { return folder_ + "/results.jsonl"; }
  std::string text() const { return read_text_file(path()); }
  void write(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }

 private:
  std::string folder_;
};

const RowOrigin kOrigin = {
    .machine = "here, 2 cores", .build = "b1", .commit = "c1", .seed = 18446744073709551615U};

SweepPoint point_at(double x, const std::string& name) {
  return {.name = name, .parameters = {{"x", x}, {"word", "w"}}, .reference = {{"y", 2 * x}}};
}

std::vector<SweepPoint> points_to(int count) {
  std::vector<SweepPoint> points;
  for (int x = 0; x < count; ++x) points.push_back(point_at(x, "p" + std::to_string(x)));
  return points;
}

// y = 3x; cannot be where x is 2, and fails where it is 3 and `fails`. Counts how often it was
// asked.
struct Triple {
  std::atomic<int>* asked;
  bool fails = false;
  PointResult operator()(const SweepPoint& point) const {
    ++*asked;
    const double x = *number_of(point.parameters, "x");
    require(x != 2, ErrorCode::kInfeasible, "two is too many");
    require(x != 3 || !fails, ErrorCode::kDevice, "three has no device");
    return {.values = {{"y", 3 * x}}, .spread = 0.25};
  }
};

Sweep sweep_of(std::vector<SweepPoint> points, std::atomic<int>& asked) {
  return {.experiment = "triple", .points = std::move(points), .evaluate = Triple{&asked}};
}

SweepOutcome run_kept(const Sweep& sweep, ResultsFile& file) {
  return run_sweep(sweep, kOrigin, {.kept = file.kept(), .keep = [&file](const SweepRow& row) {
                                      file.append(row);
                                    }});
}

SweepRow row_with(const std::string& awkward) {
  SweepRow row;
  row.experiment = "triple";
  row.point = {.name = awkward,
               .way = ResultWay::kMeasured,
               .parameters = {{"x", 0.1}, {awkward, awkward}},
               .reference = {{"y", 1e-300}}};
  row.key = "k";
  row.result = {.values = {{"bytes", 9007199254740991.0}, {"y", 1.0 / 3}, {"plan", "dp=2"}},
                .spread = 0.5};
  row.seconds = 0.125;
  row.origin = kOrigin;
  return row;
}

void check_equal(const SweepRow& one, const SweepRow& other) {
  CHECK(one.experiment == other.experiment);
  CHECK(one.point.name == other.point.name);
  CHECK(one.point.way == other.point.way);
  CHECK(one.point.parameters == other.point.parameters);
  CHECK(one.point.reference == other.point.reference);
  CHECK(one.key == other.key);
  CHECK(one.result.values == other.result.values);
  CHECK(one.result.spread == other.result.spread);
  CHECK(one.error == other.error);
  CHECK(one.seconds == other.seconds);
  CHECK(one.origin == other.origin);
}

template <typename Act>
std::string refusal_of(Act act, ErrorCode code) {
  try {
    act();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  FAIL("nothing was refused");
  return {};
}

TEST_CASE("a row comes back from its line, to the last bit") {
  for (const char* awkward :
       {"plain", "with \"quotes\" and \\", "</script>", "line\nend", "ümläut"}) {
    SweepRow row = row_with(awkward);
    check_equal(row_from_line(to_line(row), "line"), row);
    CHECK(to_line(row).find('\n') == std::string::npos);
    row.error = PointError{"infeasible", awkward};
    row.result = {};
    check_equal(row_from_line(to_line(row), "line"), row);
  }
}

TEST_CASE("a value that is not finite is no row") {
  SweepRow row = row_with("plain");
  row.result.values = {{"y", std::numeric_limits<double>::quiet_NaN()}};
  CHECK_THROWS_AS(to_line(row), Error);
}

TEST_CASE("a damaged line is refused with its number") {
  const std::string good = to_line(row_with("plain"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    const std::size_t at = line.find(from);
    REQUIRE(at != std::string::npos);
    return line.replace(at, from.size(), to);
  };
  const std::vector<std::string> damaged = {
      "",
      "{}",
      "[1, 2]",
      good.substr(0, good.size() / 2),
      changed("sextant.result/1", "sextant.result/2"),
      changed("\"measured\"", "\"guessed\""),
      changed("\"point\":", "\"pint\":"),
      changed("\"18446744073709551615\"", "\"18446744073709551616\""),
      changed("\"18446744073709551615\"", "\"-1\""),
      changed("0.125", "\"long\""),
      changed("\"spread\"", "\"other\":1,\"spread\"")};
  for (const std::string& line : damaged) {
    CAPTURE(line);
    ScratchFile file;
    file.write(good + "\n" + line + "\n" + good + "\n");
    const std::string text =
        refusal_of([&] { ResultsFile read(file.path(), "triple"); }, ErrorCode::kBadInput);
    CHECK(text.find(file.path() + ":2") != std::string::npos);
  }
}

TEST_CASE("a file that is cut at any byte keeps its whole lines") {
  const std::string line = to_line(row_with("plain")) + "\n";
  const std::string text = line + line;
  for (std::size_t size = 0; size <= text.size(); ++size) {
    ScratchFile file;
    file.write(text.substr(0, size));
    {
      ResultsFile results(file.path(), "triple");
      CHECK(results.kept().size() == size / line.size());
      CHECK(results.cut_a_line() == (size % line.size() != 0));
      results.append(row_with("plain"));
    }
    CHECK(ResultsFile(file.path(), "triple").kept().size() == size / line.size() + 1);
  }
}

TEST_CASE("what somebody else wrote is refused and stays as it is") {
  const std::string row = to_line(row_with("plain"));
  for (const std::string& text :
       {std::string("my notes"), row + "\nmy notes", row + "\nmy notes\n"}) {
    ScratchFile file;
    file.write(text);
    refusal_of([&] { ResultsFile results(file.path(), "triple"); }, ErrorCode::kBadInput);
    CHECK(file.text() == text);
  }
  ScratchFile file;
  file.write(row + "\n" + row.substr(0, 30));
  refusal_of([&] { ResultsFile results(file.path(), "other"); }, ErrorCode::kUsage);
  CHECK(file.text() == row + "\n" + row.substr(0, 30));
}

TEST_CASE("a second run computes what failed and what is new, and nothing else") {
  ScratchFile file;
  std::atomic<int> asked = 0;
  Sweep first = sweep_of(points_to(4), asked);
  first.evaluate = Triple{&asked, true};
  {
    ResultsFile results(file.path(), "triple");
    const SweepOutcome outcome = run_kept(first, results);
    CHECK(asked == 4);
    CHECK(outcome.reused == 0);
    CHECK(outcome.failed == 2);
    CHECK(outcome.rows[2].error->text == "two is too many");
    CHECK(outcome.rows[2].result.values.empty());
    CHECK(outcome.rows[3].error->code == "device");
  }
  asked = 0;
  ResultsFile results(file.path(), "triple");
  const SweepOutcome outcome = run_kept(sweep_of(points_to(6), asked), results);
  CHECK(asked == 3);  // 3 failed, 4 and 5 are new; that 2 cannot be is an answer
  CHECK(outcome.reused == 3);
  CHECK(outcome.failed == 1);
  for (int x = 0; x < 6; ++x)
    CHECK(number_of(outcome.rows[static_cast<std::size_t>(x)].result.values, "y") ==
          (x == 2 ? std::nullopt : std::optional<double>(3 * x)));
  const ReadRows read = read_results(file.path());
  CHECK_FALSE(read.is_cut);
  REQUIRE(read.rows.size() == 7);  // 3 is there twice
  CHECK(read.rows.back().error == std::nullopt);
}

TEST_CASE("what a row depends on is in its key") {
  const SweepPoint point = point_at(1, "p");
  std::set<std::string> keys = {key_of("triple", point, kOrigin)};
  const auto is_new = [&](const std::string& key) { return keys.insert(key).second; };
  CHECK(is_new(key_of("other", point, kOrigin)));
  CHECK(is_new(key_of("triple", point_at(2, "p"), kOrigin)));
  CHECK(is_new(key_of("triple", point_at(1, "q"), kOrigin)));
  SweepPoint measured = point;
  measured.way = ResultWay::kMeasured;
  CHECK(is_new(key_of("triple", measured, kOrigin)));
  RowOrigin origin = kOrigin;
  origin.build = "b2";
  CHECK(is_new(key_of("triple", point, origin)));
  origin = kOrigin;
  origin.seed = 1;
  CHECK(is_new(key_of("triple", point, origin)));
  // Where it was computed and what was published do not matter.
  origin = kOrigin;
  origin.machine = "there";
  CHECK(is_new(key_of("triple", measured, origin)));
  SweepPoint published = point;
  published.reference = {{"y", 7.0}};
  CHECK(key_of("triple", published, origin) == key_of("triple", point, kOrigin));
}

TEST_CASE("threads change no value, and progress counts every point once") {
  const auto values_with = [](std::size_t threads) {
    limit_threads(threads);
    std::atomic<int> asked = 0;
    std::set<std::size_t> done;
    const SweepOutcome outcome =
        run_sweep(sweep_of(points_to(40), asked), kOrigin,
                  {.progress = [&](const SweepProgress& progress) { done.insert(progress.done); }});
    CHECK(done.size() == 40);
    CHECK(*done.rbegin() == 40);
    std::vector<Fields> values;
    for (const SweepRow& row : outcome.rows) values.push_back(row.result.values);
    return values;
  };
  CHECK(values_with(1) == values_with(4));
  limit_threads(0);
}

TEST_CASE("processes that share a sweep find what one finds, each point once") {
  std::atomic<int> asked = 0;
  const Sweep sweep = sweep_of(points_to(7), asked);
  const SweepOutcome alone = run_sweep(sweep, kOrigin);
  const std::vector<SweepRow> kept = {alone.rows[3]};
  asked = 0;
  SweepOutcome first = run_sweep(sweep, kOrigin, {.kept = kept, .share = {0, 3}});
  std::vector<SweepRow> others;
  for (std::size_t index : {1U, 2U})
    for (const SweepRow& row : run_sweep(sweep, kOrigin, {.kept = kept, .share = {index, 3}}).rows)
      if (!row.key.empty() && row.key != kept[0].key) others.push_back(row);
  CHECK(asked == 6);
  fill_in(first, sweep, others);
  CHECK(first.reused == 1);
  CHECK(first.failed == 1);
  for (std::size_t index = 0; index < 7; ++index) {
    CHECK(first.rows[index].result.values == alone.rows[index].result.values);
    CHECK(first.rows[index].error == alone.rows[index].error);
  }
}

TEST_CASE("what is measured runs alone, in order, behind all others, in the first process") {
  std::atomic<int> under_way = 0, done = 0;
  std::vector<std::string> order;
  std::vector<SweepPoint> points = points_to(12);
  for (const std::size_t index : {1U, 4U, 7U}) points[index].way = ResultWay::kMeasured;
  const Sweep sweep = {.experiment = "alone",
                       .points = points,
                       .evaluate = [&](const SweepPoint& point) -> PointResult {
                         const int others = under_way++;
                         std::this_thread::sleep_for(std::chrono::milliseconds(2));
                         if (point.way == ResultWay::kMeasured) {
                           CHECK(others == 0);
                           CHECK(done >= 9);
                           order.push_back(point.name);
                         }
                         --under_way;
                         ++done;
                         return {.values = {{"y", 1.0}}};
                       }};
  run_sweep(sweep, kOrigin);
  CHECK(order == std::vector<std::string>{"p1", "p4", "p7"});
  order.clear();
  const SweepOutcome second = run_sweep(sweep, kOrigin, {.share = {1, 2}});
  CHECK(order.empty());
  CHECK(second.rows[1].key.empty());
}

TEST_CASE("two points of one name are refused") {
  std::atomic<int> asked = 0;
  const std::string text = refusal_of(
      [&] {
        run_sweep(sweep_of({point_at(1, "same"), point_at(3, "same")}, asked), kOrigin);
      },
      ErrorCode::kUsage);
  CHECK(text.find("'same'") != std::string::npos);
}

TEST_CASE("what ends with a bug or without a number is a row, and the sweep goes on") {
  std::atomic<int> asked = 0;
  Sweep broken = sweep_of(points_to(3), asked);
  broken.evaluate = [](const SweepPoint& point) -> PointResult {
    if (point.name == "p0") throw std::bad_alloc();
    if (point.name == "p1") fail(ErrorCode::kInternal, "bug");
    return {.values = {{"y", std::numeric_limits<double>::infinity()}}};
  };
  for (const SweepRow& row : run_sweep(broken, kOrigin).rows) {
    REQUIRE(row.error);
    CHECK(row.error->code == "internal");
    CHECK(row.result.values.empty());
    CHECK_FALSE(row.error->is_answer());
  }
}

TEST_CASE("once a row cannot be kept no further point is begun") {
  limit_threads(1);
  std::atomic<int> asked = 0;
  const auto full = [](const SweepRow&) { fail(ErrorCode::kBadInput, "full"); };
  refusal_of([&] { run_sweep(sweep_of(points_to(20), asked), kOrigin, {.keep = full}); },
             ErrorCode::kBadInput);
  CHECK(asked == 1);
  limit_threads(0);
}

// While one is alive no file of this process grows beyond `bytes`.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_CASE("results that cannot be written end the sweep, and what is whole is kept") {
  ScratchFile file;
  const std::size_t line = to_line(row_with("plain")).size() + 1;
  {
    ResultsFile results(file.path(), "triple");
    const SmallFiles small(line + line / 2);
    results.append(row_with("plain"));
    const std::string text =
        refusal_of([&] { results.append(row_with("plain")); }, ErrorCode::kBadInput);
    CHECK(text.find("cannot be written") != std::string::npos);
    refusal_of([&] { results.append(row_with("plain")); }, ErrorCode::kBadInput);
  }
  CHECK(file.text().size() == line);
  CHECK(ResultsFile(file.path(), "triple").kept().size() == 1);
}

Experiment triple_experiment(std::atomic<int>& asked) {
  return {.name = "triple",
          .question = "What is three times x?",
          .expectation = "3x",
          .baseline = "x",
          .columns = {{"y", "three x", "s", "y"}, {"word", "word", ""}},
          .points = [](bool) { return points_to(4); },
          .evaluate = Triple{&asked},
          .shapes = [](const ResultRows&) { return std::vector<ShapeClaim>(); }};
}

TEST_CASE("a table has values, what was published, and errors in their place") {
  std::atomic<int> asked = 0;
  const Experiment experiment = triple_experiment(asked);
  const SweepOutcome outcome = run_sweep(sweep_of(points_to(4), asked), kOrigin);
  const auto table = table_of(experiment, outcome.rows);
  using Cells = std::vector<std::string>;
  CHECK(table[0] == Cells{"point", "way", "three x, s", "published", "ratio", "word"});
  CHECK(table[2] == Cells{"p1", "simulated", "3", "2", "1.50", "w"});
  CHECK(table[3] == Cells{"p2", "simulated", "", "4", "", "two is too many"});
  CHECK(to_markdown({{"a|b", "c\nd"}}).find("a\\|b | c d") != std::string::npos);
}

TEST_CASE("a summary is JSON with the shapes' verdicts") {
  std::atomic<int> asked = 0;
  const Experiment experiment = triple_experiment(asked);
  const SweepOutcome outcome = run_sweep(sweep_of(points_to(4), asked), kOrigin);
  const ResultRows rows(outcome.rows);
  const std::vector<ShapeClaim> shapes = {
      ratio_shape(rows, "three is thrice one", {"y", "y"}, "p3", "p1", {.least = 2.9, .most = 3.1}),
      ratio_shape(rows, "three is less than one", {"y", "y"}, "p3", "p1", {.most = 1}),
      ratio_shape(rows, "two is there", {"y", "y"}, "p2", "p1", {})};
  CHECK(verdict_of(shapes[0]) == "holds");
  CHECK(verdict_of(shapes[1]) == "does not hold");
  CHECK(verdict_of(shapes[2]) == "cannot be said");
  const std::string text = summary_json(experiment, outcome.rows, shapes, {{"a.svg", ""}});
  const JsonDocument document(text, "summary");
  const JsonCursor root = document.root();
  CHECK(root.at("schema").text() == "sextant.experiment/1");
  CHECK(root.at("points").integer() == 4);
  CHECK(root.at("failed").integer() == 1);
  CHECK(root.at("shapes").elements()[1].at("holds").boolean() == false);
  CHECK(root.at("shapes").elements()[2].at("holds").is_null());
  CHECK(root.at("figures").elements()[0].text() == "a.svg");
}

}  // namespace
}  // namespace sextant::sweeps_test
