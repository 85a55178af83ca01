// Files of token ids: bare (nanoGPT), with llm.c's header, with Megatron's index (README, formats).
#pragma once

#include "io/data/mapped_file.h"
#include "io/data/token_source.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// How an id is written.
enum class IdType : std::uint8_t { kU8, kI8, kI16, kI32, kI64, kU16, kU32 };
std::string_view to_string(IdType type);
std::size_t size_of_id(IdType type);  // bytes

// All of these throw Error(kBadInput) naming the file, what it says and what it has.

// Ids alone. The size of the file is a multiple of that of an id, and not 0.
std::unique_ptr<TokenSource> bare_tokens(MappedFile file, IdType type);

// Whether the file begins as those of llm.c do, of any version.
bool has_llm_c_magic(std::span<const std::byte> bytes);
std::unique_ptr<TokenSource> llm_c_tokens(MappedFile file);

// What an index of Megatron says of its ids, which stand without gaps in the file beside it.
struct MegatronIndex {
  IdType type = IdType::kU16;
  std::int64_t tokens = 0, sequences = 0, documents = 0;
};
// `name` is that of the index in errors.
MegatronIndex megatron_index(std::span<const std::byte> index, const std::string& name);
// `index` and `ids` are files that belong together.
std::unique_ptr<TokenSource> megatron_tokens(const MappedFile& index, MappedFile ids);

}  // namespace sextant
