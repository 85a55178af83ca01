// One pass over the text: cells, then rows, then the columns that the caller needs.
#include "experiments/accuracy/csv_table.h"

#include "core/base/check.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace sextant {
namespace {

struct Reader {
  std::string_view text;
  const std::string& file;
  std::size_t at = 0;
  int line = 1;

  bool is_over() const { return at >= text.size(); }

  std::string quoted_cell() {
    const int begin = line;
    std::string cell;
    for (++at; !is_over(); ++at) {
      if (text[at] == '"' && at + 1 < text.size() && text[at + 1] == '"')
        ++at;
      else if (text[at] == '"')
        return ++at, cell;
      if (text[at] == '\n') ++line;
      cell += text[at];
    }
    fail(ErrorCode::kBadInput, "{}:{}: a quote that is never closed", file, begin);
  }

  std::string plain_cell() {
    const std::size_t end = std::min(text.find_first_of(",\r\n", at), text.size());
    std::string cell(text.substr(at, end - at));
    at = end;
    return cell;
  }

  std::vector<std::string> row() {
    std::vector<std::string> cells;
    while (true) {
      cells.push_back(!is_over() && text[at] == '"' ? quoted_cell() : plain_cell());
      if (is_over() || text[at] != ',') break;
      ++at;
    }
    if (!is_over() && text[at] == '\r') ++at;
    require(is_over() || text[at] == '\n', ErrorCode::kBadInput,
            "{}:{}: text behind a closed quote, wanted a comma or the end of the line", file, line);
    if (!is_over()) ++at, ++line;
    return cells;
  }
};

}  // namespace

CsvTable::CsvTable(std::string_view text, std::string file, const std::vector<std::string>& wanted)
    : file_(std::move(file)) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  require(!text.empty(), ErrorCode::kBadInput, "{}:1: empty, wanted a header", file_);
  Reader reader{.text = text, .file = file_};
  header_ = reader.row();
  if (!header_.empty() && header_[0].starts_with("# ")) header_[0].erase(0, 2);
  for (const std::string& name : header_)
    require(std::count(header_.begin(), header_.end(), name) == 1, ErrorCode::kBadInput,
            "{}:1: column '{}' is there more than once", file_, name);
  for (const std::string& name : wanted)
    require(std::find(header_.begin(), header_.end(), name) != header_.end(), ErrorCode::kBadInput,
            "{}:1: column '{}' is missing", file_, name);
  while (!reader.is_over()) {
    const int line = reader.line;
    std::vector<std::string> cells = reader.row();
    if (cells.size() == 1 && cells[0].empty()) continue;  // a blank line
    require(cells.size() == header_.size(), ErrorCode::kBadInput,
            "{}:{}: {} cells, the header has {}", file_, line, cells.size(), header_.size());
    cells_.push_back(std::move(cells));
    lines_.push_back(line);
  }
}

std::size_t CsvTable::column(std::string_view name) const {
  const auto found = std::find(header_.begin(), header_.end(), name);
  require(found != header_.end(), ErrorCode::kBadInput, "{}:1: column '{}' is missing", file_,
          name);
  return static_cast<std::size_t>(found - header_.begin());
}

int CsvTable::Row::line() const { return table_->lines_[index_]; }

std::string CsvTable::Row::place() const { return fmt::format("{}:{}", table_->file_, line()); }

const std::string& CsvTable::Row::text(std::string_view column) const {
  return table_->cells_[index_][table_->column(column)];
}

double CsvTable::Row::number(std::string_view column) const {
  const std::string& cell = text(column);
  require(!cell.empty(), ErrorCode::kBadInput, "{} is not given", column);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  require(error == std::errc() && end == cell.data() + cell.size() && std::isfinite(value),
          ErrorCode::kBadInput, "{} is '{}', wanted a number", column, cell);
  return value;
}

std::int64_t CsvTable::Row::count(std::string_view column) const {
  constexpr double kMost = 1e15;
  const double value = number(column);
  require(value == std::floor(value) && value >= 1 && value <= kMost, ErrorCode::kBadInput,
          "{} is '{}', wanted a count from 1", column, text(column));
  return static_cast<std::int64_t>(value);
}

std::int64_t CsvTable::Row::count_or(std::string_view column, std::int64_t fallback) const {
  return has(column) ? count(column) : fallback;
}

}  // namespace sextant
