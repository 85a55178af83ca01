// Tensors in a safetensors file: what weights and samples are exchanged in with other programs.
// Format: 8 bytes little-endian length of the header, the header as JSON (name -> dtype, shape,
// begin and end in the data), then the data, little-endian, row-major
// (https://huggingface.co/docs/safetensors).
#pragma once

#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct NamedTensor {
  std::string name;
  TensorType type;
  bool operator==(const NamedTensor&) const = default;
};

// Where the file is while it is written.
std::string unfinished_path(const std::string& path);

// How a file of these tensors begins: length and header. Data follow at once, in the order of the
// tensors. `format`: what the metadata say the tensors were made by; empty: no metadata. Throws
// Error(kBadInput) where two have one name.
std::string safetensors_head(const std::vector<NamedTensor>& tensors,
                             const std::string& format = {});

// Writes tensors one after the other, so that a file may be larger than memory. Throws
// Error(kBadInput) naming the path where it cannot be written.
class SafetensorsWriter {
 public:
  // The names differ; the file is written to `unfinished_path` and moved to `path` by `finish`.
  SafetensorsWriter(std::string path, std::vector<NamedTensor> tensors,
                    const std::string& format = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Bytes of the data, in the order of the tensors; any number of them at a time.
  void append(std::span<const std::byte> bytes);
  // All bytes of all tensors have been appended.
  void finish();

 private:
  std::string path_, unfinished_;
  std::ofstream file_;
  std::int64_t missing_ = 0;
};

// A file opened for reading; tensors are read on demand.
class SafetensorsFile {
 public:
  // Throws Error(kBadInput) naming the path and what is wrong: no such file, a header that is no
  // JSON or lies about the data, overlapping or missing bytes, a dtype that is not ours.
  explicit SafetensorsFile(std::string path);

  const std::vector<NamedTensor>& tensors() const { return tensors_; }  // in order of their bytes
  // Of the whole file: io/data/mapped_file.h, fingerprint_of.
  std::string fingerprint() const;
  // Throws Error(kBadInput) with the nearest name when there is none like it.
  std::vector<std::byte> read(std::string_view name) const;

 private:
  void read_header();
  void check_places() const;

  std::string path_;
  mutable std::ifstream file_;
  std::int64_t data_begin_ = 0, data_size_ = 0;
  std::vector<NamedTensor> tensors_;
  std::vector<std::int64_t> begins_;  // of each tensor, in the data
};

}  // namespace sextant
