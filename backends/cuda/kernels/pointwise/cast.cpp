// Casts of one tensor, and of the parameters of a step together.
#include "backends/cuda/kernels/pointwise/cast.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/device_table.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/kernels/shared/tables.h"

#include <algorithm>
#include <span>

namespace sextant {
namespace {

std::unique_ptr<CudaKernel> make_cast(const KernelContext& call, CudaContext& /*device*/) {
  CastArguments arguments;
  arguments.from = call.in[0].local.dtype;
  arguments.to = call.out[0].local.dtype;
  arguments.in = call.in[0].data;
  arguments.out = call.out[0].data;
  arguments.accumulate = call.accumulate[0];
  arguments.elements = call.out[0].local.shape.elements();
  arguments.aligned = has_aligned_data(call.in[0]) && has_aligned_data(call.out[0]);
  return cuda_launch(enqueue_cast, arguments);
}

class CastMany final : public CudaKernel {
 public:
  CastMany(DType from, DType to, const std::vector<CastPiece>& pieces) : pieces_(pieces) {
    arguments_.from = from;
    arguments_.to = to;
    arguments_.pieces = pieces_.rows();
    arguments_.count = static_cast<std::int64_t>(pieces.size());
  }
  void enqueue(cudaStream_t stream) override {
    SEXTANT_CUDA(enqueue_cast_many(arguments_, stream));
  }

 private:
  DeviceTable<CastPiece> pieces_;
  CastManyArguments arguments_;
};

// Casts of one pair of floating types, all aligned and none accumulated.
std::unique_ptr<CudaKernel> make_many_casts(std::span<const KernelContext> calls,
                                            CudaContext& /*device*/) {
  if (calls.size() < 2) return nullptr;
  const DType from = calls[0].in[0].local.dtype, to = calls[0].out[0].local.dtype;
  if (!is_floating(from) || !is_floating(to)) return nullptr;
  const bool alike = std::all_of(calls.begin(), calls.end(), [&](const KernelContext& call) {
    return call.in[0].local.dtype == from && call.out[0].local.dtype == to && !call.accumulate[0] &&
           has_aligned_data(call.in[0]) && has_aligned_data(call.out[0]);
  });
  if (!alike || !are_independent(calls)) return nullptr;
  std::vector<CastPiece> pieces;
  for (const KernelContext& call : calls) {
    const std::int64_t elements = call.out[0].local.shape.elements();
    for (std::int64_t first = 0; first < elements; first += kCastPiece)
      pieces.push_back({call.in[0].data + first * size_of(from).value,
                        call.out[0].data + first * size_of(to).value,
                        std::min(kCastPiece, elements - first)});
  }
  return std::make_unique<CastMany>(from, to, pieces);
}

}  // namespace

void add_cuda_cast(CudaKernelTable& table) {
  table.add("cast", make_cast);
  table.add_many("cast", make_many_casts);
}

}  // namespace sextant
