// What nccl-tests prints: '#' lines that name the ranks and the columns, then a row per size. Logs
// come with other programs' lines in between and with the tags of launchers, "[1,0]<stdout>:".
#include "core/base/check.h"
#include "simulator/cluster_files/nccl_measurement.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

namespace {

using Words = std::vector<std::string>;

std::string_view without_tag(std::string_view line) {
  const std::size_t tag = line.find("<stdout>:");
  return line.starts_with('[') && tag != std::string_view::npos ? line.substr(tag + 9) : line;
}

// Of a '#' line without the mark.
Words words_in(std::string_view line) {
  Words words(1);
  for (const char letter : line) {
    if (letter != '#' && std::isspace(static_cast<unsigned char>(letter)) == 0)
      words.back() += letter;
    else if (letter == '#' && !words.back().empty())
      words.back() += letter;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::size_t index_of_word(const Words& words, std::string_view wanted) {
  return static_cast<std::size_t>(std::find(words.begin(), words.end(), wanted) - words.begin());
}

bool has_word(const Words& words, std::string_view wanted) {
  return index_of_word(words, wanted) < words.size();
}

bool is_whole_number(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char letter) {
    return std::isdigit(letter) != 0;
  });
}

// "NCCL_ALGO=Ring", "NCCL_ALGO set by environment to Ring." -> "ring".
std::string forced_by(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == std::string_view::npos) return "";
  std::string_view rest = line.substr(at + name.size());
  constexpr std::string_view kSet = " set by environment to ";
  if (rest.starts_with(kSet))
    rest.remove_prefix(kSet.size());
  else if (rest.starts_with('='))
    rest.remove_prefix(1);
  else
    return "";
  std::string value;
  for (const char letter : rest) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) break;
    value += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return value;
}

class LogReader {
 public:
  explicit LogReader(const ImportSource& source) : file_(source.file) {
    const std::string_view text = source.text;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      ++line_number_;
      read_line(without_tag(text.substr(at, end - at)));
      at = end + 1;
    }
  }

  NcclMeasurement take() {
    require(measured_.ranks > 0, ErrorCode::kBadInput,
            "{}: no line of a rank and its device ('#  Rank  0 ... on HOST device  0 [...]')",
            file_);
    require(!columns_.empty(), ErrorCode::kBadInput, "{}: no line of column names", file_);
    require(measured_.sizes.size() >= 2, ErrorCode::kBadInput, "{}: wanted two sizes or more",
            file_);
    measured_.hosts = static_cast<std::int64_t>(hosts_.size());
    set_test();
    finish_measurement(measured_, file_, "");
    check_bus_bandwidth();
    return std::move(measured_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorCode::kBadInput, "{}: line {}: {}", file_, line_number_, what);
  }

  void read_line(std::string_view line) {
    for (const auto& [name, value] : {std::pair{"NCCL_ALGO", &measured_.algorithm},
                                      std::pair{"NCCL_PROTO", &measured_.protocol}})
      if (const std::string forced = forced_by(line, name); !forced.empty()) *value = forced;
    const Words words = words_in(line);
    if (words.empty()) return;
    const std::size_t mark = line.find_first_not_of(" \t");
    if (line[mark] != '#') {
      if (!columns_.empty() && is_whole_number(words.front())) read_row(words);
      if (columns_.empty()) take_program(words);
      return;
    }
    if (has_word(words, "algbw") && has_word(words, "size")) read_columns(words);
    if (words.front() == "Rank" && has_word(words, "device")) read_rank(words);
    if (line.find("Collective test starting:") != std::string_view::npos) {
      test_ = nullptr;
      take_program(words);
      if (test_ == nullptr)
        refuse(fmt::format("'{}' is none of {}", words.back(), nccl_test_names()));
    }
  }

  // A command line that was echoed names the program, as does the log of newer versions.
  void take_program(const Words& words) {
    for (const std::string& word : words)
      if (test_ == nullptr) test_ = nccl_test_of(word);
  }

  void read_columns(const Words& words) {
    if (!columns_.empty()) refuse("a second test: wanted the log of one");
    for (const char* const column : {"time", "busbw", "redop"})
      if (!has_word(words, column)) refuse(fmt::format("no column '{}'", column));
    columns_ = words;
  }

  // "Rank 0 Group 0 Pid 52 on HOST device 0 [0000:18:00] NVIDIA H200".
  void read_rank(const Words& words) {
    const std::size_t on = index_of_word(words, "on"), device = index_of_word(words, "device");
    if (on + 1 >= device || device + 2 >= words.size()) refuse("no host and device of a rank");
    hosts_.insert(words[on + 1]);
    if (++measured_.ranks == 1)
      for (std::size_t i = device + 3; i < words.size(); ++i)
        measured_.device_name += (measured_.device_name.empty() ? "" : " ") + words[i];
  }

  double number(const Words& row, std::string_view column) const {
    const std::string& text = row[index_of_word(columns_, column)];
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) ||
        !std::isfinite(value))
      refuse(fmt::format("{} is '{}', wanted a number", column, text));
    return value;
  }

  // In microseconds and GB/s; the first of two columns of one name is out of place.
  void read_row(const Words& row) {
    if (row.size() != columns_.size())
      refuse(fmt::format("{} cells, but {} columns", row.size(), columns_.size()));
    const double bytes = number(row, "size"), time = number(row, "time");
    if (bytes == 0) return;
    if (!(time > 0)) refuse(fmt::format("time is '{}', wanted more than zero", time));
    if (!measured_.sizes.empty() && bytes <= measured_.sizes.back().bytes)
      refuse("a size that is not larger than the one before");
    measured_.sizes.push_back({bytes, time * 1e-6});
    whole_ = number(row, "algbw");
    bus_ = number(row, "busbw");
    is_sum_ = row[index_of_word(columns_, "redop")] != "none";
  }

  // The bus bandwidth of the last row is printed with two digits behind the point.
  double bus_share() const { return whole_ >= 1 ? bus_ / whole_ : 0; }

  bool fits(const NcclTest& test) const {
    return std::abs(bus_share() / test.factor(measured_.ranks) - 1) < 0.02;
  }

  // Older logs do not name the program. All sums but one kind have another factor.
  void set_test() {
    if (test_ == nullptr && measured_.ranks > 2) {
      for (const NcclTest& test : nccl_tests()) {
        const bool adds =
            test.primitive == Primitive::kAllReduce || test.primitive == Primitive::kReduceScatter;
        if (adds && is_sum_ && fits(test)) test_ = &test;
      }
    }
    require(test_ != nullptr, ErrorCode::kBadInput,
            "{}: nothing says which test this is: wanted a line '# Collective test starting: NAME' "
            "or the command, with one of {}",
            file_, nccl_test_names());
    measured_.test = test_;
  }

  void check_bus_bandwidth() const {
    require(bus_share() == 0 || fits(*test_), ErrorCode::kBadInput,
            "{}: busbw is {:.4g} times algbw in the last row, wanted {:.4g} for {} ranks", file_,
            bus_share(), test_->factor(measured_.ranks), measured_.ranks);
  }

  const std::string& file_;
  std::int64_t line_number_ = 0;
  NcclMeasurement measured_{.test = nullptr,
                            .ranks = 0,
                            .hosts = 1,
                            .device_name = {},
                            .sizes = {},
                            .algorithm = {},
                            .protocol = {},
                            .source = {}};
  const NcclTest* test_ = nullptr;
  std::set<std::string> hosts_;
  Words columns_;
  double whole_ = 0, bus_ = 0;  // GB/s of the last row
  bool is_sum_ = false;
};

}  // namespace

ImportedCluster import_nccl_log(const ImportSource& source) {
  return calibrate_by(LogReader(source).take(), source);
}

}  // namespace sextant
