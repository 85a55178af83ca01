// Strides of operands, with as few dims as will do.
#include "backends/cuda/kernels/pointwise/strided_operands.h"

#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/row_major.h"
#include "core/base/check.h"

#include <utility>

namespace sextant {
namespace {

struct Dim {
  std::int64_t extent = 1;
  std::vector<std::int64_t> strides;  // per operand
};

// Whether going through `outer` and `inner` is going through one dim.
bool are_one(const Dim& outer, const Dim& inner) {
  for (std::size_t operand = 0; operand < outer.strides.size(); ++operand)
    if (outer.strides[operand] != inner.strides[operand] * inner.extent) return false;
  return true;
}

// Last first, without dims of extent 1.
std::vector<Dim> merged_dims(const Shape& output,
                             std::span<const std::vector<std::int64_t>> strides) {
  std::vector<Dim> dims;
  for (std::size_t at = output.rank(); at-- > 0;) {
    if (output[at] == 1) continue;
    Dim dim{.extent = output[at], .strides = {}};
    for (const std::vector<std::int64_t>& operand : strides) dim.strides.push_back(operand[at]);
    if (!dims.empty() && are_one(dim, dims.back()))
      dims.back().extent *= dim.extent;
    else
      dims.push_back(std::move(dim));
  }
  if (dims.empty()) dims.push_back({.extent = 1, .strides = {}});
  dims[0].strides.resize(strides.size(), 1);
  return dims;
}

bool are_one_run(const Strides& strides, std::size_t operands) {
  if (strides.dims != 1) return false;
  for (std::size_t operand = 0; operand < operands; ++operand)
    if (strides.strides[operand][0] != 1 && strides.extents[0] != 1) return false;
  return true;
}

bool fall_into_packs(const Strides& strides, std::size_t operands, std::int64_t pack) {
  if (strides.extents[0] % pack != 0) return false;
  for (std::size_t operand = 0; operand < operands; ++operand) {
    const std::int64_t* own = strides.strides[operand];
    if (own[0] > 1) return false;
    for (int dim = 1; dim < strides.dims; ++dim)
      if (own[0] == 1 && own[dim] % pack != 0) return false;
  }
  return true;
}

}  // namespace

std::vector<std::int64_t> stretched_strides(const Shape& operand, const Shape& output) {
  const std::size_t missing = output.rank() - operand.rank();
  std::vector<std::int64_t> strides(output.rank(), 0);
  std::int64_t stride = 1;
  for (std::size_t dim = output.rank(); dim-- > missing;) {
    const std::int64_t extent = operand[dim - missing];
    if (extent != 1) strides[dim] = stride;
    stride *= extent;
  }
  return strides;
}

std::int64_t first_global_index(const Shape& global, const Shard& box) {
  const std::vector<std::int64_t> strides = row_major_strides(global.extents());
  std::int64_t index = 0;
  for (std::size_t dim = 0; dim < strides.size(); ++dim)
    index += box.dims[dim].offset * strides[dim];
  return index;
}

Strides merged_strides(const Shape& output, std::span<const std::vector<std::int64_t>> strides) {
  SEXTANT_INVARIANT(strides.size() <= Strides::kMostOperands, "{} operands that stretch",
                    strides.size());
  Strides merged;
  for (const Dim& dim : merged_dims(output, strides)) {
    for (std::size_t operand = 0; operand < strides.size(); ++operand)
      merged.strides[operand][merged.dims] = dim.strides[operand];
    merged.extents[merged.dims++] = dim.extent;
  }
  return merged;
}

OperandRuns runs_of(std::span<const KernelOperand* const> in, const Shape& output, bool aligned,
                    std::int64_t pack, std::span<const std::vector<std::int64_t>> strides) {
  std::vector<std::vector<std::int64_t>> all;
  for (const KernelOperand* operand : in) {
    all.push_back(stretched_strides(operand->local.shape, output));
    aligned = aligned && has_aligned_data(*operand);
  }
  const std::size_t operands = all.size();
  all.insert(all.end(), strides.begin(), strides.end());
  OperandRuns runs;
  runs.strides = merged_strides(output, all);
  runs.is_one_run = aligned && are_one_run(runs.strides, operands);
  runs.falls_into_packs = aligned && fall_into_packs(runs.strides, operands, pack);
  return runs;
}

}  // namespace sextant
