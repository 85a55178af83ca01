// Kinds and attributes as integers, equal where they are equal: what signatures of forms are made
// of.
#pragma once

#include "core/tensors/attributes.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sextant {

class FormSymbols {
 public:
  struct Kind {
    std::int64_t symbol = 0;
    std::span<const std::size_t> overwrites;  // compiler/memory/in_place.h
  };
  const Kind& kind(const std::string& kind);
  // Borrows the attributes; -1: none.
  std::int64_t of(const Attributes& attributes);

 private:
  std::unordered_map<std::string, Kind> kinds_;
  std::unordered_map<std::uint64_t, std::vector<std::pair<const Attributes*, std::int64_t>>>
      attributes_;  // by hash
  std::int64_t num_attributes_ = 0;
};

}  // namespace sextant
