// Reference running sums. The output may have more of the scanned dim than the input: a shard adds
// its share to every element of the global result.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/wide.h"
#include "core/base/check.h"
#include "core/operators/reductions/reduced_dims.h"

#include <algorithm>

namespace sextant {
namespace {

// A tensor seen along one dim: `outer` times `inner` lines of the elements in `range`.
struct Lines {
  std::int64_t outer = 1, inner = 1;
  Interval range;  // in global indices

  Lines(const KernelOperand& operand, std::size_t dim) : range(operand.box.dims[dim]) {
    const Shape& shape = operand.local.shape;
    for (std::size_t d = 0; d < dim; ++d) outer *= shape[d];
    for (std::size_t d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  }
  bool has_same_lines(const Lines& other) const {
    return outer == other.outer && inner == other.inner;
  }
  bool contains(std::int64_t index) const { return range.offset <= index && index < range.end(); }
  std::size_t at(std::int64_t o, std::int64_t index, std::int64_t i) const {
    return static_cast<std::size_t>((o * range.extent + index - range.offset) * inner + i);
  }
};

void cumsum(const KernelContext& context, Workspace& workspace) {
  const Attributes& attributes = context.attributes();
  const bool reverse = attributes.boolean_or("reverse", false);
  const bool exclusive = attributes.boolean_or("exclusive", false);
  const std::size_t dim =
      normal_dim("cumsum", attributes.integer("dim"), context.in[0].local.shape.rank());
  const Lines from(context.in[0], dim), to(context.out[0], dim);
  require(from.has_same_lines(to), ErrorCode::kInternal,
          "cumsum along dim {}: {} by {} lines come in, {} by {} go out", dim, from.outer,
          from.inner, to.outer, to.inner);
  const std::int64_t first = std::min(from.range.offset, to.range.offset);
  const std::int64_t last = std::max(from.range.end(), to.range.end()) - 1;
  in_wide_type(context.in[0].local.dtype, [&](auto zero) {
    using Wide = decltype(zero);
    const ValuesOf<Wide> x(context.in[0], workspace);
    const OutputOf<Wide> y(context, 0);
    const auto scan_line = [&](std::int64_t o, std::int64_t i) {
      Wide sum = zero;
      for (std::int64_t step = 0; step <= last - first; ++step) {
        const std::int64_t index = reverse ? last - step : first + step;
        if (exclusive && to.contains(index)) y.put(to.at(o, index, i), sum);
        if (from.contains(index)) sum = plus(sum, x[from.at(o, index, i)]);
        if (!exclusive && to.contains(index)) y.put(to.at(o, index, i), sum);
      }
    };
    for (std::int64_t o = 0; o < from.outer; ++o)
      for (std::int64_t i = 0; i < from.inner; ++i) scan_line(o, i);
  });
}

}  // namespace

void add_scan_kernels(KernelTable& table) { table.add("cumsum", cumsum); }

}  // namespace sextant
