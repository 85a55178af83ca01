// Safetensors files: round trips, what malformed ones are refused for, and weights and samples that
// are those of a run.
#include "io/safetensors.h"

#include "core/base/error.h"
#include "core/graphs/initial_contents.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/movement/sources.h"
#include "io/exchange.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace sextant::safetensors_test {
namespace {

namespace fs = std::filesystem;

// A path of its own whose file goes away.
struct TemporaryFile {
  std::string path;
  explicit TemporaryFile(const char* name)
      : path(fs::temp_directory_path() / (std::string("sextant_safetensors_") + name)) {}
  ~TemporaryFile() { fs::remove(path); }
  void write(const std::string& header, const std::string& data) const {
    const std::uint64_t length = header.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << header << data;
  }
};

template <typename Element>
std::vector<Element> read_as(const SafetensorsFile& file, const char* name) {
  const std::vector<std::byte> bytes = file.read(name);
  std::vector<Element> values(bytes.size() / sizeof(Element));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string message_of(const std::string& path) {
  try {
    const SafetensorsFile file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what is written is read, in pieces of any size") {
  const TemporaryFile place("round_trip");
  const std::vector<NamedTensor> tensors = {{"a \"quoted\" name", {Shape{2, 3}, DType::kF32}},
                                            {"nothing", {Shape{0, 7}, DType::kBF16}},
                                            {"scalar", {Shape{}, DType::kI64}},
                                            {"bytes", {Shape{5}, DType::kBool}}};
  std::vector<std::byte> data(24 + 8 + 5);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
  SafetensorsWriter writer(place.path, tensors);
  writer.append(std::span(data).first(11));
  writer.append(std::span(data).subspan(11));
  CHECK_FALSE(fs::exists(place.path));
  writer.finish();
  const SafetensorsFile file(place.path);
  REQUIRE(file.tensors().size() == tensors.size());
  for (const NamedTensor& tensor : tensors) {
    CAPTURE(tensor.name);
    CHECK(std::find(file.tensors().begin(), file.tensors().end(), tensor) != file.tensors().end());
  }
  CHECK(file.read("bytes") == std::vector<std::byte>(data.begin() + 32, data.end()));
  CHECK(file.read("nothing").empty());
  CHECK_THROWS_WITH_AS(file.read("scalr"), doctest::Contains("scalar"), Error);
}

TEST_CASE("an unfinished file leaves nothing behind") {
  const TemporaryFile place("unfinished");
  { const SafetensorsWriter writer(place.path, {{"x", {Shape{4}, DType::kF32}}}); }
  CHECK_FALSE(fs::exists(place.path));
  CHECK_FALSE(fs::exists(place.path + ".part"));
}

TEST_CASE("files that lie about their data are refused by what is wrong") {
  const TemporaryFile place("malformed");
  const auto refused = [&](const std::string& header, const std::string& data) {
    place.write(header, data);
    return message_of(place.path);
  };
  const std::string x = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  CHECK(refused(x + "}", "12345678") == "");
  CHECK(refused(x + "}", "1234567").find("its tensors take 8 bytes") != std::string::npos);
  CHECK(refused(x, "12345678").find("parse error") != std::string::npos);
  CHECK(refused(R"({"x":{"dtype":"F8","shape":[2],"data_offsets":[0,2]}})", "12")
            .find("dtype F8, which is not read") != std::string::npos);
  CHECK(refused(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "12345678") != "");
  CHECK(refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})", "123456789")
            .find("takes 8 bytes") != std::string::npos);
  CHECK(refused(R"({"x":{"dtype":"F32","shape":[2]}})", "12345678").find("data_offsets") !=
        std::string::npos);
  CHECK(refused(x + R"(,"y":{"dtype":"I32","shape":[1],"data_offsets":[4,8]}})", "12345678")
            .find("'y' begins at 4") != std::string::npos);
  CHECK(refused("[]", "").find("no object") != std::string::npos);
  std::ofstream(place.path, std::ios::binary) << "abc";
  CHECK(message_of(place.path).find("no header") != std::string::npos);
  CHECK(message_of(place.path + ".not").find("cannot be read") != std::string::npos);
  CHECK(message_of(fs::temp_directory_path().string()).find("directory") != std::string::npos);
}

TEST_CASE("weights and samples are those that a run starts from and reads") {
  LogicalGraph graph(builtin_operators());
  ParameterInfo info;
  info.initializer = {Initializer::Kind::kNormal, 0.02};
  add_parameter(graph, "layer1.w", 1, {Shape{3, 5}, DType::kF32}, info);
  const TemporaryFile weights("weights"), samples("samples");
  CHECK(write_initial_weights(weights.path, graph, 7) == 15);
  const auto values = read_as<float>(SafetensorsFile(weights.path), "layer1.w");
  std::vector<double> wanted(15);
  InitialContents(graph.ops().front(), Shape{3, 5}, 7).fill(0, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(values[i] == static_cast<float>(wanted[i]));

  std::vector<std::int32_t> ids(50);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
  const TokenData data(ids);
  write_samples(samples.path, data, {.seed = 3, .steps = 2, .global_batch = 3, .sequence = 4});
  const SafetensorsFile file(samples.path);
  const auto tokens = read_as<std::int32_t>(file, "tokens");
  const auto labels = read_as<std::int32_t>(file, "labels");
  REQUIRE(tokens.size() == 24);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto sample = static_cast<std::int64_t>(i / 4);
    CHECK(tokens[i] == data.sample_start(3, sample, 4).value() + static_cast<std::int64_t>(i % 4));
    CHECK(labels[i] == tokens[i] + 1);
  }
}

}  // namespace sextant::safetensors_test
