// Shapes, element types and the attributes of operators.
#include "core/tensors/shape.h"

#include "core/base/error.h"
#include "core/graphs/phase.h"
#include "core/tensors/attributes.h"

#include <doctest/doctest.h>

namespace sextant::shape_test {
namespace {

TEST_CASE("shapes count their elements") {
  CHECK(Shape().elements() == 1);
  CHECK(Shape{5, 7}.elements() == 35);
  CHECK(Shape{5, 0, 7}.elements() == 0);
}

TEST_CASE("impossible shapes are refused when they are made") {
  CHECK_THROWS_AS(Shape({2, -1}), Error);
  CHECK_THROWS_AS(Shape(std::vector<std::int64_t>(17, 1)), Error);
  CHECK_NOTHROW(Shape(std::vector<std::int64_t>(16, 1)));
  CHECK_NOTHROW(Shape({std::int64_t{1} << 31, std::int64_t{1} << 31}));
  CHECK_THROWS_AS(Shape({std::int64_t{1} << 31, std::int64_t{1} << 31, 2}), Error);
  // Empty, but its strides would overflow.
  CHECK_THROWS_AS(Shape({0, std::int64_t{1} << 62, 4}), Error);
}

TEST_CASE("text of a shape reads back as the shape") {
  for (const Shape& shape : {Shape(), Shape{5}, Shape{5, 7}, Shape{0, 3, 1}})
    CHECK(parse_shape(to_string(shape)) == shape);
  CHECK(to_string(Shape{5, 7}) == "5x7");
  CHECK(to_string(Shape()) == "()");
  for (const char* const text :
       {"", "5x", "x5", "5,7", "5x7 ", "5.5", "-3", "99999999999999999999"})
    CHECK_THROWS_AS(parse_shape(text), Error);
}

TEST_CASE("bytes of a tensor follow its element type") {
  CHECK(size_of(TensorType{Shape{3, 5}, DType::kBF16}) == Bytes(30));
  CHECK(size_of(TensorType{Shape{}, DType::kI64}) == Bytes(8));
  CHECK_THROWS_AS(size_of(TensorType{Shape{std::int64_t{1} << 62}, DType::kF32}), Error);
}

TEST_CASE("every element type and phase reads back from its name") {
  for (const DType dtype : kAllDTypes) CHECK(parse_dtype(to_string(dtype)) == dtype);
  CHECK_THROWS_AS(parse_dtype("fp8"), Error);
  for (const Phase phase : {Phase::kData, Phase::kForward, Phase::kRecompute, Phase::kInputGrad,
                            Phase::kWeightGrad, Phase::kOptimizer, Phase::kCommunication})
    CHECK(parse_phase(to_string(phase)) == phase);
  CHECK_THROWS_AS(parse_phase("backward"), Error);
}

TEST_CASE("attributes stay sorted by name and keep the last value") {
  Attributes attributes{{"heads", std::int64_t{4}}, {"causal", true}, {"axis", std::int64_t{-1}}};
  attributes.set("heads", std::int64_t{8});
  REQUIRE(attributes.entries().size() == 3);
  CHECK(attributes.entries()[0].first == "axis");
  CHECK(attributes.entries()[1].first == "causal");
  CHECK(attributes.integer("heads") == 8);
  CHECK(attributes.boolean_or("causal", false));
  CHECK(attributes.real_or("epsilon", 0.5) == 0.5);
}

TEST_CASE("a change of attributes leaves their copies as they were") {
  Attributes attributes{{"heads", std::int64_t{4}}};
  const Attributes copy = attributes;
  CHECK(copy == attributes);
  attributes.set("heads", std::int64_t{8});
  CHECK(copy.integer("heads") == 4);
  CHECK(attributes != copy);
  attributes.set("heads", std::int64_t{4});
  CHECK(attributes == copy);  // though each has its own by now
  Attributes none;
  CHECK(none == Attributes{});
  none.set("causal", true);
  CHECK(none != Attributes{});
}

TEST_CASE("an attribute that is missing or of another type is named in the error") {
  const Attributes attributes{{"heads", std::int64_t{4}}};
  CHECK_THROWS_WITH_AS(attributes.integer("axis"), "the attribute 'axis' is missing", Error);
  CHECK_THROWS_WITH_AS(attributes.real("heads"), "the attribute 'heads' is not a real number",
                       Error);
  CHECK_THROWS_AS(attributes.real_or("heads", 1.0), Error);
}

}  // namespace
}  // namespace sextant::shape_test
