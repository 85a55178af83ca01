// Comma-separated tables with a header, read strictly: the collections of measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

class CsvTable {
 public:
  // One row; cells are found by the names of the header. The table must outlive it.
  class Row {
   public:
    Row(const CsvTable& table, std::size_t index) : table_(&table), index_(index) {}

    int line() const;           // in the file, of its first character
    std::string place() const;  // "runs.csv:17"
    const std::string& text(std::string_view column) const;
    bool has(std::string_view column) const { return !text(column).empty(); }
    // Throws Error(kBadInput) naming column and text: an empty cell, a cell that is no number. A
    // count may be written "8" or "8.0".
    double number(std::string_view column) const;
    std::int64_t count(std::string_view column) const;
    std::int64_t count_or(std::string_view column, std::int64_t fallback) const;

   private:
    const CsvTable* table_;
    std::size_t index_;
  };

  // Cells may stand in double quotes, a quote inside is written twice. Throws Error(kBadInput) with
  // file and line: no header, a repeated or missing column, a row with more or fewer cells than the
  // header, a quote that is never closed.
  CsvTable(std::string_view text, std::string file, const std::vector<std::string>& wanted);

  std::size_t size() const { return lines_.size(); }
  Row row(std::size_t index) const { return {*this, index}; }

 private:
  std::size_t column(std::string_view name) const;

  std::string file_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> cells_;
  std::vector<int> lines_;
};

}  // namespace sextant
