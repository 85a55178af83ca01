// Kernels that cut and join along one dim: slice, pad, split, concat. All are one step, `put`: the
// input's box, moved to where its elements lie in the output, meets the output's box, and what both
// have is copied. So any layout of input and output is served; what an output's box has and no
// input does is zero. Bytes are moved, whatever their type.
#include "backends/cpu/kernels/shared/boxes.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "core/base/check.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sextant {
namespace {

// An output that accumulates keeps what it has: zeros would add nothing.
void clear(const KernelContext& context, std::size_t out) {
  if (context.accumulate[out]) return;
  const KernelOperand& y = context.out[out];
  // Not memset: an empty shard may have no address.
  std::fill_n(y.data, size_of(y.local).value, std::byte{0});
}

// Element `at` of input `in` along the dim of the operator is element `at + by` of output `out`.
void put(const KernelContext& context, std::size_t in, std::size_t out, std::int64_t by) {
  const KernelOperand &x = context.in[in], &y = context.out[out];
  require(x.local.dtype == y.local.dtype, ErrorCode::kInternal, "'{}' moves {} to {}",
          context.actor->name, to_string(x.local.dtype), to_string(y.local.dtype));
  Shard from = x.box;
  from.dims[static_cast<std::size_t>(context.attributes().integer("dim"))].offset += by;
  const Shard part = intersect(from, y.box);
  const BoxBuffer source{x.data, &from}, target{y.data, &y.box};
  if (context.accumulate[out]) {
    reduce_box(ReduceOp::kSum, part, source, target, y.local.dtype);
  } else {
    copy_box(part, source, target, y.local.dtype);
  }
}

void slice(const KernelContext& context, Workspace&) {
  clear(context, 0);
  put(context, 0, 0, -context.attributes().integer("start"));
}

void pad(const KernelContext& context, Workspace&) {
  clear(context, 0);
  put(context, 0, 0, context.attributes().integer("before"));
}

void split(const KernelContext& context, Workspace&) {
  const auto& extents = context.attributes().integers("extents");
  std::int64_t start = 0;
  for (std::size_t part = 0; part < extents.size(); start += extents[part++]) {
    clear(context, part);
    put(context, 0, part, -start);
  }
}

void concat(const KernelContext& context, Workspace&) {
  const auto& extents = context.attributes().integers("extents");
  clear(context, 0);
  std::int64_t start = 0;
  for (std::size_t part = 0; part < extents.size(); start += extents[part++])
    put(context, part, 0, start);
}

}  // namespace

void add_concat_kernels(KernelTable& table) {
  table.add("slice", slice);
  table.add("pad", pad);
  table.add("split", split);
  table.add("concat", concat);
}

}  // namespace sextant
