// Sorts what is a few ascending sequences woven into each other, like the begins of runs in their
// order of issue: each queue's rise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace sextant {

// Equal values keep their order only where they are of one sequence: they had better be distinct.
template <typename Value>
void sort_woven(std::vector<Value>& values) {
  constexpr std::size_t kMostSequences = 8;
  std::vector<std::vector<Value>> sequences;
  for (const Value& value : values) {
    auto sequence = sequences.begin();
    while (sequence != sequences.end() && value < sequence->back()) ++sequence;
    if (sequence != sequences.end()) {
      sequence->push_back(value);
    } else if (sequences.size() < kMostSequences) {
      sequences.emplace_back().reserve(values.size() / 2);
      sequences.back().push_back(value);
    } else {
      std::sort(values.begin(), values.end());
      return;
    }
  }
  // The shortest two become one, until all are.
  const auto is_longer = [](const std::vector<Value>& a, const std::vector<Value>& b) {
    return a.size() > b.size();
  };
  while (sequences.size() > 1) {
    std::sort(sequences.begin(), sequences.end(), is_longer);
    const std::vector<Value> last = std::move(sequences.back());
    sequences.pop_back();
    std::vector<Value> merged;
    merged.reserve(last.size() + sequences.back().size());
    std::merge(last.begin(), last.end(), sequences.back().begin(), sequences.back().end(),
               std::back_inserter(merged));
    sequences.back() = std::move(merged);
  }
  if (!sequences.empty()) values = std::move(sequences.front());
}

}  // namespace sextant
