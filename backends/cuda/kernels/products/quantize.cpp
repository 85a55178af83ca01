// `quantize_scale` and `quantize`.
#include "backends/cuda/kernels/products/quantize.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/device_table.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "core/operators/pointwise/quantize.h"

#include <vector>

namespace sextant {
namespace {

class QuantizeScale final : public CudaKernel {
 public:
  explicit QuantizeScale(QuantizeScaleArguments arguments)
      : tally_(std::vector<QuantizeTally>(1)), arguments_(arguments) {
    arguments_.tally = tally_.rows();
  }
  void enqueue(cudaStream_t stream) override {
    SEXTANT_CUDA(enqueue_quantize_scale(arguments_, stream));
  }

 private:
  DeviceTable<QuantizeTally> tally_;
  QuantizeScaleArguments arguments_;
};

std::unique_ptr<CudaKernel> make_scale(const KernelContext& call, CudaContext& /*device*/) {
  if (!is_floating(call.in[0].local.dtype)) return nullptr;
  return std::make_unique<QuantizeScale>(
      QuantizeScaleArguments{.x = call.in[0].data,
                             .from = call.in[0].local.dtype,
                             .to = parse_dtype(call.attributes().text("dtype")),
                             .elements = call.in[0].local.shape.elements(),
                             .scale = data_of<float>(call.out[0]),
                             .accumulate = call.accumulate[0]});
}

// Rows, columns, or both in this order.
std::unique_ptr<CudaKernel> make_quantize(const KernelContext& call, CudaContext& /*device*/) {
  const KernelOperand& x = call.in[0];
  if (!is_floating(x.local.dtype) || call.accumulate[0] || call.accumulate[call.out.size() - 1])
    return nullptr;
  const CopyOrders orders = copy_orders(call.attributes());
  const std::int64_t elements = x.local.shape.elements();
  const std::int64_t n = x.local.shape[x.local.shape.rank() - 1];
  return cuda_launch(
      enqueue_quantize,
      QuantizeArguments{.x = x.data,
                        .scale = data_of<const float>(call.in[1]),
                        .rows = orders.has_rows ? call.out[0].data : nullptr,
                        .columns = orders.has_columns ? call.out.back().data : nullptr,
                        .from = x.local.dtype,
                        .to = call.out[0].local.dtype,
                        .m = n == 0 ? 0 : elements / n,
                        .n = n});
}

}  // namespace

void add_cuda_quantize(CudaKernelTable& table) {
  table.add("quantize_scale", make_scale);
  table.add("quantize", make_quantize);
}

}  // namespace sextant
