// The script is run for one row at a time and leaves NAME.row.json.
#include "experiments/pytorch/pytorch.h"

#include "compiler/expand/plan.h"
#include "core/base/check.h"
#include "core/text/json_reader.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

namespace sextant::pytorch {

namespace {

// As one word for a shell.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

struct Said {
  std::string text;
  int code = 0;
};

Said run(const std::string& command) {
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  require(pipe != nullptr, ErrorCode::kDevice, "no process can be started for {}", command);
  Said said;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    said.text.append(buffer.data(), count);
  const int status = ::pclose(pipe);
  said.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return said;
}

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) last = line;
  return last;
}

// The script's own logs, or a folder that goes away.
class LogFolder {
 public:
  explicit LogFolder(const std::string& wanted) : is_own_(wanted.empty()) {
    if (!is_own_) {
      path_ = std::filesystem::absolute(wanted).string();
      return;
    }
    std::string name = (std::filesystem::temp_directory_path() / "sextant-bench-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, ErrorCode::kBadInput, "no folder can be made in {}",
            std::filesystem::temp_directory_path().string());
    path_ = name;
  }
  ~LogFolder() {
    std::error_code ignored;
    if (is_own_) std::filesystem::remove_all(path_, ignored);
  }
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  bool is_own_;
  std::string path_;
};

struct ListedRow {
  std::string name;
  std::int64_t cards = 1;
};

std::vector<ListedRow> listed_rows(const Bench& bench) {
  require(std::filesystem::exists(bench.script), ErrorCode::kBadInput,
          "{}: there is no such script; it is in the source tree, --bench names it", bench.script);
  const Said said = run(fmt::format("bash {} --list", quoted(bench.script)));
  require(said.code == 0, ErrorCode::kBadInput, "{} --list ends with {}: {}", bench.script,
          said.code, last_line(said.text));
  std::istringstream lines(said.text);
  std::vector<ListedRow> rows;
  for (ListedRow row; lines >> row.name >> row.cards;) rows.push_back(row);
  require(!rows.empty(), ErrorCode::kBadInput, "{} --list names no rows", bench.script);
  return rows;
}

std::string command_of(const Bench& bench, const std::string& row, const std::string& logs) {
  std::string command =
      fmt::format("bash {} --rows {} --no-losses", quoted(bench.script), quoted(row));
  if (!bench.peer.empty()) command += " --peer " + quoted(bench.peer);
  if (!bench.build.empty()) command += " --build " + quoted(bench.build);
  return command + " " + quoted(logs);
}

// A number, or nothing where it is null.
std::optional<double> number_at(const JsonCursor& json, std::string_view key) {
  const JsonCursor value = json.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.real());
}

PointResult result_in(const std::string& path) {
  const JsonDocument document = read_json_file(path, Bytes(1 << 20));
  const JsonCursor row = document.root();
  const double step = row.at("step_s").real();
  PointResult result = {.values = {{"step_s", step}}};
  if (const auto theirs = number_at(row, "torch_step_s")) {
    result.values.emplace_back("torch_step_s", *theirs);
    result.values.emplace_back("ratio", *theirs / step);
  }
  if (const auto mfu = number_at(row, "mfu")) result.values.emplace_back("mfu", *mfu);
  result.values.emplace_back("strategy", row.at("strategy").text());
  result.values.emplace_back("gpu", row.at("gpu").text());
  result.spread = row.at("spread").real();
  return result;
}

PointResult measure(const Bench& bench, const SweepPoint& point) {
  const LogFolder logs(bench.logs);
  const Said said = run(command_of(bench, point.name, logs.path()));
  const std::string kept = logs.path() + "/" + point.name + ".row.json";
  const std::string last = last_line(said.text);
  require(last.find("skipped:") == std::string::npos, ErrorCode::kDevice, "{}", last);
  require(said.code == 0 && std::filesystem::exists(kept), ErrorCode::kRankFailed,
          "{} ends with {}: {}", bench.script, said.code, last);
  return result_in(kept);
}

SweepPoint point_of(const ListedRow& row, const std::string& identity) {
  return {.name = row.name,
          .way = ResultWay::kMeasured,
          .parameters = {{"cards", static_cast<double>(row.cards)}, {"identity", identity}}};
}

ShapeClaim ahead(const ResultRows& rows) {
  ShapeClaim shape = {"no step is slower than PyTorch's", std::nullopt,
                      "no row has both sides: a GPU and PyTorch are needed"};
  double least = std::numeric_limits<double>::infinity();
  std::size_t both = 0;
  std::string where;
  for (const SweepRow& row : rows.all()) {
    const auto ratio = number_of(row.result.values, "ratio");
    if (!ratio) continue;
    ++both;
    if (*ratio >= least) continue;
    least = *ratio;
    where = row.point.name;
  }
  if (both == 0) return shape;
  shape.holds = least >= 1;
  shape.detail = fmt::format("PyTorch's step over ours in {} rows: {:.2f} and more, least at {}",
                             both, least, where);
  return shape;
}

}  // namespace

Experiment experiment(const Bench& bench) {
  const std::vector<ListedRow> rows = listed_rows(bench);
  const std::string identity = text_hash(read_text_file(bench.script) + bench.peer);
  const auto points = [rows, identity](bool quick) {
    std::vector<SweepPoint> points;
    for (const ListedRow& row : rows) {
      if (quick && (row.cards > 1 || points.size() == 2)) continue;
      points.push_back(point_of(row, identity));
    }
    return points;
  };
  return {.name = "pytorch",
          .question = "How long are steps on GPUs beside PyTorch's on the same cards?",
          .expectation = "no step is slower",
          .baseline = "PyTorch, compiled, with fused AdamW",
          .columns = {{"step_s", "step", "s"},
                      {"torch_step_s", "PyTorch", "s"},
                      {"ratio", "PyTorch over ours", ""},
                      {"mfu", "MFU", ""},
                      {"cards", "cards", ""},
                      {"strategy", "plan", ""}},
          .points = points,
          .evaluate = [bench](const SweepPoint& point) { return measure(bench, point); },
          .shapes = [](const ResultRows& found) { return std::vector<ShapeClaim>{ahead(found)}; }};
}

}  // namespace sextant::pytorch
