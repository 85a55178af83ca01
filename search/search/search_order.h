// In which order the search goes: guesses, corrected by what the plans compiled so far took.
// Decides nothing else.
#pragma once

#include "core/base/units.h"
#include "search/search/open_nodes.h"
#include "search/search/search.h"
#include "search/space/space.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace sextant {

class SearchOrder {
 public:
  // Seconds, of what will hardly do more than it takes; the least comes first. `room`: of a device.
  double key_of(const OpenNode& open, Bytes room) const;

  // The guess, corrected: seconds and bytes.
  Guess promise_of(const OpenNode& open) const;

  // What a plan took that was guessed at; `room` as above.
  void learn(const OpenNode& leaf, const Candidate& candidate, Bytes room);
  // Looks at a leaf whose layers are known: until there is a plan, they say how much too low
  // guesses are.
  void note_layers(const OpenNode& leaf);
  void note_plan(const Strategy& strategy);  // it fits
  void note_miss() { ++misses_in_a_row_; }   // it does not
  void note_refusal(const Strategy& strategy) { refused_like_.insert(likeness(strategy)); }

 private:
  using MeshKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  // Of this mesh, else of all; no mesh is thought to need much more than its guess before it was
  // tried.
  struct Correction {
    double time = 1;
    // Arenas have gaps and what lives for a moment: 0 to 9 % more in a dozen plans of four models.
    double memory = 1.05;
    // Of bounds with layers: what they lack is much the same in the plans of a mesh, where a guess
    // errs in every setting by itself.
    std::optional<double> layers = {};
    bool has_plan = false;
    void learn(double seconds_ratio, double bytes_ratio);
    void note_layers(double ratio);
  };

  static MeshKey mesh_key(const Strategy& strategy);
  static std::string likeness(const Strategy& strategy);
  const Correction& correction_of(const Strategy& strategy) const;
  double seconds_of(const OpenNode& open) const;
  bool repeats_more(const SpaceNode& node) const;

  Correction correction_;
  std::optional<double> least_ratio_;  // of layers to guesses, until there is a plan
  std::map<MeshKey, Correction> corrections_;
  std::set<std::string> refused_like_;
  std::vector<Strategy> plans_;
  std::int64_t misses_in_a_row_ = 0;
};

}  // namespace sextant
