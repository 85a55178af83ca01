// Symbols in the order in which they are asked for.
#include "compiler/expand/form_symbols.h"

#include "compiler/memory/in_place.h"
#include "core/base/hash.h"

#include <variant>

namespace sextant {
namespace {

std::uint64_t hash_of(const Attributes& attributes) {
  Fnv1a hash;
  for (const auto& [name, value] : attributes.entries()) {
    hash.add(name).add(static_cast<std::int64_t>(value.index()));
    if (const auto* integer = std::get_if<std::int64_t>(&value)) hash.add(*integer);
    if (const auto* text = std::get_if<std::string>(&value)) hash.add(*text);
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
      for (const std::int64_t element : *list) hash.add(element);
  }
  return hash.value();
}

}  // namespace

const FormSymbols::Kind& FormSymbols::kind(const std::string& kind) {
  const auto [entry, is_new] = kinds_.try_emplace(kind);
  if (is_new) entry->second = {static_cast<std::int64_t>(kinds_.size()), overwritten_inputs(kind)};
  return entry->second;
}

std::int64_t FormSymbols::of(const Attributes& attributes) {
  if (attributes.entries().empty()) return -1;
  auto& bucket = attributes_[hash_of(attributes)];
  for (const auto& [known, symbol] : bucket)
    if (*known == attributes) return symbol;
  bucket.emplace_back(&attributes, num_attributes_);
  return num_attributes_++;
}

}  // namespace sextant
