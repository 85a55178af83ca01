// Which operators the statistics serve: gradient_stats, lamb_norms, add_stats. Consecutive calls of
// a run are one kernel.
#include "backends/cuda/kernels/training/stats.h"

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/device_table.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/kernels/shared/tables.h"

#include <algorithm>
#include <vector>

namespace sextant {
namespace {

bool are_covered(const KernelContext& call) {
  const bool reads_floats =
      std::all_of(call.in.begin(), call.in.end(),
                  [](const KernelOperand& in) { return is_floating(in.local.dtype); });
  return reads_floats && call.out[0].local.dtype == DType::kF64;
}

CudaStatsRow row_of(const KernelContext& call) {
  CudaStatsRow row;
  row.x = call.in[0].data;
  if (call.in.size() > 1) row.y = call.in[1].data;
  row.stats = data_of<double>(call.out[0]);
  row.elements = call.in[0].local.shape.elements();
  row.type = call.in[0].local.dtype;
  row.accumulate = call.accumulate[0];
  row.is_aligned = are_aligned({row.x, row.y});
  return row;
}

constexpr std::int64_t kMostChunks = CudaContext::kWorkspaceBytes / (2 * sizeof(double));

// Chunks of 32 KiB, eight accesses per thread; longer where the pairs would not fit the workspace.
// The length does not depend on the other rows of a launch, so neither do the bits of a sum.
void cut(std::vector<CudaStatsRow>& rows) {
  for (std::int64_t bytes = std::int64_t{32} << 10;; bytes *= 2) {
    std::int64_t chunks = 0;
    for (CudaStatsRow& row : rows) {
      row.chunk_elements = bytes / size_of(row.type).value;
      row.first_chunk = chunks;
      row.num_chunks = num_chunks_of(row.elements, row.chunk_elements);
      chunks += row.num_chunks;
    }
    if (chunks <= kMostChunks) return;
  }
}

class Stats final : public CudaKernel {
 public:
  Stats(std::vector<CudaStatsRow> rows, CudaContext& device) {
    cut(rows);
    std::vector<CudaChunk> chunks;
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (std::int64_t chunk = 0; chunk < rows[row].num_chunks; ++chunk)
        chunks.push_back({chunk * rows[row].chunk_elements, static_cast<std::int32_t>(row)});
    rows_ = DeviceTable<CudaStatsRow>(rows);
    chunks_ = DeviceTable<CudaChunk>(chunks);
    finished_ = DeviceTable<unsigned>(std::vector<unsigned>(rows.size(), 0));
    arguments_.rows = rows_.rows();
    arguments_.num_rows = static_cast<std::int64_t>(rows.size());
    arguments_.chunks = chunks_.rows();
    arguments_.num_chunks = static_cast<std::int64_t>(chunks.size());
    arguments_.finished = finished_.rows();
    arguments_.scratch = static_cast<double*>(device.workspace());
  }
  void enqueue(cudaStream_t stream) override { SEXTANT_CUDA(enqueue_stats(arguments_, stream)); }

 private:
  DeviceTable<CudaStatsRow> rows_;
  DeviceTable<CudaChunk> chunks_;
  DeviceTable<unsigned> finished_;
  CudaStats arguments_;
};

std::unique_ptr<CudaKernel> make_stats(std::span<const KernelContext> calls, CudaContext& device) {
  if (calls.size() > 1 && !are_independent(calls)) return nullptr;
  std::vector<CudaStatsRow> rows;
  for (const KernelContext& call : calls) {
    if (!are_covered(call)) return nullptr;
    rows.push_back(row_of(call));
  }
  return std::make_unique<Stats>(std::move(rows), device);
}

std::unique_ptr<CudaKernel> make_one_stats(const KernelContext& call, CudaContext& device) {
  return make_stats({&call, 1}, device);
}

class AddStats final : public CudaKernel {
 public:
  explicit AddStats(const KernelContext& call) {
    std::vector<const double*> inputs;
    for (const KernelOperand& in : call.in) inputs.push_back(data_of<const double>(in));
    inputs_ = DeviceTable<const double*>(inputs);
    arguments_.inputs = inputs_.rows();
    arguments_.count = static_cast<std::int64_t>(inputs.size());
    arguments_.stats = data_of<double>(call.out[0]);
    arguments_.accumulate = call.accumulate[0];
  }
  void enqueue(cudaStream_t stream) override {
    SEXTANT_CUDA(enqueue_add_stats(arguments_, stream));
  }

 private:
  DeviceTable<const double*> inputs_;
  CudaAddStats arguments_;
};

std::unique_ptr<CudaKernel> make_add_stats(const KernelContext& call, CudaContext& /*device*/) {
  for (const auto* operands : {&call.in, &call.out})
    for (const KernelOperand& operand : *operands)
      if (operand.local.dtype != DType::kF64) return nullptr;
  return std::make_unique<AddStats>(call);
}

}  // namespace

void add_cuda_stats(CudaKernelTable& table) {
  for (const char* kind : {"gradient_stats", "lamb_norms"}) {
    table.add(kind, make_one_stats);
    table.add_many(kind, make_stats);
  }
  table.add("add_stats", make_add_stats);
}

}  // namespace sextant
