// The front of a search in timed mode: where a cluster says what kernels and communications do to
// each other, that decides between plans which are near without it.
#pragma once

#include "cli/workflow.h"
#include "search/search/search.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <vector>

namespace sextant {

class Console;

struct TimedCandidate {
  Candidate candidate;
  Duration timed;
};

// Up to five plans within a few percent of the first, the fastest in timed mode first. Empty where
// the cluster says nothing of the kind, where it has so many devices that timed mode takes minutes,
// where there is one plan, and where `stop` said so between two plans.
std::vector<TimedCandidate> timed_front(const Job& job, const std::vector<Candidate>& plans,
                                        const std::function<bool()>& stop);

// Both times of each plan, as a table and as part of the verb's document (seconds).
void say(const std::vector<TimedCandidate>& front, Console& console);
nlohmann::ordered_json timed_json(const std::vector<TimedCandidate>& front);

}  // namespace sextant
