// Files of the formats that readers read, as their writers make them, and a folder for them.
#pragma once

#include "tests/io/data/data_folder.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant::testing {

template <typename Number>
void append_number(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

template <typename Number>
std::string numbers_as_bytes(const std::vector<Number>& numbers) {
  std::string bytes;
  for (const Number number : numbers) append_number(bytes, number);
  return bytes;
}

inline std::span<const std::byte> as_bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// dev/data/data_common.py of llm.c: 256 int32, then the ids.
template <typename Number>
std::string llm_c_file(std::int32_t magic, std::int32_t version, const std::vector<Number>& ids) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(ids.size());
  return numbers_as_bytes(header) + numbers_as_bytes(ids);
}

// indexed_dataset.py of Megatron-LM, one document a sequence.
inline std::string megatron_index_file(std::uint8_t code, std::int64_t width,
                                       const std::vector<std::int32_t>& lengths) {
  std::string bytes("MMIDIDX\0\0", 9);
  append_number(bytes, std::uint64_t{1});
  append_number(bytes, code);
  append_number(bytes, static_cast<std::uint64_t>(lengths.size()));
  append_number(bytes, static_cast<std::uint64_t>(lengths.size() + 1));
  bytes += numbers_as_bytes(lengths);
  std::int64_t place = 0;
  for (const std::int32_t length : lengths) {
    append_number(bytes, place);
    place += length * width;
  }
  for (std::size_t end = 0; end <= lengths.size(); ++end)
    append_number(bytes, static_cast<std::int64_t>(end));
  return bytes;
}

// A header of a tar file as POSIX has it, with its checksum; contents follow, filled up.
inline std::string tar_member(const std::string& name, const std::string& contents, char type = '0',
                              std::int64_t stated_size = -1) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  const auto octal = [](std::int64_t value, int digits) {
    std::string text;
    for (int i = 0; i < digits; ++i, value /= 8)
      text.insert(text.begin(), static_cast<char>('0' + value % 8));
    return text;
  };
  const auto size = static_cast<std::int64_t>(contents.size());
  put(0, name);
  put(100, "0000644");
  put(124, octal(stated_size < 0 ? size : stated_size, 11));
  put(136, octal(0, 11));
  put(148, std::string(8, ' '));
  header[156] = type;
  put(257, std::string("ustar\0", 6) + "00");
  std::int64_t sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, octal(sum, 6) + std::string("\0 ", 2));
  return header + contents + std::string((512 - contents.size() % 512) % 512, '\0');
}

inline std::string tar_file(const std::string& members) {
  return members + std::string(1024, '\0');
}

inline std::string pax_record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

}  // namespace sextant::testing
