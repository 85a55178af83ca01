// Reference look-ups: gather, take_along_dim, their gradients, one_hot. An index that the box of
// the looked-up dim does not have gives zeros and takes no gradient: another shard serves it, or
// none. What is looked up is moved as bytes; gradients are summed in double.
#include "backends/cpu/kernels/shared/boxes.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "core/base/check.h"

#include <algorithm>
#include <cstddef>

namespace sextant {
namespace {

std::size_t dim_of(const KernelContext& context) {
  return static_cast<std::size_t>(context.attributes().integer("dim"));
}

// A shape seen as [before, along, after]: `count` dims from `dim` on are the middle one.
struct Middle {
  std::int64_t before = 1, along = 1, after = 1;
};
Middle middle_of(const Shape& shape, std::size_t dim, std::size_t count = 1) {
  Middle view;
  for (std::size_t d = 0; d < shape.rank(); ++d)
    (d < dim ? view.before : d < dim + count ? view.along : view.after) *= shape[d];
  return view;
}

// Both sides of a look-up: what is looked up, and what was found.
struct LookUp {
  Middle table, found;
  std::int64_t offset = 0;  // of the table's box along its dim
};
LookUp look_up_of(const KernelContext& context, const KernelOperand& table,
                  const KernelOperand& found, std::size_t index_dims) {
  const std::size_t dim = dim_of(context);
  const LookUp look_up{middle_of(table.local.shape, dim),
                       middle_of(found.local.shape, dim, index_dims), offset_of(table, dim)};
  require(
      look_up.table.before == look_up.found.before && look_up.table.after == look_up.found.after,
      ErrorCode::kInternal, "'{}': {} is looked up in {}", context.actor->name,
      to_string(found.local.shape), to_string(table.local.shape));
  return look_up;
}

// Copies rows of `length` elements into output 0, or adds them where it accumulates.
class RowCopier {
 public:
  RowCopier(const KernelContext& context, std::int64_t length)
      : from_(context.in[0].data),
        to_(context.out[0].data),
        dtype_(context.out[0].local.dtype),
        length_(length),
        bytes_(length * size_of(dtype_).value),
        accumulate_(context.accumulate[0]) {
    require(context.in[0].local.dtype == dtype_, ErrorCode::kInternal, "'{}' looks {} up in {}",
            context.actor->name, to_string(dtype_), to_string(context.in[0].local.dtype));
  }

  void copy(std::int64_t from, std::int64_t to) const {
    if (accumulate_) {
      reduce_elements(ReduceOp::kSum, dtype_, from_ + from * bytes_, to_ + to * bytes_, length_);
    } else {
      std::copy_n(from_ + from * bytes_, bytes_, to_ + to * bytes_);
    }
  }
  void clear(std::int64_t to) const {
    if (!accumulate_) std::fill_n(to_ + to * bytes_, bytes_, std::byte{0});
  }

 private:
  const std::byte* from_;
  std::byte* to_;
  DType dtype_;
  std::int64_t length_, bytes_;
  bool accumulate_;
};

void gather(const KernelContext& context, Workspace& workspace) {
  const LookUp at =
      look_up_of(context, context.in[0], context.out[0], context.in[1].local.shape.rank());
  const auto indices = load_indices(context, 1, workspace);
  const RowCopier rows(context, at.table.after);
  for (std::int64_t before = 0; before < at.found.before; ++before) {
    for (std::int64_t i = 0; i < at.found.along; ++i) {
      const std::int64_t to = before * at.found.along + i;
      const auto row = local_index(indices[static_cast<std::size_t>(i)], at.offset, at.table.along);
      if (row)
        rows.copy(before * at.table.along + static_cast<std::int64_t>(*row), to);
      else
        rows.clear(to);
    }
  }
}

void scatter_add(const KernelContext& context, Workspace& workspace) {
  const LookUp at =
      look_up_of(context, context.out[0], context.in[0], context.in[1].local.shape.rank());
  const auto indices = load_indices(context, 1, workspace);
  const Values u = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  const auto width = static_cast<std::size_t>(at.table.after);
  for (std::int64_t before = 0; before < at.found.before; ++before) {
    for (std::int64_t i = 0; i < at.found.along; ++i) {
      const auto row = local_index(indices[static_cast<std::size_t>(i)], at.offset, at.table.along);
      if (!row) continue;
      const auto to = static_cast<std::size_t>(before * at.table.along) + *row;
      const auto from = static_cast<std::size_t>(before * at.found.along + i);
      for (std::size_t d = 0; d < width; ++d) y[to * width + d] += u[from * width + d];
    }
  }
  store_output(context, 0, y);
}

// Visits every element found with its position and that of what it is looked up from, if here.
template <typename Visit>
void for_each_index(const LookUp& at, const Indices& indices, const Visit& visit) {
  std::int64_t to = 0;
  for (std::int64_t before = 0; before < at.found.before; ++before)
    for (std::int64_t i = 0; i < at.found.along; ++i)
      for (std::int64_t after = 0; after < at.found.after; ++after, ++to) {
        const auto row =
            local_index(indices[static_cast<std::size_t>(to)], at.offset, at.table.along);
        const std::int64_t first = before * at.table.along * at.table.after + after;
        if (row)
          visit(to, std::optional(first + static_cast<std::int64_t>(*row) * at.table.after));
        else
          visit(to, std::optional<std::int64_t>());
      }
}

void take_along_dim(const KernelContext& context, Workspace& workspace) {
  const LookUp at = look_up_of(context, context.in[0], context.out[0], 1);
  const RowCopier elements(context, 1);
  for_each_index(at, load_indices(context, 1, workspace),
                 [&](std::int64_t to, std::optional<std::int64_t> from) {
                   from ? elements.copy(*from, to) : elements.clear(to);
                 });
}

void add_along_dim(const KernelContext& context, Workspace& workspace) {
  const LookUp at = look_up_of(context, context.out[0], context.in[0], 1);
  const Values u = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  for_each_index(at, load_indices(context, 1, workspace),
                 [&](std::int64_t from, std::optional<std::int64_t> to) {
                   if (to) y[static_cast<std::size_t>(*to)] += u[static_cast<std::size_t>(from)];
                 });
  store_output(context, 0, y);
}

void one_hot(const KernelContext& context, Workspace& workspace) {
  const KernelOperand& classes = context.out[0];
  const Rows rows = rows_of(classes.local);
  const std::int64_t offset = offset_of(classes, classes.local.shape.rank() - 1);
  const auto indices = load_indices(context, 0, workspace);
  const Output y(context, 0);
  const auto length = static_cast<std::size_t>(rows.length);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto at = local_index(indices[i], offset, rows.length);
    for (std::size_t c = 0; c < length; ++c) y.put(i * length + c, at == c ? 1.0 : 0.0);
  }
}

}  // namespace

void add_index_kernels(KernelTable& table) {
  table.add("gather", gather);
  table.add("scatter_add", scatter_add, nullptr, wide_outputs);
  table.add("take_along_dim", take_along_dim);
  table.add("add_along_dim", add_along_dim, nullptr, wide_outputs);
  table.add("one_hot", one_hot);
}

}  // namespace sextant
