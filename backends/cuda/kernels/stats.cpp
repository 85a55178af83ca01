// Which operators the statistics serve: gradient_stats, lamb_norms, add_stats. Consecutive calls of
// a run are one kernel.
#include "backends/cuda/kernels/stats.h"

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/device_table.h"
#include "backends/cuda/kernels/families.h"
#include "backends/cuda/kernels/launch.h"
#include "backends/cuda/kernels/tables.h"

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

// 8 Ki elements are a few accesses per thread; more where the pairs would not fit the workspace.
std::int64_t chunk_length(const std::vector<CudaStatsRow>& rows) {
  constexpr std::int64_t kMostChunks = CudaContext::kWorkspaceBytes / (2 * sizeof(double));
  std::int64_t length = std::int64_t{8} << 10;
  while (num_chunks_of(rows, length) > kMostChunks) length *= 2;
  return length;
}

class Stats final : public CudaKernel {
 public:
  Stats(std::vector<CudaStatsRow> rows, CudaContext& device) {
    const std::int64_t length = chunk_length(rows);
    for (CudaStatsRow& row : rows) {
      row.first_chunk = arguments_.num_chunks;
      row.num_chunks = num_chunks_of(row.elements, length);
      arguments_.num_chunks += row.num_chunks;
    }
    rows_ = DeviceTable<CudaStatsRow>(rows);
    chunks_ = DeviceTable<CudaChunk>(chunks_of(rows, length));
    finished_ = DeviceTable<unsigned>(std::vector<unsigned>(rows.size(), 0));
    arguments_.rows = rows_.rows();
    arguments_.num_rows = static_cast<std::int64_t>(rows.size());
    arguments_.chunks = chunks_.rows();
    arguments_.chunk_elements = length;
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
