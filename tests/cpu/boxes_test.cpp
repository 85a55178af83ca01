// Copies and reductions between boxes, against element-by-element walks.
#include "backends/cpu/kernels/shared/boxes.h"

#include "core/base/elements.h"
#include "core/base/error.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace sextant::boxes_test {
namespace {

// Buffers whose elements are their global row-major index in a 5 x 4 x 3 tensor.
std::vector<float> indices_of(const Shard& box) {
  std::vector<float> values;
  for (std::int64_t i = box.dims[0].offset; i < box.dims[0].end(); ++i)
    for (std::int64_t j = box.dims[1].offset; j < box.dims[1].end(); ++j)
      for (std::int64_t k = box.dims[2].offset; k < box.dims[2].end(); ++k)
        values.push_back(static_cast<float>((i * 4 + j) * 3 + k));
  return values;
}

std::byte* bytes_of(std::vector<float>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

TEST_CASE("a box copy moves exactly the elements of the part") {
  const std::vector<Shard> boxes{{{{0, 5}, {0, 4}, {0, 3}}}, {{{1, 3}, {0, 4}, {0, 3}}},
                                 {{{0, 5}, {1, 2}, {0, 3}}}, {{{2, 2}, {1, 3}, {1, 2}}},
                                 {{{4, 1}, {3, 1}, {2, 1}}}, {{{0, 5}, {2, 0}, {0, 3}}}};
  for (const Shard& from_box : boxes) {
    for (const Shard& to_box : boxes) {
      const Shard part = intersect(from_box, to_box);
      std::vector<float> from = indices_of(from_box);
      std::vector<float> to(indices_of(to_box).size(), -1.0F);
      copy_box(part, {bytes_of(from), &from_box}, {bytes_of(to), &to_box}, DType::kF32);
      // Expected: its index where the element lies in both boxes, untouched elsewhere.
      std::vector<float> expected = indices_of(to_box);
      std::size_t copied = 0;
      for (float& value : expected) {
        const auto at = static_cast<std::int64_t>(value);
        const std::vector<std::int64_t> index{at / 12, at / 3 % 4, at % 3};
        bool inside = true;
        for (std::size_t dim = 0; dim < 3; ++dim)
          inside = inside && index[dim] >= from_box.dims[dim].offset &&
                   index[dim] < from_box.dims[dim].end();
        if (inside)
          ++copied;
        else
          value = -1.0F;
      }
      CHECK(to == expected);
      CHECK(static_cast<std::int64_t>(copied) == part.elements());
    }
  }
}

TEST_CASE("a part outside its buffers is refused") {
  const Shard small{{{0, 2}}}, large{{{0, 3}}};
  std::vector<float> a(3), b(3);
  CHECK_THROWS_AS(copy_box(large, {bytes_of(a), &small}, {bytes_of(b), &large}, DType::kF32),
                  Error);
}

TEST_CASE("reductions start from their neutral element") {
  for (const auto& [op, expected] :
       {std::pair(ReduceOp::kSum, -3.0F), {ReduceOp::kMax, 2.0F}, {ReduceOp::kMin, -5.0F}}) {
    std::vector<float> total(1);
    fill_neutral(op, DType::kF32, bytes_of(total), 1);
    for (float value : {-5.0F, 2.0F, 0.0F}) {
      std::vector<float> one{value};
      reduce_elements(op, DType::kF32, bytes_of(one), bytes_of(total), 1);
    }
    CHECK(total[0] == expected);
  }
}

TEST_CASE("integer reductions stay exact and have the extreme numbers as neutral elements") {
  std::int64_t total = 0, value = (std::int64_t{1} << 60) + 1;
  auto* to = reinterpret_cast<std::byte*>(&total);
  fill_neutral(ReduceOp::kMax, DType::kI64, to, 1);
  CHECK(total == std::numeric_limits<std::int64_t>::lowest());
  reduce_elements(ReduceOp::kMax, DType::kI64, reinterpret_cast<std::byte*>(&value), to, 1);
  reduce_elements(ReduceOp::kSum, DType::kI64, reinterpret_cast<std::byte*>(&value), to, 1);
  CHECK(total == (std::int64_t{1} << 61) + 2);
}

TEST_CASE("integer sums wrap around, whichever of the terms comes last") {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  for (const bool last_is_one : {true, false}) {
    std::int32_t total = last_is_one ? most : 1, value = last_is_one ? 1 : most;
    reduce_elements(ReduceOp::kSum, DType::kI32, reinterpret_cast<std::byte*>(&value),
                    reinterpret_cast<std::byte*>(&total), 1);
    CHECK(total == std::numeric_limits<std::int32_t>::lowest());
  }
}

TEST_CASE("sum and max of bool are or, min is and, and true stays 1") {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
    for (const int a : {0, 1}) {
      for (const int b : {0, 1}) {
        std::byte total{};
        fill_neutral(op, DType::kBool, &total, 1);
        CHECK(total == std::byte{op == ReduceOp::kMin});
        for (const int flag : {a, b}) {
          const std::byte value{static_cast<unsigned char>(flag)};
          reduce_elements(op, DType::kBool, &value, &total, 1);
        }
        CHECK(total == std::byte{op == ReduceOp::kMin ? (a & b) != 0 : (a | b) != 0});
      }
    }
  }
}

TEST_CASE("a maximum or minimum with NaN is NaN in every order and floating type") {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
      for (const std::size_t nan_at : {0, 1, 2}) {
        std::vector<double> values{-1, 5, 2};
        values[nan_at] = std::nan("");
        std::vector<std::byte> bytes(3 * static_cast<std::size_t>(size_of(dtype).value));
        store_from_double(dtype, values, bytes.data());
        const std::size_t size = bytes.size() / 3;
        for (const std::size_t from : {1, 2})
          reduce_elements(op, dtype, bytes.data() + from * size, bytes.data(), 1);
        double result = 0;
        load_as_double(dtype, bytes.data(), {&result, 1});
        CHECK(std::isnan(result));
      }
    }
  }
}

}  // namespace
}  // namespace sextant::boxes_test
