// A min-sum problem as an integer program in CPLEX LP format, for solvers outside (CBC, HiGHS,
// GLPK, SCIP): the local polytope with binary labels.
#pragma once

#include "search/min_sum/problem.h"

#include <span>
#include <string>

namespace sextant {

// Binary x<variable>_<label> says which label a variable has, continuous y<table>_<entry> which
// entry of a table then counts; forbidden entries have no y. The objective is the sum of costs; its
// unit is theirs. `names` of variables, if any, become comments. Throws what validate() throws.
std::string to_lp_text(const MinSumProblem& problem, std::span<const std::string> names = {});

}  // namespace sextant
