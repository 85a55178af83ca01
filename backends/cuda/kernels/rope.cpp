// Which calls of `rope` the kernel serves.
#include "backends/cuda/kernels/rope.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/device_table.h"
#include "backends/cuda/kernels/families.h"
#include "backends/cuda/kernels/launch.h"
#include "core/check.h"

#include <cmath>
#include <cstdint>
#include <vector>

namespace sextant {
namespace {

constexpr std::int64_t kMostSize = 4096;  // angles of one position fit into shared memory
constexpr std::int64_t kMostAtOnePosition = std::int64_t{1} << 31;

class Rope final : public CudaKernel {
 public:
  Rope(const RopeArguments& arguments, double theta) : arguments_(arguments) {
    std::vector<double> turns;
    const auto size = static_cast<double>(arguments.size);
    for (std::int64_t pair = 0; pair < arguments.size / 2; ++pair)
      turns.push_back(std::pow(theta, -2.0 * static_cast<double>(pair) / size));
    turns_ = DeviceTable<double>(turns);
    arguments_.turns = turns_.rows();
  }
  void enqueue(cudaStream_t stream) override { SEXTANT_CUDA(enqueue_rope(arguments_, stream)); }

 private:
  DeviceTable<double> turns_;
  RopeArguments arguments_;
};

std::unique_ptr<CudaKernel> make_rope(const KernelContext& call, CudaContext& /*device*/) {
  const KernelOperand& x = call.in[0];
  const Shape& shape = x.local.shape;
  require(shape[3] <= kMostSize, ErrorCode::kDevice,
          "'{}' (rope): CUDA turns heads of up to {} elements, not {}", call.actor->name, kMostSize,
          shape[3]);
  // With room for the last step of a thread beyond them.
  require(shape[0] * shape[2] * shape[3] <= kMostAtOnePosition, ErrorCode::kDevice,
          "'{}' (rope): CUDA turns up to {} elements at one position, not {}", call.actor->name,
          kMostAtOnePosition, shape[0] * shape[2] * shape[3]);
  RopeArguments arguments;
  arguments.dtype = x.local.dtype;
  arguments.x = x.data;
  arguments.y = call.out[0].data;
  arguments.accumulate = call.accumulate[0];
  arguments.inverse = call.attributes().boolean_or("inverse", false);
  arguments.first = x.box.dims[1].offset;
  arguments.batch = shape[0];
  arguments.positions = shape[1];
  arguments.heads = shape[2];
  arguments.size = shape[3];
  return std::make_unique<Rope>(arguments, call.attributes().real("theta"));
}

}  // namespace

void add_cuda_rope(CudaKernelTable& table) { table.add("rope", make_rope); }

}  // namespace sextant
