// Bytes of images as numbers: the numbers of the rank's channels lie on the card.
#include "backends/cuda/kernels/pointwise/normalize_images.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/device_table.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "core/operators/pointwise/normalize_images.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sextant {
namespace {

std::vector<CudaChannelNumbers> local_numbers(const KernelContext& call) {
  const KernelOperand& x = call.in[0];
  const std::vector<ChannelNormal> all =
      channel_normals(call.attributes(), x.layout->global.shape[kNormalizedDim]);
  const Interval& mine = x.box.dims[kNormalizedDim];
  std::vector<CudaChannelNumbers> numbers;
  for (std::int64_t channel = mine.offset; channel < mine.end(); ++channel) {
    const ChannelNormal& normal = all[static_cast<std::size_t>(channel)];
    numbers.push_back({normal.mean, normal.deviation});
  }
  return numbers;
}

class NormalizeImages final : public CudaKernel {
 public:
  explicit NormalizeImages(const KernelContext& call) : numbers_(local_numbers(call)) {
    const Shape& shape = call.in[0].local.shape;
    arguments_.to = call.out[0].local.dtype;
    arguments_.in = data_of<const std::uint8_t>(call.in[0]);
    arguments_.out = call.out[0].data;
    arguments_.accumulate = call.accumulate[0];
    arguments_.elements = shape.elements();
    arguments_.channels = shape[kNormalizedDim];
    for (std::size_t dim = kNormalizedDim + 1; dim < shape.rank(); ++dim)
      arguments_.of_plane *= shape[dim];
    arguments_.numbers = numbers_.rows();
    arguments_.aligned = has_aligned_data(call.in[0]) && has_aligned_data(call.out[0]);
  }
  void enqueue(cudaStream_t stream) override {
    SEXTANT_CUDA(enqueue_normalize_images(arguments_, stream));
  }

 private:
  DeviceTable<CudaChannelNumbers> numbers_;
  NormalizeImagesArguments arguments_;
};

std::unique_ptr<CudaKernel> make_normalize_images(const KernelContext& call,
                                                  CudaContext& /*device*/) {
  return std::make_unique<NormalizeImages>(call);
}

}  // namespace

void add_cuda_normalize_images(CudaKernelTable& table) {
  table.add(std::string(kNormalizeImages), make_normalize_images);
}

}  // namespace sextant
