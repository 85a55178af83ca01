// One matrix product through cuBLASLt and what happens to its elements on the way out.
#pragma once

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "core/base/dtype.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sextant {

// With P = op(A) op(B) + C, arithmetic in f32 (f64 for f64), every result rounded once:
enum class ProductEpilogue : std::uint8_t {
  kNone,         // D = P
  kBias,         // D = P + bias, an element of bias per row of D
  kGelu,         // D = gelu(P), the form with tanh
  kGeluBias,     // D = gelu(P + bias)
  kGeluAux,      // D = gelu(P), aux = P
  kGeluAuxBias,  // D = gelu(P + bias), aux = P + bias
  kGeluGrad,     // D = P * gelu'(aux)
  kSumOfA,       // D = P, bias = sums of the rows of op(A)
  kSumOfB,       // D = P, bias = sums of the columns of op(B)
};
std::string_view to_string(ProductEpilogue epilogue);

// Where the matrices of several products lie: behind each other, at equal distances, or where
// arrays of pointers say.
enum class BatchPlaces : std::uint8_t { kPacked, kStrided, kPointers };

// Column-major D[m, n] = op(A)[m, k] op(B)[k, n], all matrices packed, no dim 0. A row-major tensor
// [rows, columns] is a column-major matrix [columns, rows].
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType in = DType::kF32;                    // of A and, unless b_in says otherwise, of B
  std::optional<DType> b_in = std::nullopt;  // 8-bit types may differ
  DType out = DType::kF32;                   // of C, D, bias and aux
  std::int32_t count = 1;                    // products
  BatchPlaces places = BatchPlaces::kPacked;
  bool has_one_a = false, has_one_b = false;  // all products, if they are not packed
  ProductEpilogue epilogue = ProductEpilogue::kNone;
  // Multiprocessors that it is cut for; 0: all of the card.
  std::int32_t processors = 0;
  // Sums of 8-bit operands stay in the tensor cores' registers, which keep fewer bits of them, to
  // the end of a tile (CUBLASLT_MATMUL_DESC_FAST_ACCUM).
  bool fast_sums = false;

  DType type_of_b() const { return b_in.value_or(in); }
  bool operator==(const Product&) const = default;
};

// With BatchPlaces::kPointers a, b, c and d are arrays of as many addresses, on the device.
struct ProductAddresses {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  // nothing, D itself, or a matrix like D
  void* d = nullptr;
  void* bias = nullptr;
  // Elements from the bias of one product to that of the next, and with BatchPlaces::kStrided from
  // matrix to matrix, of C as of D.
  std::int64_t bias_stride = 0, a_stride = 0, b_stride = 0, d_stride = 0;
  void* aux = nullptr;
  // On the device, of 8-bit operands: what a stored 1 stands for.
  const float* a_scale = nullptr;
  const float* b_scale = nullptr;
};

// Products use the workspace of the device but for its end, where sums wait to be added.
inline constexpr std::int64_t kProductSumBytes = std::int64_t{1} << 20;
inline constexpr std::size_t kProductWorkspaceBytes =
    CudaContext::kWorkspaceBytes - std::size_t{kProductSumBytes};

// cuBLASLt's descriptions of a call. Plain values: they own nothing.
struct ProductCall {
  ProductCall(const Product& product, const ProductAddresses& addresses);
  ProductCall(const ProductCall&) = delete;
  ProductCall& operator=(const ProductCall&) = delete;

  // What an algorithm depends on, as text.
  std::string key() const;
  // What the members behind the product read and write if they run one by one.
  double member_bytes() const;
  cublasStatus_t run(const CudaContext& device, const cublasLtMatmulAlgo_t& algorithm,
                     cudaStream_t stream) const;

  Product product;
  ProductAddresses addresses;
  // cuBLASLt's functions take what they only read as pointers to what is not const.
  mutable cublasLtMatmulDescOpaque_t operation{};
  mutable cublasLtMatrixLayoutOpaque_t a{}, b{}, d{};
};

// Nothing where cuBLASLt has no algorithm for it, or where the parts one by one were measured to be
// faster. cuBLASLt rounds a product to 16 bits before it adds C, so what accumulates in 16 bits (C
// is D) is multiplied in f32 and added by a kernel of its own. Cut for the processors that the
// device has left at this time.
std::unique_ptr<CudaKernel> make_product(const Product& product, const ProductAddresses& addresses,
                                         CudaContext& device);

// The type of a dtype in cuBLASLt; nothing for integers.
std::optional<cudaDataType_t> cublas_type(DType dtype);

}  // namespace sextant
