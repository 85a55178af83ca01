// Lines are written by one call each, so a process that dies leaves whole lines and perhaps one
// cut.
#include "experiments/sweeps/results_file.h"

#include "core/base/check.h"
#include "core/text/json_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace sextant {

namespace {

std::string error_text(int number) {
  return std::error_code(number, std::generic_category()).message();
}

struct Lines {
  std::vector<SweepRow> rows;
  std::size_t whole = 0;  // bytes up to the end of the last line that has one
};

Lines rows_of(std::string_view text, const std::string& path) {
  Lines lines;
  for (std::size_t number = 1; lines.whole < text.size(); ++number) {
    const std::size_t end = text.find('\n', lines.whole);
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(lines.whole, end - lines.whole);
    lines.rows.push_back(row_from_line(line, fmt::format("{}:{}", path, number)));
    lines.whole = end + 1;
  }
  return lines;
}

}  // namespace

ResultsFile::ResultsFile(const std::string& path) : path_(path) {
  const std::size_t whole = read_rows();
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  const bool is_ready = file_ >= 0 && ::ftruncate(file_, static_cast<off_t>(whole)) == 0 &&
                        ::lseek(file_, 0, SEEK_END) >= 0;
  const int error = errno;
  if (!is_ready && file_ >= 0) ::close(file_);
  require(is_ready, ErrorCode::kBadInput, "{}: cannot be written: {}", path, error_text(error));
}

ResultsFile::~ResultsFile() { ::close(file_); }

std::size_t ResultsFile::read_rows() {
  if (!std::filesystem::exists(path_)) return 0;
  const std::string text = read_text_file(path_);
  Lines lines = rows_of(text, path_);
  kept_ = std::move(lines.rows);
  cut_a_line_ = lines.whole < text.size();
  return lines.whole;
}

void ResultsFile::append(const SweepRow& row) {
  const std::string line = to_line(row) + "\n";
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    require(written >= 0, ErrorCode::kBadInput, "{}: cannot be written: {}", path_,
            error_text(errno));
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::vector<SweepRow> read_results(const std::string& path) {
  const std::string text = read_text_file(path);
  std::vector<SweepRow> last;
  for (SweepRow& row : rows_of(text, path).rows) {
    const auto same = std::find_if(last.begin(), last.end(), [&](const SweepRow& other) {
      return other.experiment == row.experiment && other.point.name == row.point.name &&
             other.point.way == row.point.way;
    });
    if (same == last.end())
      last.push_back(std::move(row));
    else
      *same = std::move(row);
  }
  return last;
}

}  // namespace sextant
