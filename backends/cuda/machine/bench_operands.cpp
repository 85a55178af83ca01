// Pools, and operands laid out in them one behind the other.
#include "backends/cuda/machine/bench_operands.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/machine/bench_fill.h"

#include <utility>

namespace sextant {
namespace {

// A pool while operands are laid out in it.
struct BenchCursor {
  BenchPool& pool;
  std::size_t used = 0;

  std::size_t take(const TensorType& type) {
    const std::size_t at = used;
    used += aligned_bytes(type);
    return at;
  }
};

struct BenchCursors {
  BenchCursor in, out, ids32, ids64;

  BenchCursor& of_input(const KernelOperand& operand, bool is_written) {
    if (is_written) return out;
    if (operand.local.dtype == DType::kI32) return ids32;
    return operand.local.dtype == DType::kI64 ? ids64 : in;
  }
};

// Offsets first, to know how much is needed, then addresses. What an actor does in place lies among
// the outputs.
void place_call(KernelContext& call, BenchCursors& cursors, bool is_final) {
  const auto& in_place = call.actor->in_place;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    KernelOperand& operand = call.in[i];
    const bool is_written = in_place && static_cast<std::size_t>(in_place->in) == i;
    BenchCursor& cursor = cursors.of_input(operand, is_written);
    const std::size_t at = cursor.take(operand.local);
    if (is_final) operand.data = cursor.pool.at(at);
  }
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    const bool shares = in_place && static_cast<std::size_t>(in_place->out) == i;
    const std::size_t at = shares ? 0 : cursors.out.take(call.out[i].local);
    if (!is_final) continue;
    call.out[i].data =
        shares ? call.in[static_cast<std::size_t>(in_place->in)].data : cursors.out.pool.at(at);
  }
}

BenchPool::Fill fill_normal(cudaStream_t stream) {
  return [stream](void* to, std::size_t bytes) {
    SEXTANT_CUDA(enqueue_fill_normal(to, bytes, stream));
  };
}

}  // namespace

std::size_t aligned_bytes(const TensorType& type) {
  return static_cast<std::size_t>(aligned(size_of(type).value));
}

BenchPool::BenchPool(Fill fill) : fill_(std::move(fill)) {}

BenchPool::~BenchPool() { cudaFree(data_); }

bool BenchPool::reserve(std::size_t bytes) {
  if (bytes <= size_) return true;
  cudaFree(data_);
  data_ = nullptr;
  size_ = 0;
  if (cudaMalloc(reinterpret_cast<void**>(&data_), bytes) != cudaSuccess) {
    cudaGetLastError();
    data_ = nullptr;
    return false;
  }
  size_ = bytes;
  refill();
  return true;
}

void BenchPool::refill() {
  if (size_ > 0) fill_(data_, size_);
}

BenchOperands::BenchOperands(cudaStream_t stream)
    : inputs_(fill_normal(stream)),
      outputs_(fill_normal(stream)),
      ids32_([this, stream](void* to, std::size_t bytes) {
        SEXTANT_CUDA(
            enqueue_fill_ids(static_cast<std::int32_t*>(to), bytes / 4, id_limit_, stream));
      }),
      ids64_([this, stream](void* to, std::size_t bytes) {
        SEXTANT_CUDA(
            enqueue_fill_ids(static_cast<std::int64_t*>(to), bytes / 8, id_limit_, stream));
      }) {}

void BenchOperands::set_id_limit(std::int64_t limit) {
  id_limit_ = limit;
  ids32_.refill();
  ids64_.refill();
}

bool BenchOperands::place(std::vector<KernelContext>& calls) {
  for (const bool is_final : {false, true}) {
    BenchCursors cursors{{inputs_}, {outputs_}, {ids32_}, {ids64_}};
    for (KernelContext& call : calls) place_call(call, cursors, is_final);
    for (const BenchCursor* cursor : {&cursors.in, &cursors.out, &cursors.ids32, &cursors.ids64})
      if (!is_final && !cursor->pool.reserve(cursor->used)) return false;
  }
  return true;
}

}  // namespace sextant
