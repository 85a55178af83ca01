// Bytes: the type that is moved and not computed in, and what makes numbers of them.
#include "core/operators/pointwise/normalize_images.h"

#include "core/base/elements.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant::normalize_images_test {
namespace {

const TensorType kImages{.shape = {2, 3, 4, 5}, .dtype = DType::kU8};

std::string refusal(const char* kind, const std::vector<TensorType>& inputs,
                    const Attributes& attributes) {
  try {
    builtin_operators().get(kind).infer(inputs, attributes);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "";
}

Attributes numbers(const std::string& mean, const std::string& deviation,
                   const std::string& dtype = "bf16") {
  return {{"mean", mean}, {"deviation", deviation}, {"dtype", dtype}};
}

TEST_CASE("a byte is stored as it is, and what is beyond its ends becomes them") {
  CHECK(parse_dtype("u8") == DType::kU8);
  CHECK(size_of(DType::kU8) == Bytes(1));
  CHECK_FALSE(is_floating(DType::kU8));
  CHECK_FALSE(is_8_bit_floating(DType::kU8));
  CHECK(is_only_moved(DType::kU8));
  for (const DType wide : {DType::kBF16, DType::kF16, DType::kF32, DType::kI32})
    CHECK(holds_every_value(wide, DType::kU8));
  CHECK_FALSE(holds_every_value(DType::kU8, DType::kI32));
  const std::vector<double> values = {0, 1, 127, 128, 255, -1, 256, 2.9};
  std::vector<std::byte> bytes(values.size());
  store_from_double(DType::kU8, values, bytes.data());
  std::vector<double> read(values.size());
  load_as_double(DType::kU8, bytes.data(), read);
  CHECK(read == std::vector<double>{0, 1, 127, 128, 255, 0, 255, 2});
}

TEST_CASE("images keep their shape, and any dim may be split") {
  const OperatorDef& def = builtin_operators().get(kNormalizeImages);
  const Attributes attributes{numbers("0.485,0.456,0.406", "0.229,0.224,0.225")};
  const std::vector<TensorType> inputs{kImages};
  const std::vector<TensorType> outputs = def.infer(inputs, attributes);
  CHECK(outputs == std::vector{TensorType{kImages.shape, DType::kBF16}});
  CHECK(def.signatures(inputs, outputs, attributes).size() == 5);
  CHECK_FALSE(static_cast<bool>(def.gradient));
  const std::vector<ChannelNormal> normals = channel_normals(attributes, 3);
  CHECK(normals[1].mean == 0.456F);
  CHECK(normals[2].deviation == 0.225F);
  CHECK(channel_normals(numbers("0.5", "1,2"), 2)[1].mean == 0.5F);
  CHECK(normalized(255, {0.5F, 0.25F}) == 2.0F);
  CHECK(normalized(0, {0.5F, 0.25F}) == -2.0F);
}

TEST_CASE("numbers that fit no channels, and images that are no bytes, are refused") {
  const auto of = [](const std::string& mean, const std::string& deviation) {
    return refusal("normalize_images", {kImages}, numbers(mean, deviation));
  };
  CHECK(of("0,0", "1") == "normalize_images: mean has 2 numbers, wanted 1, or 3 as x has channels");
  for (const char* text : {"", "x", "1,", ",1", "1 ,2,3", "nan", "inf", "1;2;3"}) {
    CAPTURE(text);
    CHECK(of(text, "1").find("wanted numbers with commas between them") != std::string::npos);
  }
  CHECK(of("0", "0.5,0,1") == "normalize_images: a deviation of 0, wanted numbers above 0");
  CHECK(refusal("normalize_images", {{kImages.shape, DType::kF32}}, numbers("0", "1")) ==
        "normalize_images: x is 2x3x4x5 f32, wanted u8");
  CHECK_FALSE(refusal("normalize_images", {kImages}, numbers("0", "1", "i32")).empty());
  CHECK_FALSE(refusal("normalize_images", {{{4}, DType::kU8}}, numbers("0", "1")).empty());
}

TEST_CASE("inputs alone make bytes, and nothing computes in them") {
  const Attributes attributes{{"shape", std::vector<std::int64_t>{4}}, {"dtype", "u8"}};
  const OperatorDef& input = builtin_operators().get("input");
  CHECK(input.infer({}, attributes) == std::vector{TensorType{{4}, DType::kU8}});
  Attributes limited = attributes;
  limited.set("limit", std::int64_t{9});
  CHECK_FALSE(refusal("input", {}, limited).empty());
  CHECK(refusal("cast", {{{4}, DType::kF32}}, {{"dtype", "u8"}}) ==
        "dtype u8: bytes are read by inputs alone");
  CHECK(refusal("cast", {kImages}, {{"dtype", "f32"}}) ==
        "cast: x is 2x3x4x5 u8, in which nothing is computed");
  CHECK_FALSE(refusal("add", {kImages, kImages}, {}).empty());
  CHECK_FALSE(refusal("relu", {kImages}, {}).empty());
  const Attributes dims{{"dims", std::vector<std::int64_t>{0}}, {"out_dtype", "f32"}};
  CHECK_FALSE(refusal("reduce_sum", {kImages}, dims).empty());
}

}  // namespace
}  // namespace sextant::normalize_images_test
