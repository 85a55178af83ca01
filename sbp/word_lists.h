// The words that an operator may run in, made once per rows, types and extents of a mesh: inference
// asks for the same lists for every graph of a search.
#pragma once

#include "sbp/inference.h"
#include "sbp/key.h"
#include "sbp/mesh_state.h"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sextant {

// One way to run an operator, with its words packed for a mesh.
struct WordCandidate {
  OpWords words;
  std::vector<MeshState> inputs, outputs;
};

struct WordList {
  std::uint64_t number = 0;  // of no other list, before or after
  // Some of them make a split of what they read whole: what stands behind the operator decides.
  bool invents = false;
  std::vector<WordCandidate> all;
};

// Not for several threads at once. Lists stay where they are until `trim`.
class WordLists {
 public:
  // `make` returns the list of a content that is new, without its number.
  template <typename Make>
  const WordList& list(const Key& content, const Make& make) {
    const auto known = lists_.find(content);
    if (known != lists_.end()) return known->second;
    WordList made = make();
    made.number = next_number_++;
    num_candidates_ += made.all.size();
    return lists_.emplace(content, std::move(made)).first->second;
  }

  // The list that an operator with this question was given before; null: none. Working out what its
  // words depend on was a quarter of staging a small graph.
  const WordList* given(const Key& question) const {
    const auto known = given_.find(question);
    return known == given_.end() ? nullptr : known->second;
  }
  void give(const Key& question, const WordList& list) { given_.emplace(question, &list); }

  // Forgets everything where much is known: between two inferences.
  void trim() {
    constexpr std::size_t kMostCandidates = 100'000;  // some 100 MB
    constexpr std::size_t kMostQuestions = 100'000;
    if (num_candidates_ <= kMostCandidates && given_.size() <= kMostQuestions) return;
    lists_.clear();
    given_.clear();
    num_candidates_ = 0;
  }

 private:
  std::unordered_map<Key, WordList, KeyHash> lists_;
  std::unordered_map<Key, const WordList*, KeyHash> given_;  // into lists_
  std::uint64_t next_number_ = 0;
  std::size_t num_candidates_ = 0;
};

}  // namespace sextant
