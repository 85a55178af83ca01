// Which embeddings the kernels serve: ids i32 or i64, tables of floating types whose rows and
// columns may be split.
#include "backends/cuda/kernels/lookup/embedding.h"

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"

#include <limits>
#include <string>

namespace sextant {
namespace {

// `table` as the rank has it.
IdArguments id_arguments(const KernelOperand& ids, const KernelOperand& table) {
  IdArguments arguments;
  arguments.ids = ids.data;
  arguments.is_wide = ids.local.dtype == DType::kI64;
  arguments.count = ids.local.shape.elements();
  arguments.first = table.box.dims[0].offset;
  arguments.rows = table.local.shape[0];
  return arguments;
}

std::unique_ptr<CudaKernel> make_embedding(const KernelContext& call, CudaContext& device) {
  const KernelOperand& table = call.in[1];
  EmbeddingArguments arguments;
  arguments.dtype = table.local.dtype;
  arguments.ids = id_arguments(call.in[0], table);
  arguments.all_rows = table.layout->global.shape[0];
  arguments.fault = device.fault_flag("operator '" + call.actor->name +
                                      "' (embedding): an id is not one of 0 to " +
                                      std::to_string(arguments.all_rows - 1));
  arguments.table = table.data;
  arguments.y = call.out[0].data;
  arguments.adds = call.accumulate[0];
  arguments.width = table.local.shape[1];
  return cuda_launch(enqueue_embedding, arguments);
}

// Its scratch may be larger than the workspace, so it asks when it is enqueued.
class EmbeddingGrad final : public CudaKernel {
 public:
  EmbeddingGrad(const EmbeddingGradArguments& arguments, CudaContext& device)
      : arguments_(arguments), device_(device) {
    const std::size_t bytes = embedding_grad_scratch(arguments.ids);
    fits_workspace_ = bytes <= CudaContext::kWorkspaceBytes;
    if (!fits_workspace_) device.need_scratch(bytes);
  }
  void enqueue(cudaStream_t stream) override {
    arguments_.scratch = fits_workspace_ ? device_.workspace() : device_.scratch();
    SEXTANT_CUDA(enqueue_embedding_grad(arguments_, stream));
  }

 private:
  EmbeddingGradArguments arguments_;
  CudaContext& device_;
  bool fits_workspace_ = true;
};

std::unique_ptr<CudaKernel> make_embedding_grad(const KernelContext& call, CudaContext& device) {
  const KernelOperand &dy = call.in[1], &table = call.out[0];
  EmbeddingGradArguments arguments;
  arguments.dtype = dy.local.dtype;
  arguments.table_dtype = table.local.dtype;
  arguments.ids = id_arguments(call.in[0], table);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (arguments.ids.count > kMost || arguments.ids.rows > kMost) return nullptr;
  arguments.dy = dy.data;
  arguments.table = table.data;
  arguments.adds = call.accumulate[0];
  arguments.width = table.local.shape[1];
  return std::make_unique<EmbeddingGrad>(arguments, device);
}

}  // namespace

void add_cuda_embedding(CudaKernelTable& table) {
  table.add("embedding", make_embedding);
  table.add("embedding_grad", make_embedding_grad);
}

}  // namespace sextant
