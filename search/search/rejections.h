// Why strategies are no plans, by kind, and the one that comes closest. Decides nothing: the search
// tells what it gave up.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/base/units.h"
#include "search/bounds/node_facts.h"
#include "search/problem/candidate.h"
#include "search/search/search.h"
#include "simulator/costs/library_memory.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

class Rejections {
 public:
  // `leaves` strategies below `node` need more memory than there is, by a bound; `libraries`: what
  // lies beside them in any case.
  void note_bound(const Strategy& node, std::int64_t leaves, const NodeFacts::Excess& excess,
                  const std::vector<LibraryUse>& libraries);
  // A plan that was compiled and does not fit.
  void note_miss(const Candidate& candidate);
  // `leaves` strategies like `example` cannot be compiled, for this reason.
  void note_refusal(const Strategy& example, std::int64_t leaves, const std::string& reason);

  // Keeps the candidate where it is nearer to fitting than all before; whether it is.
  bool note_closest(const Candidate& candidate);
  const std::optional<ClosestMiss>& closest() const { return closest_; }

  // One for each kind of reason, by kind.
  std::vector<Rejection> by_kind() const;

 private:
  Rejection& of_kind(Rejection::Kind kind, const std::string& what);

  std::vector<Rejection> kinds_;
  Bytes least_excess_;  // of bounds, when there is one
  std::optional<ClosestMiss> closest_;
};

}  // namespace sextant
