// Descriptions of products and the kernel that runs one.
#include "backends/cuda/kernels/products/product.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/kernels/products/matmul_any.h"
#include "backends/cuda/kernels/products/product_choices.h"
#include "core/tensors/shape.h"

#include <fmt/core.h>

#include <utility>

namespace sextant {
namespace {

bool is_f64(const Product& product) { return product.in == DType::kF64; }

// f32 products are sums of f32 products: no TF32.
cublasComputeType_t compute_type(const Product& product) {
  return is_f64(product) ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
}

cudaDataType_t scale_type(const Product& product) {
  return is_f64(product) ? CUDA_R_64F : CUDA_R_32F;
}

cublasLtEpilogue_t cublas_epilogue(ProductEpilogue epilogue) {
  switch (epilogue) {
    case ProductEpilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case ProductEpilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case ProductEpilogue::kGelu:
      return CUBLASLT_EPILOGUE_GELU;
    case ProductEpilogue::kGeluBias:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case ProductEpilogue::kGeluAux:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case ProductEpilogue::kGeluAuxBias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case ProductEpilogue::kGeluGrad:
      return CUBLASLT_EPILOGUE_DGELU;
    case ProductEpilogue::kSumOfA:
      return CUBLASLT_EPILOGUE_BGRADA;
    case ProductEpilogue::kSumOfB:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

template <typename Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  SEXTANT_CUBLAS(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)));
}

void describe(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, std::int64_t rows,
              std::int64_t columns, const Product& product, std::int64_t stride_if_strided) {
  const std::int32_t count = product.count;
  SEXTANT_CUBLAS(cublasLtMatrixLayoutInit(&layout, *cublas_type(dtype),
                                          static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns), rows));
  if (count == 1) return;
  const std::int64_t stride =
      product.places == BatchPlaces::kStrided ? stride_if_strided : rows * columns;
  SEXTANT_CUBLAS(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                  &count, sizeof(count)));
  if (product.places == BatchPlaces::kPointers) {
    const auto mode = static_cast<std::uint32_t>(CUBLASLT_BATCH_MODE_POINTER_ARRAY);
    SEXTANT_CUBLAS(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE,
                                                    &mode, sizeof(mode)));
    return;
  }
  SEXTANT_CUBLAS(cublasLtMatrixLayoutSetAttribute(
      &layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)));
}

// D = op(A) op(B) in f32, in scratch, then y += D.
class SummedProduct final : public CudaKernel {
 public:
  SummedProduct(const Product& product, const ProductAddresses& addresses, CudaContext& device)
      : device_(device), call_(in_f32(product), in_workspace(addresses, device)) {
    add_ = {.from_dtype = DType::kF32,
            .to = addresses.d,
            .to_dtype = product.out,
            .elements = product.m * product.n * product.count};
    choice_ = device.products().of(call_, device);
    if (choice_)
      device.need_scratch(static_cast<std::size_t>(add_.elements * size_of(DType::kF32).value));
  }
  bool is_usable() const { return choice_.has_value(); }

  void enqueue(cudaStream_t stream) override {
    call_.addresses.d = device_.scratch();
    add_.from = device_.scratch();
    SEXTANT_CUBLAS(call_.run(device_, choice_->algorithm, stream));
    SEXTANT_CUDA(enqueue_add_into(add_, stream));
  }

 private:
  static Product in_f32(Product product) {
    product.out = DType::kF32;
    return product;
  }
  // Scratch has no address yet; all that is asked of D now is how it is aligned.
  static ProductAddresses in_workspace(const ProductAddresses& addresses, CudaContext& device) {
    return {.a = addresses.a,
            .b = addresses.b,
            .d = device.workspace(),
            .a_scale = addresses.a_scale,
            .b_scale = addresses.b_scale};
  }

  CudaContext& device_;
  ProductCall call_;
  AddIntoArguments add_;
  std::optional<ProductChoice> choice_;
};

class ProductKernel final : public CudaKernel {
 public:
  ProductKernel(const Product& product, const ProductAddresses& addresses, CudaContext& device)
      : device_(device), call_(product, addresses) {
    const std::optional<ProductChoice> choice = device.products().of(call_, device);
    if (choice) algorithm_ = choice->algorithm;
    is_usable_ = choice.has_value();
  }
  bool is_usable() const { return is_usable_; }

  void enqueue(cudaStream_t stream) override {
    SEXTANT_CUBLAS(call_.run(device_, algorithm_, stream));
  }

 private:
  CudaContext& device_;
  ProductCall call_;
  cublasLtMatmulAlgo_t algorithm_{};
  bool is_usable_ = false;
};

}  // namespace

std::string_view to_string(ProductEpilogue epilogue) {
  switch (epilogue) {
    case ProductEpilogue::kNone:
      return "none";
    case ProductEpilogue::kBias:
      return "bias";
    case ProductEpilogue::kGelu:
      return "gelu";
    case ProductEpilogue::kGeluBias:
      return "gelu_bias";
    case ProductEpilogue::kGeluAux:
      return "gelu_aux";
    case ProductEpilogue::kGeluAuxBias:
      return "gelu_aux_bias";
    case ProductEpilogue::kGeluGrad:
      return "gelu_grad";
    case ProductEpilogue::kSumOfA:
      return "sum_of_a";
    case ProductEpilogue::kSumOfB:
      return "sum_of_b";
  }
  return "none";
}

std::optional<cudaDataType_t> cublas_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kE4M3:
      return CUDA_R_8F_E4M3;
    case DType::kE5M2:
      return CUDA_R_8F_E5M2;
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
    case DType::kU8:
      return std::nullopt;
  }
  return std::nullopt;
}

ProductCall::ProductCall(const Product& of, const ProductAddresses& at)
    : product(of), addresses(at) {
  SEXTANT_CUBLAS(cublasLtMatmulDescInit(&operation, compute_type(of), scale_type(of)));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, of.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, of.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(of.epilogue));
  if (of.processors > 0) set(operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, of.processors);
  // The search for an algorithm reads the alignment off these.
  if (at.bias != nullptr) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias);
  if (at.bias_stride != 0) set(operation, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, at.bias_stride);
  if (at.aux != nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at.aux);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, of.m);
  }
  if (at.a_scale != nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, at.a_scale);
    set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, at.b_scale);
    set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{of.fast_sums});
  }
  describe(a, of.in, of.transpose_a ? of.k : of.m, of.transpose_a ? of.m : of.k, of, at.a_stride);
  describe(b, of.type_of_b(), of.transpose_b ? of.n : of.k, of.transpose_b ? of.k : of.n, of,
           at.b_stride);
  describe(d, of.out, of.m, of.n, of, at.d_stride);
}

namespace {

const char* to_text(BatchPlaces places) {
  switch (places) {
    case BatchPlaces::kPacked:
      return "";
    case BatchPlaces::kStrided:
      return " strided";
    case BatchPlaces::kPointers:
      return " by pointers";
  }
  return "";
}

}  // namespace

std::string ProductCall::key() const {
  const char* const c = addresses.c == nullptr ? "0" : addresses.c == addresses.d ? "d" : "c";
  return fmt::format("{}x{}x{} {}{} {}->{} *{} +{} {}", product.m, product.n, product.k,
                     product.transpose_a ? "t" : "n", product.transpose_b ? "t" : "n",
                     to_string(product.in), to_string(product.out), product.count, c,
                     to_string(product.epilogue)) +
         (product.b_in ? fmt::format(" b {}", to_string(*product.b_in)) : std::string()) +
         (product.fast_sums ? " fast" : "") + to_text(product.places) +
         (product.has_one_a ? " one a" : "") + (product.has_one_b ? " one b" : "") +
         (product.processors > 0 ? fmt::format(" on {}", product.processors) : std::string());
}

// As members: bias_add and gelu read and write D, gelu_grad and add read two such tensors and write
// one, a sum reads its matrix.
double ProductCall::member_bytes() const {
  const auto bytes = [&](std::int64_t rows, std::int64_t columns, DType dtype) {
    return static_cast<double>(size_of(dtype).value) * static_cast<double>(rows) *
           static_cast<double>(columns) * product.count;
  };
  const double result = bytes(product.m, product.n, product.out);
  const double added = addresses.c != nullptr && addresses.c != addresses.d ? 3 * result : 0;
  switch (product.epilogue) {
    case ProductEpilogue::kNone:
      return added;
    case ProductEpilogue::kBias:
    case ProductEpilogue::kGelu:
    case ProductEpilogue::kGeluAux:
      return added + 2 * result;
    case ProductEpilogue::kGeluBias:
    case ProductEpilogue::kGeluAuxBias:
      return added + 4 * result;
    case ProductEpilogue::kGeluGrad:
      return added + 3 * result;
    case ProductEpilogue::kSumOfA:
      return added + bytes(product.m, product.k, product.in);
    case ProductEpilogue::kSumOfB:
      return added + bytes(product.k, product.n, product.type_of_b());
  }
  return added;
}

cublasStatus_t ProductCall::run(const CudaContext& device, const cublasLtMatmulAlgo_t& algorithm,
                                cudaStream_t stream) const {
  const double ones[] = {1.0, 0.0};
  const float floats[] = {1.0f, 0.0f};
  const auto scalar = [&](int index) {
    return is_f64(product) ? static_cast<const void*>(ones + index)
                           : static_cast<const void*>(floats + index);
  };
  const bool adds = addresses.c != nullptr;
  return cublasLtMatmul(device.cublas(), &operation, scalar(0), addresses.a, &a, addresses.b, &b,
                        scalar(adds ? 0 : 1), adds ? addresses.c : addresses.d, &d, addresses.d, &d,
                        &algorithm, device.workspace(), kProductWorkspaceBytes, stream);
}

namespace {

template <typename Kernel>
std::unique_ptr<CudaKernel> if_usable(const Product& product, const ProductAddresses& addresses,
                                      CudaContext& device) {
  auto kernel = std::make_unique<Kernel>(product, addresses, device);
  if (!kernel->is_usable()) return nullptr;
  return kernel;
}

}  // namespace

std::unique_ptr<CudaKernel> make_product(const Product& whole, const ProductAddresses& addresses,
                                         CudaContext& device) {
  Product product = whole;
  product.processors = device.processors();
  const bool accumulates = addresses.c != nullptr && addresses.c == addresses.d;
  if (!accumulates || size_of(product.out).value >= 4)
    return if_usable<ProductKernel>(product, addresses, device);
  if (product.epilogue != ProductEpilogue::kNone) return nullptr;
  return if_usable<SummedProduct>(product, addresses, device);
}

}  // namespace sextant
