// Header and data of safetensors files.
#include "io/safetensors.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/text/json_text.h"
#include "io/data/mapped_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "the data are written as they lie");

// Headers are small; a length beyond this is no safetensors file.
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;

constexpr std::array<std::pair<DType, const char*>, 7> kNames = {{{DType::kF64, "F64"},
                                                                  {DType::kF32, "F32"},
                                                                  {DType::kBF16, "BF16"},
                                                                  {DType::kF16, "F16"},
                                                                  {DType::kI64, "I64"},
                                                                  {DType::kI32, "I32"},
                                                                  {DType::kBool, "BOOL"}}};

const char* name_of(DType dtype) {
  const auto known = std::find_if(kNames.begin(), kNames.end(),
                                  [dtype](const auto& entry) { return entry.first == dtype; });
  require(known != kNames.end(), ErrorCode::kInternal, "no weight is kept in {}", to_string(dtype));
  return known->second;
}

std::int64_t bytes_of(const NamedTensor& tensor) { return size_of(tensor.type).value; }

std::string header_text(const std::vector<NamedTensor>& tensors, const std::string& format) {
  Json header = Json::object();
  if (!format.empty()) header["__metadata__"] = {{"format", format}};
  std::int64_t begin = 0;
  for (const NamedTensor& tensor : tensors) {
    require(!header.contains(tensor.name), ErrorCode::kBadInput, "two tensors are named '{}'",
            tensor.name);
    const std::int64_t end = begin + bytes_of(tensor);
    header[tensor.name] = {{"dtype", name_of(tensor.type.dtype)},
                           {"shape", tensor.type.shape.extents()},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = json_text(header);
  // Data begin at a multiple of 8, as the format asks of writers.
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

// Throws nlohmann's errors and ours, to which the caller adds the path.
std::pair<NamedTensor, std::pair<std::int64_t, std::int64_t>> parse_entry(const std::string& name,
                                                                          const Json& entry) {
  NamedTensor tensor{name, {}};
  const auto dtype = entry.at("dtype").get<std::string>();
  const auto known = std::find_if(kNames.begin(), kNames.end(),
                                  [&](const auto& candidate) { return dtype == candidate.second; });
  require(known != kNames.end(), ErrorCode::kBadInput, "'{}' has dtype {}, which is not read", name,
          dtype);
  tensor.type = {Shape(entry.at("shape").get<std::vector<std::int64_t>>()), known->first};
  const Json& offsets = entry.at("data_offsets");
  require(offsets.size() == 2, ErrorCode::kBadInput, "'{}' has {} data_offsets, not 2", name,
          offsets.size());
  return {tensor, {offsets.at(0).get<std::int64_t>(), offsets.at(1).get<std::int64_t>()}};
}

}  // namespace

std::string unfinished_path(const std::string& path) { return path + ".part"; }

std::string safetensors_head(const std::vector<NamedTensor>& tensors, const std::string& format) {
  const std::string header = header_text(tensors, format);
  const std::uint64_t length = header.size();
  std::string head(sizeof(length), ' ');
  std::memcpy(head.data(), &length, sizeof(length));
  return head + header;
}

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<NamedTensor> tensors,
                                     const std::string& format)
    : path_(std::move(path)), unfinished_(unfinished_path(path_)) {
  for (const NamedTensor& tensor : tensors) missing_ += bytes_of(tensor);
  const std::string head = safetensors_head(tensors, format);
  file_.open(unfinished_, std::ios::binary | std::ios::trunc);
  file_.write(head.data(), static_cast<std::streamsize>(head.size()));
  require(file_.good(), ErrorCode::kBadInput, "{}: cannot be written", path_);
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!file_.is_open()) return;
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(unfinished_, ignored);
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  missing_ -= static_cast<std::int64_t>(bytes.size());
  require(missing_ >= 0, ErrorCode::kInternal, "{}: {} bytes more than its tensors have", path_,
          -missing_);
  file_.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  require(file_.good(), ErrorCode::kBadInput, "{}: cannot be written", path_);
}

void SafetensorsWriter::finish() {
  require(missing_ == 0, ErrorCode::kInternal, "{}: {} bytes are missing", path_, missing_);
  file_.close();
  require(file_.good(), ErrorCode::kBadInput, "{}: cannot be written", path_);
  std::error_code error;
  std::filesystem::rename(unfinished_, path_, error);
  require(!error, ErrorCode::kBadInput, "{}: cannot be written: {}", path_, error.message());
}

SafetensorsFile::SafetensorsFile(std::string path)
    : path_(std::move(path)), file_(path_, std::ios::binary) {
  require(file_.good(), ErrorCode::kBadInput, "{}: cannot be read", path_);
  try {
    read_header();
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::kBadInput, "{}: header: {}", path_, error.what());
  } catch (const Error& error) {
    fail(ErrorCode::kBadInput, "{}: header: {}", path_, error.what());
  }
}

void SafetensorsFile::read_header() {
  std::error_code error;
  const auto size = static_cast<std::uint64_t>(std::filesystem::file_size(path_, error));
  require(!error, ErrorCode::kBadInput, "{}", error.message());  // a folder, for instance
  std::uint64_t length = 0;
  file_.read(reinterpret_cast<char*>(&length), sizeof(length));
  require(file_.good() && length <= kMostHeaderBytes && length <= size - sizeof(length),
          ErrorCode::kBadInput, "the file has no header of {} bytes", length);
  std::string text(length, ' ');
  file_.read(text.data(), static_cast<std::streamsize>(length));
  data_begin_ = static_cast<std::int64_t>(sizeof(length) + length);
  data_size_ = static_cast<std::int64_t>(size) - data_begin_;
  const Json header = json_of_text(text);
  require(header.is_object(), ErrorCode::kBadInput, "it is no object");
  std::vector<std::pair<std::int64_t, NamedTensor>> placed;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    auto [tensor, place] = parse_entry(name, entry);
    require(place.first >= 0 && place.second - place.first == bytes_of(tensor),
            ErrorCode::kBadInput, "'{}' takes {} bytes, but its place is {} to {}", name,
            bytes_of(tensor), place.first, place.second);
    placed.emplace_back(place.first, std::move(tensor));
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [begin, tensor] : placed) {
    begins_.push_back(begin);
    tensors_.push_back(std::move(tensor));
  }
  check_places();
}

// Without gaps and overlaps, as the format wants it.
void SafetensorsFile::check_places() const {
  std::int64_t end = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    require(begins_[i] == end || bytes_of(tensors_[i]) == 0, ErrorCode::kBadInput,
            "'{}' begins at {}, but the data before it end at {}", tensors_[i].name, begins_[i],
            end);
    end += bytes_of(tensors_[i]);
  }
  require(end == data_size_, ErrorCode::kBadInput, "its tensors take {} bytes, the file has {}",
          end, data_size_);
}

std::string SafetensorsFile::fingerprint() const {
  return fingerprint_of(MappedFile(path_).bytes());
}

std::vector<std::byte> SafetensorsFile::read(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const NamedTensor& tensor) { return tensor.name == name; });
  if (found == tensors_.end()) {
    std::vector<std::string> names;
    for (const NamedTensor& tensor : tensors_) names.push_back(tensor.name);
    fail(ErrorCode::kBadInput, "{}: has no tensor '{}'{}", path_, name, did_you_mean(name, names));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of(*found)));
  file_.seekg(data_begin_ + begins_[static_cast<std::size_t>(found - tensors_.begin())]);
  file_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  require(file_.good(), ErrorCode::kBadInput, "{}: '{}' cannot be read", path_, name);
  return bytes;
}

}  // namespace sextant
