// The file that rows of one experiment are kept in: read once, then only appended to.
#pragma once

#include "experiments/sweeps/row.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

class ResultsFile {
 public:
  // Reads what is there; makes the file where it is not. What a run that died left of its last line
  // is cut off. Throws Error(kBadInput) with the line of anything else that is no row, and where
  // the file cannot be read or made; Error(kUsage) for rows of another experiment. Then the file
  // stays as it is.
  ResultsFile(const std::string& path, std::string_view experiment);
  ~ResultsFile();
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;

  const std::vector<SweepRow>& kept() const { return kept_; }  // in the order of the lines
  bool cut_a_line() const { return cut_a_line_; }

  // In the file, to the end of its line, when it returns; one thread at a time. Throws
  // Error(kBadInput) where it cannot be written (a full disk): the file then ends with the row
  // before, and takes no more.
  void append(const SweepRow& row);

 private:
  std::size_t read_rows(std::string_view experiment);
  void open(std::size_t size);

  const std::string path_;
  std::vector<SweepRow> kept_;
  bool cut_a_line_ = false;
  int file_ = -1;
  std::size_t whole_ = 0;  // bytes up to the end of the last row
  bool is_broken_ = false;
};

// What is in a file that nobody appends to.
struct ReadRows {
  std::vector<SweepRow> rows;  // in the order of the lines
  bool is_cut = false;         // the last line has no end, and is left out
};
// Throws Error(kBadInput) as the constructor does, and where there is no such file.
ReadRows read_results(const std::string& path);

}  // namespace sextant
