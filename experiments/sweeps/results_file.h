// The file that rows are kept in: read once, then only appended to.
#pragma once

#include "experiments/sweeps/row.h"

#include <cstddef>
#include <string>
#include <vector>

namespace sextant {

class ResultsFile {
 public:
  // Reads what is there; makes the file where it is not. A last line without its end is cut off: a
  // run that died left it. Throws Error(kBadInput) with the line of anything else that is no row,
  // and where the file cannot be read or made.
  explicit ResultsFile(const std::string& path);
  ~ResultsFile();
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;

  const std::vector<SweepRow>& kept() const { return kept_; }  // in the order of the lines
  bool cut_a_line() const { return cut_a_line_; }

  // In the file, to the end of its line, when it returns; one thread at a time. Throws
  // Error(kBadInput) where it cannot be written (a full disk).
  void append(const SweepRow& row);

 private:
  std::size_t read_rows();

  const std::string path_;
  std::vector<SweepRow> kept_;
  bool cut_a_line_ = false;
  int file_ = -1;
};

// Of a file that nobody appends to: the last row of each point of an experiment, in the order in
// which points came up first. Throws as the constructor does, and where there is no such file.
std::vector<SweepRow> read_results(const std::string& path);

}  // namespace sextant
