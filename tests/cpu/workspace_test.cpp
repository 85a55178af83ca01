// What kernels take beside their operands: nothing that grows with a tensor that they only pass
// through, and never more than they state.
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

namespace sextant::workspace_test {
namespace {

// 1,024 rows of 512: 2^19 elements, which are 4 MiB in double.
constexpr std::int64_t kRows = 1024, kColumns = 512;
constexpr std::int64_t kWhole = kRows * kColumns * 8;

using Call = std::unique_ptr<KernelCall>;

Call call_of(const char* kind, const Attributes& attributes, const std::vector<TensorType>& in,
             const std::vector<TensorType>& out) {
  auto call = std::make_unique<KernelCall>(kind, attributes);
  for (const TensorType& type : in) call->input({type, {}});
  for (const TensorType& type : out) call->output({type, {}});
  return call;
}

// Calls of one type that write every element once, or read every element for a few sums.
std::vector<std::pair<std::string, Call>> passing_calls(DType dtype) {
  const TensorType whole{Shape{kRows, kColumns}, dtype}, row{Shape{kColumns}, dtype};
  const TensorType column{Shape{kRows}, dtype}, square{Shape{kColumns, kColumns}, dtype};
  const TensorType kept{Shape{kRows, 1}, dtype}, f32_column{Shape{kRows}, DType::kF32};
  const TensorType labels{Shape{kRows}, DType::kI32}, scalar{Shape(), dtype};
  std::vector<std::pair<std::string, Call>> calls;
  const auto add = [&](const char* kind, const Attributes& attributes,
                       const std::vector<TensorType>& in, const std::vector<TensorType>& out) {
    calls.emplace_back(kind, call_of(kind, attributes, in, out));
  };
  const Attributes none;
  Attributes leading, last, epsilon, value;
  leading.set("dims", std::vector<std::int64_t>{0});
  last.set("dims", std::vector<std::int64_t>{1});
  last.set("keep_dims", true);
  epsilon.set("epsilon", 1e-5);
  value.set("value", 2.0);
  add("add", none, {whole, row}, {whole});
  add("exp", none, {whole}, {whole});
  add("bias_add", none, {whole, row}, {whole});
  add("constant", value, {}, {whole});
  add("expand", leading, {row}, {whole});
  add("reduce_sum", leading, {whole}, {row});
  add("softmax", last, {whole, kept, kept}, {whole});
  add("row_max", none, {whole}, {f32_column});
  add("row_sum_exp", none, {whole, f32_column}, {f32_column});
  add("cross_entropy_grad", none, {whole, f32_column, f32_column, labels, {Shape(), DType::kF32}},
      {whole});
  add("layer_norm", epsilon, {whole, row, row}, {whole, f32_column, f32_column});
  add("rms_norm_grad_input", none, {whole, row, f32_column, whole}, {whole});
  add("matmul", none, {whole, square}, {whole});
  add("matmul_grad_weight", none, {whole, whole}, {square});
  return calls;
}

}  // namespace

// The most that any of them takes are the blocks of a product, 112 KiB, and copies of small inputs,
// 32 KiB each at most; sums of rows are one row.
TEST_CASE("kernels that pass through a tensor take no copy of it, whatever its type") {
  for (const KernelTable& table : {reference_kernels(), fast_kernels()}) {
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      for (const auto& [kind, call] : passing_calls(dtype)) {
        CAPTURE(kind);
        CAPTURE(to_string(dtype));
        REQUIRE((call->kernel(table) != nullptr));
        CHECK(call->stated_workspace(table) <= 200 * 1024);
        static_assert(kWhole > 20 * 200 * 1024);
      }
    }
  }
}

// 65 x 130 times 130 x 70: more than one block of 32 rows, 64 columns and 128 terms, none whole.
// Row i of the left matrix is i + 1, the right one is ones: element (i, j) is 130 (i + 1).
TEST_CASE("products whose last blocks are not whole have every term") {
  constexpr std::int64_t kM = 65, kK = 130, kN = 70;
  for (const bool transposed : {false, true}) {
    std::vector<double> left;
    for (std::int64_t i = 0; i < kM * kK; ++i) left.push_back(static_cast<double>(i / kK + 1));
    Attributes attributes;
    attributes.set("transpose_w", transposed);
    KernelCall call("matmul", attributes);
    call.input({{Shape{kM, kK}, DType::kF64}, left});
    call.input({{transposed ? Shape{kN, kK} : Shape{kK, kN}, DType::kF64},
                std::vector<double>(static_cast<std::size_t>(kK * kN), 1.0)});
    call.output({{Shape{kM, kN}, DType::kF64}, {}});
    const std::vector<double> y = call.run(reference_kernels()).front();
    for (std::int64_t i = 0; i < kM * kN; ++i)
      CHECK(y[static_cast<std::size_t>(i)] == 130.0 * static_cast<double>(i / kN + 1));
    CHECK(call.taken_workspace() <= call.stated_workspace(reference_kernels()));
  }
}

TEST_CASE("a workspace that was reserved takes from one piece, and knows its most") {
  Workspace workspace;
  workspace.reserve(1000);
  {
    const Workspace::Frame frame(workspace);
    const double* first = workspace.take<double>(8).data();
    const double* second = workspace.take<double>(8).data();
    CHECK((first + 8 == second));
    CHECK(workspace.most() == 128);
  }
  workspace.take<std::byte>(1);
  CHECK(workspace.most() == 128);
  workspace.forget_most();
  CHECK(workspace.most() == 64);  // a line
}

}  // namespace sextant::workspace_test
