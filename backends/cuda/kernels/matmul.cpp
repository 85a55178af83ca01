// `matmul` through cuBLASLt: f32 (no TF32, so that small integers are exact) and bf16 with f32
// accumulation.
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/families.h"
#include "core/check.h"

namespace sextant {
namespace {

cudaDataType_t data_type(const KernelOperand& operand, const Actor& actor) {
  if (operand.local.dtype == DType::kF32) return CUDA_R_32F;
  if (operand.local.dtype == DType::kBF16) return CUDA_R_16BF;
  fail(ErrorCode::kDevice, "'{}' ({}): the CUDA matmul takes f32 and bf16, not {}", actor.name,
       actor.kind, to_string(operand.local.dtype));
}

// Row-major y[m, n] = x[m, k] w[k, n] is column-major y^T[n, m] = w^T x^T: cuBLAS gets w first.
class Matmul final : public CudaKernel {
 public:
  Matmul(const KernelContext& call, CudaContext& device) : device_(device) {
    const KernelOperand& x = call.in[0];
    const KernelOperand& w = call.in[1];
    const KernelOperand& y = call.out[0];
    const bool transpose_w = call.actor->attributes.boolean_or("transpose_w", false);
    k_ = x.local.shape[x.local.shape.rank() - 1];
    m_ = k_ == 0 ? 0 : x.local.shape.elements() / k_;
    n_ = w.local.shape[transpose_w ? 0 : 1];
    x_ = x.data;
    w_ = w.data;
    y_ = y.data;
    y_bytes_ = static_cast<std::size_t>(size_of(y.local).value);
    beta_ = call.accumulate[0] ? 1.0f : 0.0f;
    if (is_empty()) return;
    SEXTANT_CUBLAS(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transpose = transpose_w ? CUBLAS_OP_T : CUBLAS_OP_N;
    SEXTANT_CUBLAS(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA,
                                                  &transpose, sizeof(transpose)));
    const auto rows = static_cast<std::uint64_t>(transpose_w ? k_ : n_);
    const auto columns = static_cast<std::uint64_t>(transpose_w ? n_ : k_);
    SEXTANT_CUBLAS(cublasLtMatrixLayoutCreate(&w_layout_, data_type(w, *call.actor), rows, columns,
                                              transpose_w ? k_ : n_));
    SEXTANT_CUBLAS(cublasLtMatrixLayoutCreate(&x_layout_, data_type(x, *call.actor),
                                              static_cast<std::uint64_t>(k_),
                                              static_cast<std::uint64_t>(m_), k_));
    SEXTANT_CUBLAS(cublasLtMatrixLayoutCreate(&y_layout_, data_type(y, *call.actor),
                                              static_cast<std::uint64_t>(n_),
                                              static_cast<std::uint64_t>(m_), n_));
    choose_algorithm(*call.actor);
  }

  ~Matmul() override {
    if (y_layout_ != nullptr) cublasLtMatrixLayoutDestroy(y_layout_);
    if (x_layout_ != nullptr) cublasLtMatrixLayoutDestroy(x_layout_);
    if (w_layout_ != nullptr) cublasLtMatrixLayoutDestroy(w_layout_);
    if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
  }

  void enqueue(cudaStream_t stream) override {
    if (is_empty()) {
      // A sum over nothing is zero.
      if (beta_ == 0.0f && y_bytes_ > 0) SEXTANT_CUDA(cudaMemsetAsync(y_, 0, y_bytes_, stream));
      return;
    }
    const float alpha = 1.0f;
    SEXTANT_CUBLAS(cublasLtMatmul(device_.cublas(), operation_, &alpha, w_, w_layout_, x_,
                                  x_layout_, &beta_, y_, y_layout_, y_, y_layout_, &algorithm_,
                                  device_.workspace(), CudaContext::kWorkspaceBytes, stream));
  }

 private:
  bool is_empty() const { return m_ == 0 || n_ == 0 || k_ == 0; }

  void choose_algorithm(const Actor& actor) {
    cublasLtMatmulPreference_t preference = nullptr;
    SEXTANT_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
    const std::size_t limit = CudaContext::kWorkspaceBytes;
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof(limit));
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulAlgoGetHeuristic(device_.cublas(), operation_, w_layout_, x_layout_,
                                              y_layout_, y_layout_, preference, 1, &best, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    SEXTANT_CUBLAS(status);
    require(found > 0, ErrorCode::kDevice, "'{}': cuBLASLt has no algorithm for m={} n={} k={}",
            actor.name, m_, n_, k_);
    algorithm_ = best.algo;
  }

  CudaContext& device_;
  std::int64_t m_ = 0, n_ = 0, k_ = 0;
  const void* x_ = nullptr;
  const void* w_ = nullptr;
  void* y_ = nullptr;
  std::size_t y_bytes_ = 0;
  float beta_ = 0.0f;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t w_layout_ = nullptr, x_layout_ = nullptr, y_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

std::unique_ptr<CudaKernel> make_matmul(const KernelContext& call, CudaContext& device) {
  return std::make_unique<Matmul>(call, device);
}

}  // namespace

void add_cuda_matmul(CudaKernelTable& table) { table.add("matmul", make_matmul); }

}  // namespace sextant
