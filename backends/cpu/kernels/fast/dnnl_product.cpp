// dnnl_sgemm, which versions 2 and 3 have alike.
#include "backends/cpu/kernels/fast/dnnl_product.h"

#include "core/base/check.h"

#ifdef SEXTANT_HAS_DNNL

#include <dlfcn.h>

#include <dnnl.h>

namespace sextant {
namespace {

// oneDNN as distributions build it asks OpenMP for threads, whose number each thread sets for
// itself. Looked up, because only oneDNN is linked against OpenMP.
void use_one_thread() {
  static const auto set_num_threads =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  thread_local bool done = false;
  if (done) return;
  if (set_num_threads != nullptr) set_num_threads(1);
  done = true;
}

}  // namespace

bool has_dnnl_product() { return true; }

void dnnl_product(const Product<float>& p) {
  use_one_thread();
  const dnnl_status_t status =
      dnnl_sgemm(p.a.transposed ? 'T' : 'N', p.b.transposed ? 'T' : 'N', p.m, p.n, p.k, p.alpha,
                 p.a.data, p.a.leading, p.b.data, p.b.leading, p.beta, p.c, p.leading_c);
  require(status == dnnl_success, ErrorCode::kDevice,
          "oneDNN: a product of {}x{} and {}x{} failed (status {})", p.m, p.k, p.k, p.n,
          static_cast<int>(status));
}

}  // namespace sextant

#else

namespace sextant {

bool has_dnnl_product() { return false; }

void dnnl_product(const Product<float>&) { fail(ErrorCode::kInternal, "built without oneDNN"); }

}  // namespace sextant

#endif
