// Layouts of foreign weights: transposed, fused, of experts; what does not fit is named.
#include "core/base/elements.h"
#include "core/base/error.h"
#include "io/weights/foreign_weights.h"
#include "io/weights/write_foreign_weights.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <vector>

namespace sextant::weights_test {
namespace {

namespace fs = std::filesystem;

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / "sextant_weights_test";
  TemporaryFolder() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

using Values = std::map<std::string, std::vector<float>>;

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// A matrix of each layout: 2 x 3 transposed, two of three fused, two experts of 2 x 2.
std::vector<NamedTensor> own() {
  return {{"plain", {{4}, DType::kF32}},
          {"turned", {{2, 3}, DType::kF32}},
          {"left", {{2, 2}, DType::kF32}},
          {"right", {{2, 2}, DType::kF32}},
          {"experts", {{2, 2, 2}, DType::kF32}}};
}

ForeignModel model() {
  return {
      .tensors = {{.own = "plain", .names = {"a.plain", "old.plain"}, .shape = {4}},
                  {.own = "turned", .names = {"a.turned"}, .shape = {3, 2}, .is_transposed = true},
                  {.own = "left", .names = {"a.fused"}, .shape = {2, 4}, .first_column = 0},
                  {.own = "right", .names = {"a.fused"}, .shape = {2, 4}, .first_column = 2},
                  {.own = "experts",
                   .names = {"a.expert0"},
                   .shape = {2, 2},
                   .is_transposed = true,
                   .expert = 0},
                  {.own = "experts",
                   .names = {"a.expert1"},
                   .shape = {2, 2},
                   .is_transposed = true,
                   .expert = 1}},
      .ignored = {".mask"}};
}

const Values& values() {
  static const Values all = {{"plain", {1, 2, 3, 4}},
                             {"turned", {11, 12, 13, 21, 22, 23}},
                             {"left", {1, 2, 5, 6}},
                             {"right", {3, 4, 7, 8}},
                             {"experts", {1, 2, 3, 4, 5, 6, 7, 8}}};
  return all;
}

void write(const std::string& path, DType dtype = DType::kF32) {
  write_foreign_weights(path, own(), model(), dtype,
                        [](const std::string& name) { return bytes_of(values().at(name)); });
}

TEST_CASE("the layouts of a file are those that the model says") {
  const TemporaryFolder folder;
  write(folder.file("model.safetensors"));
  std::ifstream text(folder.file("model.safetensors"), std::ios::binary);
  std::string head(80, ' ');
  text.read(head.data(), 80);
  CHECK(head.find(R"({"__metadata__":{"format":"pt"},)") != std::string::npos);
  const SafetensorsFile file(folder.file("model.safetensors"));
  CHECK(floats_of(file.read("a.turned")) == std::vector<float>{11, 21, 12, 22, 13, 23});
  CHECK(floats_of(file.read("a.fused")) == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(floats_of(file.read("a.expert1")) == std::vector<float>{5, 7, 6, 8});
}

TEST_CASE("what is written reads back, in any of its types") {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    write(folder.file("model.safetensors"), dtype);
    ForeignWeights weights(folder.path.string());
    weights.match(own(), model());
    CHECK(weights.num_parameters() == 5);
    for (const auto& [name, expected] : values()) CHECK(floats_of(weights.read(name)) == expected);
  }
}

TEST_CASE("a file with our own names is read as it is") {
  const TemporaryFolder folder;
  SafetensorsWriter file(folder.file("weights.safetensors"), own());
  for (const NamedTensor& tensor : own()) file.append(bytes_of(values().at(tensor.name)));
  file.finish();
  ForeignWeights weights(folder.file("weights.safetensors"));
  CHECK(weights.has_own_names(own()));
  weights.match(own(), {});
  for (const auto& [name, expected] : values()) CHECK(floats_of(weights.read(name)) == expected);
}

// Tensors of zeros under these names.
void write_zeros(const std::string& path, std::vector<NamedTensor> tensors) {
  SafetensorsWriter file(path, tensors);
  for (const NamedTensor& tensor : tensors)
    file.append(std::vector<std::byte>(static_cast<std::size_t>(size_of(tensor.type).value)));
  file.finish();
}

std::string refusal(const std::string& path) {
  try {
    ForeignWeights weights(path);
    weights.match(own(), model());
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::vector<NamedTensor> foreign() {
  const auto f32 = [](Shape shape) { return TensorType{std::move(shape), DType::kF32}; };
  return {{"old.plain", f32({4})},    {"a.turned", f32({3, 2})},  {"a.fused", f32({2, 4})},
          {"a.expert0", f32({2, 2})}, {"a.expert1", f32({2, 2})}, {"layer.mask", f32({1})}};
}

TEST_CASE("older names are taken, known extras ignored, anything else is named") {
  const TemporaryFolder folder;
  const std::string path = folder.file("model.safetensors");
  write_zeros(path, foreign());
  CHECK(refusal(path) == "accepted");
  std::vector<NamedTensor> changed = foreign();
  changed[1].name = "a.turnde";
  write_zeros(path, changed);
  CHECK(contains(refusal(path), "has no tensor 'a.turned' for the parameter 'turned'"));
  CHECK(contains(refusal(path), "a.turnde"));
  changed = foreign();
  changed[1].type.shape = {2, 3};
  write_zeros(path, changed);
  CHECK(contains(refusal(path), "tensor 'a.turned' is 2x3, but the model's 'turned' wants 3x2"));
  changed = foreign();
  changed[5].name = "layer.other";
  write_zeros(path, changed);
  CHECK(contains(refusal(path), "has a tensor 'layer.other', which the model does not have"));
  changed = foreign();
  changed[2].type.dtype = DType::kI32;
  write_zeros(path, changed);
  CHECK(contains(refusal(path), "tensor 'a.fused' is i32, no weights"));
}

TEST_CASE("an index names the files of its own folder") {
  const TemporaryFolder folder;
  const auto index = [&](const std::string& file) {
    std::ofstream(folder.file("model.safetensors.index.json"))
        << R"({"metadata": {}, "weight_map": {"old.plain": "one.safetensors", "a.turned": ")"
        << file << R"("}})";
  };
  std::vector<NamedTensor> all = foreign();
  write_zeros(folder.file("one.safetensors"), {all.begin(), all.begin() + 1});
  write_zeros(folder.file("two.safetensors"), {all.begin() + 1, all.end()});
  index("two.safetensors");
  CHECK(refusal(folder.path.string()) == "accepted");
  for (const char* const outside : {"../two.safetensors", "/etc/two.safetensors", "..", ""}) {
    index(outside);
    CHECK(contains(refusal(folder.path.string()), "wanted a file of the index's own folder"));
  }
  index("three.safetensors");
  CHECK(contains(refusal(folder.path.string()), "three.safetensors: cannot be read"));
  // Without an index all files count.
  fs::remove(folder.file("model.safetensors.index.json"));
  CHECK(refusal(folder.path.string()) == "accepted");
  write_zeros(folder.file("three.safetensors"), {all.begin(), all.begin() + 1});
  CHECK(contains(refusal(folder.path.string()), "tensor 'old.plain' is in another file too"));
  fs::remove_all(folder.path / "one.safetensors");
  fs::remove_all(folder.path / "two.safetensors");
  fs::remove_all(folder.path / "three.safetensors");
  CHECK(contains(refusal(folder.path.string()), "no safetensors file in this folder"));
}

}  // namespace
}  // namespace sextant::weights_test
