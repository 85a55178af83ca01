// `experiment accuracy` over processes: each predicts its share of the rows, all get all.
#pragma once

#include "cli/runs/run_processes.h"
#include "experiments/accuracy/report.h"

#include <cstddef>
#include <vector>

namespace sextant {

// Rows are dealt out one by one: neighbours are of one source and take about equally long.
bool is_own_row(const RunProcesses& processes, std::size_t row);

// Fills in, to the bit, what other processes predict of their rows, and why not.
void gather_predictions(RunProcesses& processes, std::vector<ComparedRow>& rows);

}  // namespace sextant
