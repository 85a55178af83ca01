// The network model beside measured collectives, row by row. Which rows the model's numbers were
// set with is said here; averages leave them out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct CollectiveRow {
  std::string id;          // "collective_refs.csv:12"
  std::string group;       // rows of one source on one kind of machine: "all_reduce on 8 of
                           // A100-SXM4-80GB NVSwitch"
  std::string way;         // what the model ran it as: "ring ll128"
  std::int64_t bytes = 0;  // as nccl-tests counts them: of the tensor that is global to the group
  double predicted_s = 0, measured_s = 0;
  bool is_calibration = false;
  std::string excluded;  // not empty: why it is not compared; predicted_s may then be 0

  bool counts() const { return excluded.empty() && !is_calibration; }
  double error() const { return predicted_s / measured_s - 1; }
};

// Collections as ../shared/data has them: measured tables of nccl-tests, and sweeps through PyTorch
// on 2 and 4 H200 without NVLS. Sweeps from 4 MiB on count, with 40 us of host launch, the middle
// of what their note says, added to the prediction. Throw Error(kBadInput) where the text is no
// such table; a row that is not understood is excluded with the reason.
std::vector<CollectiveRow> read_collectives(std::string_view text, const std::string& file);
std::vector<CollectiveRow> read_collective_sweep(std::string_view text, const std::string& file);

// Errors of the rows that count.
struct CollectiveErrors {
  std::string group;
  std::int64_t rows = 0, calibration = 0, excluded = 0;
  double mean = 0, median = 0, worst = 0;  // of abs(error)
  double geometric = 0;                    // exp(mean abs(log(predicted / measured))) - 1
};
// By group in order of appearance, and last all together.
std::vector<CollectiveErrors> collective_errors(const std::vector<CollectiveRow>& rows);

}  // namespace sextant
