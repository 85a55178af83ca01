// A point of a sweep in a process of its own, which can be ended when it takes too long. The
// process is this program again, with the same command line, for that point alone.
#pragma once

#include "core/base/units.h"
#include "experiments/sweeps/experiment.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// The command line of a process that computes one point of `experiment` into `folder`: the words of
// `own` without what says where results go, how long points may take and which there are. `alone`:
// nobody computes beside it.
std::vector<std::string> point_command(std::span<const std::string> own,
                                       const std::string& experiment, const std::string& point,
                                       const std::string& folder, bool alone);

// Evaluates a point as `experiment` does, in such a process. Throws the error that its row has;
// Error(kRankFailed) where it takes longer than `limit`, which ends it, or where it ends without a
// row. From several threads.
EvaluatePoint in_own_process(const Experiment& experiment, Duration limit);

// Whether this process computes one point for another. Then it ends, from now on, with the thread
// that started it, so that nothing goes on computing when a sweep is ended.
bool is_point_process();

}  // namespace sextant
