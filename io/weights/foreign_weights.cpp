// Files first, then names and shapes, then values.
#include "io/weights/foreign_weights.h"

#include "core/base/check.h"
#include "core/base/elements.h"
#include "core/base/nearest.h"
#include "core/text/json_reader.h"
#include "io/weights/foreign_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

namespace sextant {
namespace {

namespace fs = std::filesystem;

constexpr const char *kOneFile = "model.safetensors", *kOwnFile = "weights.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// The files that an index names, all in its own folder.
std::set<std::string> files_of_index(const std::string& folder) {
  const std::string path = folder + "/" + kIndex;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const JsonDocument document(text, path);
  const JsonCursor map = document.root().at("weight_map");
  std::set<std::string> files;
  for (const std::string& tensor : map.keys()) {
    const JsonCursor value = map.at(tensor);
    const std::string& name = value.text();
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
      value.refuse(fmt::format("found \"{}\", wanted a file of the index's own folder", name));
    files.insert(folder + "/" + name);
  }
  return files;
}

std::set<std::string> files_of(const std::string& path) {
  std::error_code failure;
  if (!fs::is_directory(path, failure)) return {path};
  if (fs::is_regular_file(path + "/" + kIndex, failure)) return files_of_index(path);
  for (const char* const name : {kOneFile, kOwnFile})
    if (fs::exists(path + "/" + name, failure)) return {path + "/" + name};
  std::set<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path))
    if (entry.path().extension() == ".safetensors") files.insert(entry.path().string());
  require(!files.empty(), ErrorCode::kBadInput, "{}: no safetensors file in this folder", path);
  return files;
}

}  // namespace

ForeignWeights::ForeignWeights(const std::string& path) : path_(path) {
  for (const std::string& file : files_of(path)) open(file);
}

void ForeignWeights::open(const std::string& file) {
  files_.push_back(std::make_unique<SafetensorsFile>(file));
  for (const NamedTensor& tensor : files_.back()->tensors())
    require(places_.emplace(tensor.name, Place{files_.back().get(), tensor.type}).second,
            ErrorCode::kBadInput, "{}: tensor '{}' is in another file too", file, tensor.name);
}

std::string ForeignWeights::fingerprint() const {
  std::string all;
  for (const auto& file : files_) all += (all.empty() ? "" : " ") + file->fingerprint();
  return all;
}

bool ForeignWeights::has_own_names(const std::vector<NamedTensor>& own) const {
  return std::any_of(own.begin(), own.end(), [&](const NamedTensor& tensor) {
    return places_.find(tensor.name) != places_.end();
  });
}

ForeignWeights::Part ForeignWeights::found_part(const ForeignTensor& tensor) const {
  for (const std::string& name : tensor.names)
    if (places_.find(name) != places_.end()) return {tensor, name};
  std::vector<std::string> names;
  for (const auto& [name, place] : places_) names.push_back(name);
  fail(ErrorCode::kBadInput, "{}: has no tensor '{}' for the parameter '{}'{}", path_,
       comma_list(tensor.names), tensor.own, did_you_mean(tensor.names.front(), names));
}

void ForeignWeights::require_shape(const Part& part) const {
  const TensorType& type = places_.at(part.name).type;
  require(type.shape == part.tensor.shape, ErrorCode::kBadInput,
          "{}: tensor '{}' is {}, but the model's '{}' wants {}", path_, part.name,
          to_string(type.shape), part.tensor.own, to_string(part.tensor.shape));
  require(is_floating(type.dtype), ErrorCode::kBadInput, "{}: tensor '{}' is {}, no weights", path_,
          part.name, to_string(type.dtype));
}

void ForeignWeights::require_nothing_left(const std::vector<std::string>& ignored) const {
  std::set<std::string> used;
  for (const auto& [own, matched] : matched_)
    for (const Part& part : matched.parts) used.insert(part.name);
  for (const auto& [name, place] : places_) {
    const bool is_known = std::any_of(ignored.begin(), ignored.end(),
                                      [&](const auto& ending) { return name.ends_with(ending); });
    require(is_known || used.count(name) != 0, ErrorCode::kBadInput,
            "{}: has a tensor '{}', which the model does not have", path_, name);
  }
}

void ForeignWeights::match(const std::vector<NamedTensor>& own, const ForeignModel& model) {
  matched_.clear();
  for (const NamedTensor& tensor : own) matched_[tensor.name].type = tensor.type;
  if (has_own_names(own)) {
    for (const NamedTensor& tensor : own)
      matched_[tensor.name].parts.push_back(
          found_part({.own = tensor.name, .names = {tensor.name}, .shape = tensor.type.shape}));
  } else {
    for (const ForeignTensor& tensor : model.tensors) {
      const auto parameter = matched_.find(tensor.own);
      require(parameter != matched_.end(), ErrorCode::kInternal, "no parameter '{}'", tensor.own);
      parameter->second.parts.push_back(found_part(tensor));
    }
  }
  for (const auto& [name, matched] : matched_) {
    require(!matched.parts.empty(), ErrorCode::kInternal, "parameter '{}' has no foreign tensor",
            name);
    for (const Part& part : matched.parts) require_shape(part);
  }
  require_nothing_left(model.ignored);
}

void ForeignWeights::add_part(const Part& part, const TensorType& own,
                              std::vector<double>& values) const {
  const Place& place = places_.at(part.name);
  const std::vector<std::byte> bytes = place.file->read(part.name);
  std::vector<double> theirs(static_cast<std::size_t>(place.type.shape.elements()));
  load_as_double(place.type.dtype, bytes.data(), theirs);
  for_each_pair(part.tensor, own.shape, [&](std::size_t of_own, std::size_t of_foreign) {
    values[of_own] = theirs[of_foreign];
  });
}

std::vector<std::byte> ForeignWeights::read(const std::string& own) const {
  const Matched& matched = matched_.at(own);
  std::vector<double> values(static_cast<std::size_t>(matched.type.shape.elements()));
  for (const Part& part : matched.parts) add_part(part, matched.type, values);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size_of(matched.type).value));
  store_from_double(matched.type.dtype, values, bytes.data());
  return bytes;
}

}  // namespace sextant
