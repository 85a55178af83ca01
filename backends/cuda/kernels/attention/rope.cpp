// Which calls of `rope` the kernel serves.
#include "backends/cuda/kernels/attention/rope.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "core/base/check.h"
#include "core/operators/layers/rotary_attributes.h"

#include <cmath>

namespace sextant {
namespace {

constexpr std::int64_t kMostSize = 4096;  // angles of one position fit into shared memory

std::unique_ptr<CudaKernel> make_rope(const KernelContext& call, CudaContext& /*device*/) {
  const KernelOperand& x = call.in[0];
  const Shape& shape = x.local.shape;
  require(shape[3] <= kMostSize, ErrorCode::kDevice,
          "'{}' (rope): CUDA turns heads of up to {} elements, not {}", call.actor->name, kMostSize,
          shape[3]);
  RopeArguments arguments;
  arguments.dtype = x.local.dtype;
  arguments.x = x.data;
  arguments.y = call.out[0].data;
  arguments.accumulate = call.accumulate[0];
  arguments.inverse = call.attributes().boolean_or("inverse", false);
  arguments.theta = call.attributes().real("theta");
  arguments.log2_theta = std::log2(arguments.theta);
  arguments.scaling = rotary_scaling(call.attributes());
  arguments.first = x.box.dims[1].offset;
  arguments.batch = shape[0];
  arguments.positions = shape[1];
  arguments.heads = shape[2];
  arguments.size = shape[3];
  return cuda_launch(enqueue_rope, arguments);
}

}  // namespace

void add_cuda_rope(CudaKernelTable& table) { table.add("rope", make_rope); }

}  // namespace sextant
