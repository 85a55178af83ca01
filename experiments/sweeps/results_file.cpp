// A process that dies leaves whole lines and perhaps one cut, which begins as every row does.
#include "experiments/sweeps/results_file.h"

#include "core/base/check.h"
#include "core/text/json_reader.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace sextant {

namespace {

std::string error_text(int number) {
  return std::error_code(number, std::generic_category()).message();
}

struct FileText {
  std::vector<SweepRow> rows;
  std::size_t whole = 0;  // bytes that stay
  bool ends_whole = true;
};

// How every row begins.
std::string_view row_begin() {
  static const std::string line = to_line({});
  return std::string_view(line).substr(0, line.find(','));
}

// Whatever blanks its writer puts between.
bool may_be_cut_row(std::string_view tail) {
  std::string packed(tail.substr(0, 2 * row_begin().size()));
  std::erase(packed, ' ');
  return packed.starts_with(row_begin().substr(0, packed.size()));
}

FileText read_text(const std::string& path) {
  const std::string text = read_text_file(path);
  const std::size_t last_end = text.rfind('\n');
  FileText read;
  read.whole = last_end == std::string::npos ? 0 : last_end + 1;
  read.rows = rows_from_lines(std::string_view(text).substr(0, read.whole), path);
  const std::string_view tail = std::string_view(text).substr(read.whole);
  if (tail.empty()) return read;
  read.ends_whole = false;
  if (!may_be_cut_row(tail))  // somebody else's: refused with its place
    rows_from_lines(tail, fmt::format("{}: behind row {}", path, read.rows.size()));
  return read;
}

}  // namespace

ResultsFile::ResultsFile(const std::string& path, std::string_view experiment) : path_(path) {
  whole_ = read_rows(experiment);
  open(whole_);
}

ResultsFile::~ResultsFile() { ::close(file_); }

std::size_t ResultsFile::read_rows(std::string_view experiment) {
  std::error_code failed;
  if (!std::filesystem::exists(path_, failed)) return 0;
  FileText read = read_text(path_);
  for (const SweepRow& row : read.rows)
    require(row.experiment == experiment, ErrorCode::kUsage,
            "{} has results of {}: name another folder, or --overwrite", path_, row.experiment);
  kept_ = std::move(read.rows);
  cut_a_line_ = !read.ends_whole;
  return read.whole;
}

void ResultsFile::open(std::size_t size) {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  const bool is_ready = file_ >= 0 && ::ftruncate(file_, static_cast<off_t>(size)) == 0 &&
                        ::lseek(file_, 0, SEEK_END) >= 0;
  const int error = errno;
  if (!is_ready && file_ >= 0) ::close(file_);
  require(is_ready, ErrorCode::kBadInput, "{}: cannot be written: {}", path_, error_text(error));
}

void ResultsFile::append(const SweepRow& row) {
  require(!is_broken_, ErrorCode::kBadInput, "{}: could not be written before", path_);
  const std::string line = to_line(row) + "\n";
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      is_broken_ = true;
      // Best effort: a part that stays is cut by the next run.
      if (::ftruncate(file_, static_cast<off_t>(whole_)) != 0) errno = error;
      fail(ErrorCode::kBadInput, "{}: cannot be written: {}", path_, error_text(error));
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  whole_ += line.size();
}

ReadRows read_results(const std::string& path) {
  FileText read = read_text(path);
  return {std::move(read.rows), !read.ends_whole};
}

}  // namespace sextant
