// Movement of elements where it is odd: wide and narrow rows, tiles with ragged edges, unaligned
// addresses, many dims, large tensors. Every byte is that of the reference.
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/movement/moves.h"
#include "tests/cuda/call_on_both.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sextant::movement_test {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                            DType::kI64, DType::kI32, DType::kBool};

std::vector<double> numbers(const TensorType& type, std::uint64_t salt) {
  return whole_numbers(type.shape.elements(), salt, type.dtype == DType::kBool ? 2 : 251);
}

// Runs operators on both sides and compares all outputs.
class Sweep {
 public:
  Sweep() : device_(CudaOptions{}) {}

  void check(const std::string& kind, const Attributes& attributes,
             const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs,
             bool accumulate = false, std::size_t misalignment = 0) {
    CAPTURE(kind);
    CAPTURE(inputs.empty() ? "" : to_string(inputs[0].shape));
    CAPTURE(std::string(to_string(outputs[0].dtype)));
    CAPTURE(accumulate);
    CAPTURE(misalignment);
    std::vector<std::unique_ptr<TwinTensor>> tensors;
    std::vector<TwinTensor*> in, out;
    const auto add = [&](const TensorType& type, std::vector<TwinTensor*>& to) {
      tensors.push_back(
          std::make_unique<TwinTensor>(type, numbers(type, tensors.size() + 1), misalignment));
      to.push_back(tensors.back().get());
    };
    for (const TensorType& type : inputs) add(type, in);
    for (const TensorType& type : outputs) add(type, out);
    TwinCall call(kind, attributes, in, out, accumulate);
    for (const auto& kernel : kernels_.make_all(std::vector{call.for_device()}, device_))
      kernel->enqueue(nullptr);
    call.run_reference();
    for (TwinTensor* tensor : out) CHECK(tensor->device_bytes() == tensor->host_bytes());
  }

 private:
  CudaContext device_;
  CudaKernelTable kernels_ = cuda_kernels();
};

Shape permuted(const Shape& shape, const Integers& permutation) {
  Integers extents;
  for (const std::int64_t dim : permutation)
    extents.push_back(shape[static_cast<std::size_t>(dim)]);
  return Shape(extents);
}

}  // namespace

TEST_CASE("transposes of all element sizes arrive whole: tiles with ragged edges, rows, many dims" *
          doctest::skip(!has_gpu())) {
  Sweep sweep;
  const std::vector<std::pair<Shape, Integers>> cases = {
      {{64, 64}, {1, 0}},
      {{65, 130}, {1, 0}},
      {{16, 17}, {1, 0}},
      {{1, 1000}, {1, 0}},
      {{3, 70, 5, 33}, {0, 2, 3, 1}},
      {{3, 70, 5, 33}, {3, 0, 2, 1}},
      {{2, 19, 6, 64}, {0, 2, 1, 3}},
      {{2, 19, 6, 63}, {0, 2, 1, 3}},
      {{2, 3, 2, 3, 2, 3, 2, 3}, {7, 5, 3, 1, 6, 4, 2, 0}},
      {{4, 0, 3}, {2, 1, 0}},
      {Shape(), {}}};
  for (const DType dtype : kTypes)
    for (const auto& [shape, permutation] : cases)
      for (const bool accumulate : {false, true})
        sweep.check("transpose", {{"permutation", permutation}}, {{shape, dtype}},
                    {{permuted(shape, permutation), dtype}}, accumulate);
}

TEST_CASE("rows are cut and joined at every offset, aligned or not" * doctest::skip(!has_gpu())) {
  Sweep sweep;
  for (const DType dtype : {DType::kBool, DType::kBF16, DType::kF32, DType::kF64})
    for (const std::int64_t width : {16, 24, 33})
      for (const std::int64_t start : {0, 1, 2, 8})
        for (const bool accumulate : {false, true}) {
          const TensorType x{{5, width, 3}, dtype};
          const std::int64_t stop = width - start / 2;
          const std::int64_t last = width - start;
          sweep.check("slice", {{"dim", std::int64_t{1}}, {"start", start}, {"stop", stop}}, {x},
                      {{{5, stop - start, 3}, dtype}}, accumulate);
          sweep.check("pad",
                      {{"dim", std::int64_t{1}}, {"before", start}, {"after", std::int64_t{3}}},
                      {x}, {{{5, width + start + 3, 3}, dtype}}, accumulate);
          const TensorType head{{5, start, 3}, dtype}, tail{{5, last, 3}, dtype};
          const Attributes parts{{"dim", std::int64_t{1}}, {"extents", Integers{start, last}}};
          sweep.check("split", parts, {x}, {head, tail}, accumulate);
          sweep.check("concat", parts, {head, tail}, {x}, accumulate);
          sweep.check("roll", {{"dim", std::int64_t{1}}, {"shift", start}}, {x}, {x}, accumulate);
        }
}

TEST_CASE("whole tensors of odd sizes and addresses are copied and filled to the last byte" *
          doctest::skip(!has_gpu())) {
  Sweep sweep;
  for (const DType dtype : kTypes)
    for (const std::int64_t elements : {0, 1, 15, 16, 4099, 1'000'003})
      for (const bool accumulate : {false, true}) {
        const TensorType type{Shape{elements}, dtype};
        const auto size = static_cast<std::size_t>(size_of(dtype).value);
        for (const std::size_t misalignment : {std::size_t{0}, size}) {
          sweep.check("reshape", {{"shape", Integers{1, elements}}}, {type},
                      {{{1, elements}, dtype}}, accumulate, misalignment);
          sweep.check("constant", {{"value", dtype == DType::kBool ? 1.0 : 3.5}}, {}, {type},
                      accumulate, misalignment);
        }
      }
}

TEST_CASE("elements are repeated along first, middle and last dims" * doctest::skip(!has_gpu())) {
  Sweep sweep;
  for (const DType dtype : {DType::kBool, DType::kF16, DType::kF32, DType::kI64})
    for (const bool accumulate : {false, true})
      for (const auto& [dims, from] : std::vector<std::pair<Integers, Shape>>{{{0}, {17, 40}},
                                                                              {{1}, {33, 40}},
                                                                              {{2}, {33, 17}},
                                                                              {{0, 2}, {17}},
                                                                              {{}, {33, 17, 40}}})
        sweep.check("expand", {{"dims", dims}, {"shape", Integers{33, 17, 40}}}, {{from, dtype}},
                    {{{33, 17, 40}, dtype}}, accumulate);
}

TEST_CASE("look-ups by row and by element, and the sums that undo them, with indices that miss" *
          doctest::skip(!has_gpu())) {
  const std::int64_t rows = 37, found = 600;
  for (const std::int64_t width : {1, 7, 64, 1500}) {
    CAPTURE(width);
    CudaContext device(CudaOptions{});
    for (const DType index_type : {DType::kI32, DType::kI64})
      for (const bool accumulate : {false, true}) {
        // From -1 to 38: some are of no row. Whole numbers, whose sums are exact in f32.
        std::vector<double> indices = whole_numbers(found, 5, rows + 3);
        for (double& index : indices) index -= 1;
        TwinTensor at({Shape{found}, index_type}, indices);
        const TensorType table_type{{2, rows, width}, DType::kF32};
        const TensorType found_type{{2, found, width}, DType::kF32};
        TwinTensor table(table_type, numbers(table_type, 1)),
            taken(found_type, numbers(found_type, 2));
        const Attributes attributes{{"dim", std::int64_t{1}}, {"extent", rows}};
        TwinCall gather("gather", attributes, {&table, &at}, {&taken}, accumulate);
        TwinTensor sums(table_type, numbers(table_type, 3));
        TwinCall scatter("scatter_add", attributes, {&taken, &at}, {&sums}, accumulate);
        for (TwinCall* call : {&gather, &scatter}) {
          for (const auto& kernel :
               cuda_kernels().make_all(std::vector{call->for_device()}, device))
            kernel->enqueue(nullptr);
          call->run_reference();
        }
        CHECK(taken.device_bytes() == taken.host_bytes());
        CHECK(sums.device_bytes() == sums.host_bytes());
      }
  }
}

TEST_CASE("running sums longer than a block's stretch are exact for whole numbers" *
          doctest::skip(!has_gpu())) {
  Sweep sweep;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64})
    for (const Shape& shape : {Shape{3, 1000}, Shape{1000, 3}, Shape{1000, 40}, Shape{257}})
      for (const bool reverse : {false, true})
        for (const bool exclusive : {false, true})
          sweep.check("cumsum",
                      {{"dim", std::int64_t{0}}, {"reverse", reverse}, {"exclusive", exclusive}},
                      {{shape, dtype}}, {{shape, dtype}}, reverse == exclusive);
}

TEST_CASE("a move merges dims and widens elements as far as rows and addresses allow") {
  alignas(16) static std::byte memory[64];
  // [4, 6, 8] bf16, contiguous: one dim of 24 words of 16 bytes.
  CudaMove move =
      make_move(DType::kBF16, memory, memory + 16, {{4, 48, 48}, {6, 8, 8}, {8, 1, 1}}, false);
  CHECK(move.rank == 1);
  CHECK(move.element_bytes == 16);
  CHECK(move.elements == 24);
  // The same from an address that is even and no more.
  move =
      make_move(DType::kBF16, memory + 2, memory + 16, {{4, 48, 48}, {6, 8, 8}, {8, 1, 1}}, false);
  CHECK(move.element_bytes == 2);
  CHECK(move.elements == 192);
  // Rows of 12 bytes out of rows of 20.
  move = make_move(DType::kF32, memory, memory + 16, {{7, 5, 3}, {3, 1, 1}}, false);
  CHECK(move.rank == 2);
  CHECK(move.element_bytes == 4);
  // Heads before positions: rows of 64 stay rows.
  move = make_move(DType::kBF16, memory, memory + 16,
                   {{2, 1216, 1216}, {6, 64, 1216}, {19, 384, 64}, {64, 1, 1}}, false);
  CHECK(move.element_bytes == 16);
  CHECK(move.tiled_dim == -1);
  // An element repeated along rows of 80 bytes is written in words of 16.
  move = make_move(DType::kBF16, memory, memory + 16, {{3, 1, 40}, {40, 0, 1}}, false);
  CHECK(move.repeated_bytes == 2);
  CHECK(move.elements == 15);
  // A matrix transposed goes through tiles, a narrow one does not.
  CHECK(make_move(DType::kF32, memory, memory + 16, {{32, 1, 40}, {40, 32, 1}}, false).tiled_dim ==
        0);
  CHECK(make_move(DType::kF32, memory, memory + 16, {{3, 1, 40}, {40, 3, 1}}, false).tiled_dim ==
        -1);
}

TEST_CASE("indices are divided by multiplication for every divisor and at the edges") {
  // What Divisor::quotient computes on the device.
  const auto quotient = [](const Divisor& divisor, std::uint32_t of) {
    const auto high =
        static_cast<std::uint32_t>((static_cast<std::uint64_t>(of) * divisor.multiplier) >> 32);
    return (high + of) >> divisor.shift;
  };
  for (const std::int64_t by : {1, 2, 3, 5, 7, 10, 255, 256, 257, 65535, 65537, 1 << 20, 50257,
                                0x3FFFFFFF, 0x40000001, 0x7FFFFFFF}) {
    const Divisor divisor(by);
    const auto b = static_cast<std::uint32_t>(by);
    for (const std::uint32_t of :
         {0U, 1U, b - 1, b, b + 1, 2 * b - 1, 12345678U, 0x7FFFFFFEU, 0x7FFFFFFFU})
      if (of < 0x80000000U) CHECK(quotient(divisor, of) == of / b);
  }
}

}  // namespace sextant::movement_test
