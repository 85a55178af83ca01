// Headers of 512 bytes, contents behind them filled up to the next multiple of 512 (POSIX.1-2001,
// pax, "ustar Interchange Format"; GNU tar manual, "Basic Tar Format").
#include "io/images/tar.h"

#include "core/base/check.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::int64_t kMostPaxBytes = std::int64_t{1} << 20;

struct Field {
  std::size_t at, size;
};
constexpr Field kNameField{0, 100}, kSizeField{124, 12}, kChecksumField{148, 8};
constexpr Field kMagicField{257, 5}, kPrefixField{345, 155};
constexpr std::size_t kTypeByte = 156;

std::string_view text_of(std::span<const std::byte> header, Field field) {
  const std::string_view text(reinterpret_cast<const char*>(header.data()) + field.at, field.size);
  return text.substr(0, std::min(text.find('\0'), text.size()));
}

// Octal digits between blanks, or GNU's binary form: the first bit set, the rest big-endian.
std::optional<std::int64_t> number_of(std::span<const std::byte> header, Field field) {
  const auto bytes = header.subspan(field.at, field.size);
  if ((bytes[0] & std::byte{0x80}) != std::byte{0}) {
    std::uint64_t value = 0;
    for (const std::byte byte : bytes.last(8))
      value = value << 8 | static_cast<std::uint64_t>(byte);
    const bool is_larger = std::any_of(bytes.begin() + 1, bytes.end() - 8,
                                       [](std::byte byte) { return byte != std::byte{0}; });
    if (bytes[0] != std::byte{0x80} || is_larger || value >> 62 != 0) return std::nullopt;
    return static_cast<std::int64_t>(value);
  }
  std::string_view text = text_of(header, field);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, std::min(text.find(' '), text.size()));
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 8);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

bool is_zero(std::span<const std::byte> block) {
  return std::all_of(block.begin(), block.end(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

// The sum of all bytes, those of the checksum taken for blanks.
bool has_checksum(std::span<const std::byte> header) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const bool is_own = i >= kChecksumField.at && i < kChecksumField.at + kChecksumField.size;
    sum += is_own ? ' ' : static_cast<std::int64_t>(header[i]);
  }
  return number_of(header, kChecksumField) == sum;
}

std::string plain_name(std::span<const std::byte> header) {
  const bool is_ustar = text_of(header, kMagicField) == "ustar";
  const std::string_view prefix = is_ustar ? text_of(header, kPrefixField) : std::string_view();
  const std::string_view name = text_of(header, kNameField);
  // GNU's own form of the header (magic "ustar  ") has times where POSIX has the prefix.
  const bool is_gnu = is_ustar && header[262] == std::byte{' '};
  if (prefix.empty() || is_gnu) return std::string(name);
  return std::string(prefix) + "/" + std::string(name);
}

// What stands before an entry and replaces fields of its header.
struct Extended {
  std::optional<std::string> name;
  std::optional<std::int64_t> size;
};

class TarReader {
 public:
  TarReader(std::span<const std::byte> bytes, const std::string& name)
      : bytes_(bytes), name_(name) {}

  std::vector<TarEntry> read() {
    while (at_ < bytes_.size()) {
      expect(bytes_.size() - at_ >= kTarBlock, "", "the archive ends inside a header");
      const auto header = bytes_.subspan(at_, kTarBlock);
      if (is_zero(header)) break;
      expect(has_checksum(header), "", "a header without its checksum: no tar file, or damaged");
      read_entry(header);
    }
    return std::move(entries_);
  }

 private:
  void expect(bool condition, const std::string& entry, const char* what) const {
    if (condition) return;
    fail(ErrorCode::kBadInput, "{}: {}{} (byte {})", name_,
         entry.empty() ? "" : "entry '" + entry + "': ", what, at_);
  }

  void read_entry(std::span<const std::byte> header) {
    const auto type = static_cast<char>(header[kTypeByte]);
    const bool is_extension = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    const std::string entry =
        is_extension ? plain_name(header) : before_.name.value_or(plain_name(header));
    const auto stated = number_of(header, kSizeField);
    expect(stated.has_value(), entry, "a size that is no number");
    const std::int64_t size = is_extension ? *stated : before_.size.value_or(*stated);
    expect(size <= (is_extension ? kMostPaxBytes : kMostEntryBytes), entry,
           is_extension ? "an extended header of more than 1 MiB" : "larger than 64 MiB");
    const std::size_t room = bytes_.size() - at_ - kTarBlock;
    expect(static_cast<std::size_t>(size) <= room, entry, "the archive ends before it does");
    const std::size_t begin = at_ + kTarBlock;
    const auto contents = bytes_.subspan(begin, static_cast<std::size_t>(size));
    take(type, entry, {entry, static_cast<std::int64_t>(begin), size}, contents);
    at_ = begin + std::min(room, (contents.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  }

  void take(char type, const std::string& entry, TarEntry found,
            std::span<const std::byte> contents) {
    const std::string_view text(reinterpret_cast<const char*>(contents.data()), contents.size());
    switch (type) {
      case '0':
      case '\0':
      case '7':  // contiguous, which nobody makes any more
        check_name(entry);
        entries_.push_back(std::move(found));
        break;
      case '5':
        check_name(entry);
        break;
      case 'x':
        read_pax(text);
        return;
      case 'g':
      case 'K':
        return;
      case 'L':
        before_.name = std::string(text.substr(0, std::min(text.find('\0'), text.size())));
        return;
      case '1':
      case '2':
        expect(false, entry, "a link, which is not followed");
        break;
      case '3':
      case '4':
      case '6':
        expect(false, entry, "a device or a pipe, which is not read");
        break;
      default:
        expect(false, entry, "of a kind that is not read");
    }
    before_ = {};
  }

  void check_name(const std::string& entry) const {
    expect(!entry.empty(), entry, "an entry without a name");
    expect(entry.front() != '/', entry, "an absolute name");
    for (std::size_t begin = 0; begin <= entry.size();) {
      const std::size_t end = std::min(entry.find('/', begin), entry.size());
      expect(entry.compare(begin, end - begin, "..") != 0, entry, "a name that leads outside");
      begin = end + 1;
    }
  }

  // Records "LENGTH KEY=VALUE\n", the length that of the whole record.
  void read_pax(std::string_view text) {
    while (!text.empty()) {
      std::size_t length = 0;
      const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), length);
      const auto digits = static_cast<std::size_t>(stop - text.data());
      expect(error == std::errc() && length > digits + 1 && length <= text.size() &&
                 text[digits] == ' ' && text[length - 1] == '\n',
             "", "an extended header that is no list of records");
      const std::string_view record = text.substr(digits + 1, length - digits - 2);
      const std::size_t equals = std::min(record.find('='), record.size());
      set_pax(record.substr(0, equals), record.substr(std::min(equals + 1, record.size())));
      text.remove_prefix(length);
    }
  }

  void set_pax(std::string_view key, std::string_view value) {
    if (key == "path") before_.name = std::string(value);
    if (key != "size") return;
    std::int64_t size = 0;
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, size);
    expect(error == std::errc() && stop == end && size >= 0, "", "a size that is no number");
    before_.size = size;
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  std::size_t at_ = 0;
  Extended before_;
  std::vector<TarEntry> entries_;
};

}  // namespace

std::vector<TarEntry> tar_entries(std::span<const std::byte> bytes, const std::string& name) {
  return TarReader(bytes, name).read();
}

}  // namespace sextant
