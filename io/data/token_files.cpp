// Headers are checked against the size of the file; ids are read where they lie.
#include "io/data/token_files.h"

#include "core/base/check.h"
#include "io/data/little_endian.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kLargestId = std::numeric_limits<std::int32_t>::max();

// One value of the type at `offset`. Nothing of ours has ids beyond 2^63.
std::int64_t id_at(std::span<const std::byte> bytes, IdType type, std::size_t offset) {
  switch (type) {
    case IdType::kU8:
      return number_at<std::uint8_t>(bytes, offset);
    case IdType::kI8:
      return number_at<std::int8_t>(bytes, offset);
    case IdType::kI16:
      return number_at<std::int16_t>(bytes, offset);
    case IdType::kI32:
      return number_at<std::int32_t>(bytes, offset);
    case IdType::kI64:
      return number_at<std::int64_t>(bytes, offset);
    case IdType::kU16:
      return number_at<std::uint16_t>(bytes, offset);
    case IdType::kU32:
      return number_at<std::uint32_t>(bytes, offset);
  }
  return -1;
}

class MappedTokens final : public TokenSource {
 public:
  // `count` ids of the type begin at byte `begin` of the file.
  MappedTokens(MappedFile file, IdType type, std::size_t begin, std::int64_t count)
      : file_(std::move(file)), type_(type), begin_(begin), count_(count) {}

  std::int64_t size() const override { return count_; }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    const std::size_t width = size_of_id(type_);
    std::size_t offset = begin_ + static_cast<std::size_t>(first) * width;
    for (std::size_t i = 0; i < ids.size(); ++i, offset += width) {
      const std::int64_t id = id_at(file_.bytes(), type_, offset);
      if (id < 0 || id > kLargestId)
        fail(ErrorCode::kBadInput, "{}: token {} is {}: an id is 0 to {}", file_.path(),
             first + static_cast<std::int64_t>(i), id, kLargestId);
      ids[i] = static_cast<std::int32_t>(id);
    }
  }
  std::string fingerprint() const override { return fingerprint_of(file_.bytes()); }

 private:
  MappedFile file_;
  IdType type_;
  std::size_t begin_;
  std::int64_t count_;
};

constexpr std::size_t kLlmCHeader = 256 * sizeof(std::int32_t);

struct LlmCVersion {
  std::int32_t magic, version;
  IdType type;
};
constexpr LlmCVersion kLlmCVersions[] = {{20240520, 1, IdType::kU16}, {20240801, 7, IdType::kU32}};

const LlmCVersion* version_of(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(std::int32_t)) return nullptr;
  const auto magic = number_at<std::int32_t>(bytes, 0);
  const auto* const found =
      std::find_if(std::begin(kLlmCVersions), std::end(kLlmCVersions),
                   [&](const LlmCVersion& known) { return known.magic == magic; });
  return found == std::end(kLlmCVersions) ? nullptr : found;
}

constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr std::size_t kMegatronHeader = 9 + 8 + 1 + 8 + 8;

// The codes of indexed_dataset.py of Megatron-LM; of its floating types no ids are made.
std::optional<IdType> megatron_type(std::uint8_t code) {
  switch (code) {
    case 1:
      return IdType::kU8;
    case 2:
      return IdType::kI8;
    case 3:
      return IdType::kI16;
    case 4:
      return IdType::kI32;
    case 5:
      return IdType::kI64;
    case 8:
      return IdType::kU16;
    default:
      return std::nullopt;
  }
}

// A header and its arrays: lengths, places in bytes, document ends.
struct MegatronParts {
  IdType type;
  std::int64_t sequences, documents;
  std::size_t lengths, places, ends;  // where they begin
};

MegatronParts parts_of(std::span<const std::byte> index, const std::string& name) {
  require(index.size() >= kMegatronHeader, ErrorCode::kBadInput,
          "{}: {} bytes, an index of Megatron has at least {}", name, index.size(),
          kMegatronHeader);
  require(std::equal(kMegatronMagic.begin(), kMegatronMagic.end(),
                     reinterpret_cast<const char*>(index.data())),
          ErrorCode::kBadInput, "{}: does not begin as an index of Megatron does (MMIDIDX)", name);
  const auto version = number_at<std::uint64_t>(index, 9);
  require(version == 1, ErrorCode::kBadInput, "{}: version {} of Megatron's index, 1 is read", name,
          version);
  const auto code = number_at<std::uint8_t>(index, 17);
  const std::optional<IdType> type = megatron_type(code);
  require(type.has_value(), ErrorCode::kBadInput,
          "{}: type {} of ids; read are 1 (uint8), 2 (int8), 3 (int16), 4 (int32), 5 (int64), 8 "
          "(uint16)",
          name, code);
  const auto sequences = number_at<std::uint64_t>(index, 18);
  const auto documents = number_at<std::uint64_t>(index, 26);
  const std::uint64_t room = index.size() - kMegatronHeader;
  const bool fits = sequences <= room / 12 && documents <= (room - 12 * sequences) / 8;
  const std::uint64_t left = fits ? room - 12 * sequences - 8 * documents : 0;
  require(fits && (left == 0 || left == sequences), ErrorCode::kBadInput,
          "{}: {} sequences and {} document ends do not make an index of {} bytes", name, sequences,
          documents, index.size());
  return {.type = *type,
          .sequences = static_cast<std::int64_t>(sequences),
          .documents = static_cast<std::int64_t>(documents),
          .lengths = kMegatronHeader,
          .places = kMegatronHeader + 4 * sequences,
          .ends = kMegatronHeader + 12 * sequences};
}

// Sequences stand one behind the other, as every writer of the format puts them.
std::int64_t checked_tokens(std::span<const std::byte> index, const MegatronParts& parts,
                            const std::string& name) {
  const auto width = static_cast<std::int64_t>(size_of_id(parts.type));
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < parts.sequences; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto length = number_at<std::int32_t>(index, parts.lengths + 4 * at);
    const auto place = number_at<std::int64_t>(index, parts.places + 8 * at);
    require(length >= 0, ErrorCode::kBadInput, "{}: sequence {} has length {}", name, i, length);
    require(place == tokens * width, ErrorCode::kBadInput,
            "{}: sequence {} is at byte {}, but those before it end at byte {}", name, i, place,
            tokens * width);
    tokens += length;
  }
  return tokens;
}

void check_document_ends(std::span<const std::byte> index, const MegatronParts& parts,
                         const std::string& name) {
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < parts.documents; ++i) {
    const auto end = number_at<std::int64_t>(index, parts.ends + 8 * static_cast<std::size_t>(i));
    require(end >= before && end <= parts.sequences, ErrorCode::kBadInput,
            "{}: document end {} is sequence {}, wanted {} to {}", name, i, end, before,
            parts.sequences);
    before = end;
  }
}

}  // namespace

std::string_view to_string(IdType type) {
  switch (type) {
    case IdType::kU8:
      return "uint8";
    case IdType::kI8:
      return "int8";
    case IdType::kI16:
      return "int16";
    case IdType::kI32:
      return "int32";
    case IdType::kI64:
      return "int64";
    case IdType::kU16:
      return "uint16";
    case IdType::kU32:
      return "uint32";
  }
  return "";
}

std::size_t size_of_id(IdType type) {
  switch (type) {
    case IdType::kU8:
    case IdType::kI8:
      return 1;
    case IdType::kI16:
    case IdType::kU16:
      return 2;
    case IdType::kI32:
    case IdType::kU32:
      return 4;
    case IdType::kI64:
      return 8;
  }
  return 1;
}

std::unique_ptr<TokenSource> bare_tokens(MappedFile file, IdType type) {
  const std::size_t size = file.bytes().size(), width = size_of_id(type);
  require(size > 0 && size % width == 0, ErrorCode::kBadInput,
          "{}: {} bytes are no whole number of {} ids, or none", file.path(), size,
          to_string(type));
  return std::make_unique<MappedTokens>(std::move(file), type, 0,
                                        static_cast<std::int64_t>(size / width));
}

bool has_llm_c_magic(std::span<const std::byte> bytes) { return version_of(bytes) != nullptr; }

std::unique_ptr<TokenSource> llm_c_tokens(MappedFile file) {
  const std::span<const std::byte> bytes = file.bytes();
  const std::string& path = file.path();
  const LlmCVersion* const known = version_of(bytes);
  require(known != nullptr, ErrorCode::kBadInput,
          "{}: does not begin with 20240520 or 20240801, as llm.c's files of tokens do", path);
  require(bytes.size() >= kLlmCHeader, ErrorCode::kBadInput,
          "{}: {} bytes, the header of llm.c has {}", path, bytes.size(), kLlmCHeader);
  const auto version = number_at<std::int32_t>(bytes, 4), count = number_at<std::int32_t>(bytes, 8);
  require(version == known->version, ErrorCode::kBadInput,
          "{}: version {} of llm.c's file {}, {} is read", path, version, known->magic,
          known->version);
  const std::size_t room = bytes.size() - kLlmCHeader, width = size_of_id(known->type);
  require(count > 0 && static_cast<std::size_t>(count) * width == room, ErrorCode::kBadInput,
          "{}: the header says {} {} ids, the file has {} bytes behind it", path, count,
          to_string(known->type), room);
  return std::make_unique<MappedTokens>(std::move(file), known->type, kLlmCHeader, count);
}

MegatronIndex megatron_index(std::span<const std::byte> index, const std::string& name) {
  const MegatronParts parts = parts_of(index, name);
  const std::int64_t tokens = checked_tokens(index, parts, name);
  check_document_ends(index, parts, name);
  return {parts.type, tokens, parts.sequences, parts.documents};
}

std::unique_ptr<TokenSource> megatron_tokens(const MappedFile& index, MappedFile ids) {
  const MegatronIndex found = megatron_index(index.bytes(), index.path());
  const std::size_t size = ids.bytes().size(), width = size_of_id(found.type);
  require(found.tokens > 0 && static_cast<std::size_t>(found.tokens) == size / width &&
              size % width == 0,
          ErrorCode::kBadInput, "{}: {} says {} {} ids, the file has {} bytes", ids.path(),
          index.path(), found.tokens, to_string(found.type), size);
  return std::make_unique<MappedTokens>(std::move(ids), found.type, 0, found.tokens);
}

}  // namespace sextant
