// CBLAS calls. OpenBLAS is told once to use the calling thread only, and which kernels to use where
// it does not know the processor.
#include "backends/cpu/kernels/fast/blas_product.h"

#ifdef SEXTANT_HAS_BLAS

#include <cblas.h>

#include <cstdlib>
#include <string_view>

// Missing in a BLAS that is not OpenBLAS, or not one that chooses its kernels at run time.
extern "C" {
void openblas_set_num_threads(int) __attribute__((weak));
int blas_thread_shutdown_() __attribute__((weak));
char* openblas_get_corename() __attribute__((weak));
void gotoblas_dynamic_init() __attribute__((weak));
void gotoblas_dynamic_quit() __attribute__((weak));
}

namespace sextant {
namespace {

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";

// The kernels that this processor can run, by the name that OpenBLAS has for them.
const char* capable_core() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

// OpenBLAS knows processors by their model and gives one that is newer than itself kernels of 2004:
// version 0.3.21 on a Xeon of 2024 multiplies at 27 GFLOP/s a core, and at 130 when told. A user's
// own choice stays. Not beside other threads: see has_gemm.
void choose_kernels() {
  const bool can_choose = openblas_get_corename != nullptr && gotoblas_dynamic_init != nullptr &&
                          gotoblas_dynamic_quit != nullptr;
  if (!can_choose || std::getenv(kCoreVariable) != nullptr) return;
  const char* const core = capable_core();
  if (core == nullptr || std::string_view(openblas_get_corename()) != "Prescott") return;
  setenv(kCoreVariable, core, 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv(kCoreVariable);
}

// OpenBLAS starts a thread per core when it is loaded. Each looks out for work, processor time of
// some 50 ms, before it sleeps: half of a command that plans something small. What products on the
// calling thread need of them is nothing.
void stop_threads() {
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(1);
  if (blas_thread_shutdown_ != nullptr) blas_thread_shutdown_();
}

void prepare() {
  static const bool done = [] {
    choose_kernels();
    stop_threads();
    return true;
  }();
  static_cast<void>(done);
}

CBLAS_TRANSPOSE transpose_of(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

}  // namespace

bool has_blas_product() {
  prepare();
  return true;
}

void blas_product(const Product<float>& p) {
  prepare();
  cblas_sgemm(CblasRowMajor, transpose_of(p.a.transposed), transpose_of(p.b.transposed),
              static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), p.alpha,
              p.a.data, static_cast<int>(p.a.leading), p.b.data, static_cast<int>(p.b.leading),
              p.beta, p.c, static_cast<int>(p.leading_c));
}

void blas_product(const Product<double>& p) {
  prepare();
  cblas_dgemm(CblasRowMajor, transpose_of(p.a.transposed), transpose_of(p.b.transposed),
              static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), p.alpha,
              p.a.data, static_cast<int>(p.a.leading), p.b.data, static_cast<int>(p.b.leading),
              p.beta, p.c, static_cast<int>(p.leading_c));
}

}  // namespace sextant

#else

#include "core/base/check.h"

namespace sextant {

bool has_blas_product() { return false; }

void blas_product(const Product<float>&) { fail(ErrorCode::kInternal, "built without BLAS"); }

void blas_product(const Product<double>&) { fail(ErrorCode::kInternal, "built without BLAS"); }

}  // namespace sextant

#endif
