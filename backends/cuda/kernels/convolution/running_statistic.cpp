// Running statistics of f32 and f64, in place.
#include "backends/cuda/kernels/convolution/running_statistic.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"

namespace sextant {
namespace {

std::unique_ptr<CudaKernel> make_running_statistic(const KernelContext& call,
                                                   CudaContext& /*device*/) {
  RunningStatisticArguments arguments;
  arguments.dtype = call.out[0].local.dtype;
  arguments.sum = call.in[0].data;
  arguments.count = call.in[1].data;
  arguments.kept = call.out[0].data;
  arguments.momentum = call.attributes().real("momentum");
  arguments.elements = call.out[0].local.shape.elements();
  return cuda_launch(enqueue_running_statistic, arguments);
}

}  // namespace

void add_cuda_running_statistic(CudaKernelTable& table) {
  table.add("running_statistic", make_running_statistic);
}

}  // namespace sextant
