// Which operators the updates serve, and their operands by position (core/operators/README.md,
// "Optimizer"). Consecutive updates of a run are one kernel.
#include "backends/cuda/kernels/training/updates.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/device_table.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/kernels/shared/tables.h"
#include "core/base/check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

CudaRate rate_of(const Attributes& attributes) {
  CudaRate rate;
  rate.full = attributes.real("learning_rate");
  rate.warm_up = attributes.integer_or("warm_up", 0);
  const std::string schedule =
      attributes.contains("schedule") ? attributes.text("schedule") : "constant";
  if (schedule == "constant") return rate;
  rate.schedule = schedule == "linear" ? CudaSchedule::kLinear : CudaSchedule::kCosine;
  rate.minimum = attributes.real_or("minimum_rate", 0.0);
  rate.total = attributes.integer("total_updates");
  return rate;
}

// Outputs of kLambDirection: direction, m, v, step, rate; of the others: parameter, moments, step.
void set_states(const KernelContext& call, CudaUpdate update, CudaUpdateRow& row) {
  const bool is_lamb = update == CudaUpdate::kLambDirection;
  row.parameter = is_lamb ? call.in[1].data : call.out[0].data;
  if (update != CudaUpdate::kSgd) row.m = call.out[1].data;
  if (update == CudaUpdate::kAdamW || is_lamb) row.v = call.out[2].data;
  row.step = data_of<std::int64_t>(is_lamb ? call.out[3] : call.out.back());
  if (!is_lamb) return;
  row.direction = call.out[0].data;
  row.rate_used = data_of<double>(call.out[4]);
  row.adds_direction = call.accumulate[0];
  row.adds_rate = call.accumulate[4];
}

CudaUpdateRow row_of(const KernelContext& call, CudaUpdate update) {
  const Attributes& attributes = call.actor->attributes;
  CudaUpdateRow row;
  row.gradient = call.in[0].data;
  row.gradient_type = call.in[0].local.dtype;
  row.control = call.in.back().data;
  row.control_type = call.in.back().local.dtype;
  set_states(call, update, row);
  row.rate = rate_of(attributes);
  row.decay = attributes.real("weight_decay");
  row.momentum = attributes.real_or("momentum", 0.0);
  row.nesterov = attributes.boolean_or("nesterov", false);
  row.beta1 = attributes.real_or("beta1", 0.0);
  row.beta2 = attributes.real_or("beta2", 0.0);
  row.epsilon = attributes.real_or("epsilon", 0.0);
  row.elements = call.out[0].local.shape.elements();
  row.is_aligned = are_aligned({row.gradient, row.parameter, row.m, row.v, row.direction});
  return row;
}

// States are f64 for f64 gradients and f32 for all others, as the operators infer.
DType state_type(const KernelContext& call) {
  const DType state = call.out[0].local.dtype, gradient = call.in[0].local.dtype;
  require(is_floating(gradient) && state == (gradient == DType::kF64 ? gradient : DType::kF32),
          ErrorCode::kInternal, "'{}' ({}): a gradient of {} with states of {}", call.actor->name,
          call.actor->kind, to_string(gradient), to_string(state));
  return state;
}

// 2 or 4 Ki elements, a multiple of an access. Short ones leave less to do when the last blocks
// run, long ones cost fewer blocks: at 2^25 elements both are a hundredth of the time.
std::int64_t chunk_length(const std::vector<CudaUpdateRow>& rows) {
  std::int64_t elements = 0;
  for (const CudaUpdateRow& row : rows) elements += row.elements;
  return elements < (std::int64_t{1} << 25) ? 2048 : 4096;
}

class Updates final : public CudaKernel {
 public:
  Updates(CudaUpdate update, DType state_type, const std::vector<CudaUpdateRow>& rows)
      : rows_(rows),
        steps_(std::vector<CudaUpdateStep>(rows.size())),
        chunks_(chunks_of(rows, chunk_length(rows))) {
    arguments_.update = update;
    arguments_.state_type = state_type;
    arguments_.rows = rows_.rows();
    arguments_.steps = steps_.rows();
    arguments_.num_rows = static_cast<std::int64_t>(rows.size());
    arguments_.chunks = chunks_.rows();
    arguments_.chunk_elements = chunk_length(rows);
    arguments_.num_chunks = num_chunks_of(rows, arguments_.chunk_elements);
    arguments_.rows_are_chunks =
        std::all_of(rows.begin(), rows.end(), [&](const CudaUpdateRow& row) {
          return row.elements > 0 && row.elements <= arguments_.chunk_elements;
        });
  }
  void enqueue(cudaStream_t stream) override { SEXTANT_CUDA(enqueue_updates(arguments_, stream)); }

 private:
  DeviceTable<CudaUpdateRow> rows_;
  DeviceTable<CudaUpdateStep> steps_;
  DeviceTable<CudaChunk> chunks_;
  CudaUpdates arguments_;
};

template <CudaUpdate update>
std::unique_ptr<CudaKernel> make_updates(std::span<const KernelContext> calls,
                                         CudaContext& /*device*/) {
  // What the other kinds write is state, which nothing shares.
  if (update == CudaUpdate::kLambDirection && calls.size() > 1 && !are_independent(calls))
    return nullptr;
  std::vector<std::unique_ptr<CudaKernel>> kernels;
  for (const DType type : {DType::kF32, DType::kF64}) {
    std::vector<CudaUpdateRow> rows;
    for (const KernelContext& call : calls)
      if (state_type(call) == type) rows.push_back(row_of(call, update));
    if (!rows.empty()) kernels.push_back(std::make_unique<Updates>(update, type, rows));
  }
  return in_sequence(std::move(kernels));
}

template <CudaUpdate update>
std::unique_ptr<CudaKernel> make_update(const KernelContext& call, CudaContext& device) {
  return make_updates<update>({&call, 1}, device);
}

template <CudaUpdate update>
void add(CudaKernelTable& table, const char* kind) {
  table.add(kind, make_update<update>);
  table.add_many(kind, make_updates<update>);
}

}  // namespace

void add_cuda_updates(CudaKernelTable& table) {
  add<CudaUpdate::kSgd>(table, "sgd");
  add<CudaUpdate::kMomentum>(table, "momentum");
  add<CudaUpdate::kAdamW>(table, "adamw");
  add<CudaUpdate::kLambDirection>(table, "lamb_direction");
}

}  // namespace sextant
