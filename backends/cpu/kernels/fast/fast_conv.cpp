// Convolutions in f32 as matrix products over columns that stay in cache: forward, and the
// gradients of x and of w. Groups, strides, padding, dilation and any number of spatial dims; boxes
// that hold only part of what a window sees count the rest as zero, as the reference does.
#include "backends/cpu/kernels/fast/conv_call.h"
#include "backends/cpu/kernels/fast/conv_rows.h"
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/gemm.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/taps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sextant {
namespace {

// Fewer pieces of work than this would leave cores idle: then outputs or channels are cut too.
constexpr std::int64_t kWantedPieces = 8;

// `rows` rows of `count` floats, added or copied.
void move_rows(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride,
               std::int64_t rows, std::int64_t count, bool adds) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const source = from + row * from_stride;
    float* const target = to + row * to_stride;
    if (!adds)
      std::copy_n(source, count, target);
    else
      for (std::int64_t i = 0; i < count; ++i) target[i] += source[i];
  }
}

// Each position of y sees the same position of x and no other: x is its own columns.
bool is_identity(const KernelContext& context, const KernelOperand& x, const KernelOperand& w,
                 const KernelOperand& y) {
  const Windows windows(context.actor->kind, context.attributes(), spatial_extents(w.local.shape));
  for (std::size_t dim = 0; dim < windows.rank(); ++dim) {
    const std::size_t at = dim + kFirstSpatialDim;
    if (!windows.is_pointwise(dim) || x.box.dims[at] != y.box.dims[at]) return false;
  }
  return true;
}

// The positions of x that windows see, as columns of a tile.
class Columns {
 public:
  Columns(const KernelContext& context, const ConvCall& call, const KernelOperand& x,
          const KernelOperand& w, const KernelOperand& y, Workspace& workspace)
      : call_(call),
        rows_(context, x, w, y),
        x_(reinterpret_cast<const float*>(x.data)),
        is_identity_(is_identity(context, x, w, y)),
        table_(workspace.take<std::int32_t>(static_cast<std::size_t>(rows_.table_size()))) {
    rows_.fill_table(table_);
  }

  // [channels x taps, columns of the tile], made in `buffer` by way of `plane` where x does not
  // have it.
  MatrixView<float> of(const ConvTile& tile, std::int64_t group, const ConvPart& channels,
                       float* plane, float* buffer) const {
    if (is_identity_ && tile.samples == 1)
      return {x_ + call_.x_at(tile.sample, group, channels.first) + tile.first, call_.x_positions,
              false};
    const ConvRowPart part{tile.first / rows_.y_row(), tile.positions / rows_.y_row()};
    for (std::int64_t sample = 0; sample < tile.samples; ++sample)
      for (std::int64_t channel = 0; channel < channels.length; ++channel)
        rows_.gather(x_ + call_.x_at(tile.sample + sample, group, channels.first + channel), table_,
                     part, plane,
                     buffer + channel * call_.taps * tile.columns() + sample * tile.positions,
                     tile.columns());
    return {buffer, tile.columns(), false};
  }

 private:
  const ConvCall& call_;
  const ConvRows rows_;
  const float* const x_;
  const bool is_identity_;
  const std::span<std::int32_t> table_;
};

// Outputs of a tile as a matrix [outputs, columns], gathered in `buffer` where they lie apart.
MatrixView<float> outputs_of(const ConvCall& call, const float* y, const ConvTile& tile,
                             std::int64_t group, float* buffer) {
  const float* const first = y + call.y_at(tile.sample, group, 0) + tile.first;
  if (tile.samples == 1) return {first, call.y_positions, false};
  for (std::int64_t sample = 0; sample < tile.samples; ++sample)
    move_rows(y + call.y_at(tile.sample + sample, group, 0), call.y_positions,
              buffer + sample * tile.positions, tile.columns(), call.outputs, tile.positions,
              false);
  return {buffer, tile.columns(), false};
}

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

// Forward: a piece is a tile of one group. Of few tiles the columns are made together, a piece
// being some channels, and then multiplied together, a piece being some outputs.
struct ForwardCut {
  ForwardCut(const ConvCall& call, const ConvRows& rows)
      : tiles(call.num_tiles(call.depth())),
        is_together(tiles * call.groups < kWantedPieces / 2),
        output_parts(is_together ? num_parts(call.outputs, kWantedPieces, 64) : 1),
        channel_parts(is_together ? num_parts(call.channels, kWantedPieces, 4) : 1),
        columns(call.most_columns(call.depth()) * call.depth()),
        sums(call.most_columns(call.depth()) * call.outputs),
        scratch(columns + sums + rows.plane_size()) {}
  std::int64_t tiles;
  bool is_together;
  std::int64_t output_parts, channel_parts;
  std::int64_t columns, sums, scratch;  // floats
};

struct ForwardCall {
  const ConvCall& call;
  const float* w = nullptr;
  float* y = nullptr;
  bool adds = false;
};

// y = w x columns for some outputs of a tile; `sums` has room for all outputs of it.
void multiply_tile(const ForwardCall& of, const ConvTile& tile, std::int64_t group,
                   const ConvPart& outputs, MatrixView<float> columns, float* sums) {
  const ConvCall& call = of.call;
  const auto [first, length] = outputs;
  const MatrixView<float> weights{of.w + (group * call.outputs + first) * call.depth(),
                                  call.depth(), false};
  if (tile.samples == 1) {
    gemm(length, tile.columns(), call.depth(), 1.0F, weights, columns, of.adds ? 1.0F : 0.0F,
         of.y + call.y_at(tile.sample, group, first) + tile.first, call.y_positions);
    return;
  }
  float* const own = sums + first * tile.columns();
  gemm(length, tile.columns(), call.depth(), 1.0F, weights, columns, 0.0F, own, tile.columns());
  for (std::int64_t sample = 0; sample < tile.samples; ++sample)
    move_rows(own + sample * tile.positions, tile.columns(),
              of.y + call.y_at(tile.sample + sample, group, first), call.y_positions, length,
              tile.positions, of.adds);
}

void conv(const KernelContext& context, Workspace& workspace) {
  const KernelOperand &of_x = context.in[0], &of_w = context.in[1], &of_y = context.out[0];
  const ConvCall call(of_x, of_w, of_y);
  const ForwardCut cut(call, ConvRows(context, of_x, of_w, of_y));
  const Columns x(context, call, of_x, of_w, of_y, workspace);
  const ForwardCall of{call, input<float>(context, 1), output<float>(context, 0),
                       context.accumulate[0]};
  float* const scratch = workspace.take<float>(as_size(workspace.threads() * cut.scratch)).data();
  const auto columns_of = [&](std::int64_t thread) { return scratch + thread * cut.scratch; };
  const auto sums_of = [&](std::int64_t thread) { return columns_of(thread) + cut.columns; };
  const auto plane_of = [&](std::int64_t thread) { return sums_of(thread) + cut.sums; };
  if (!cut.is_together) {
    workspace.run(cut.tiles * call.groups, [&](std::int64_t piece, std::int64_t thread) {
      const ConvTile tile = call.tile(call.depth(), piece / call.groups);
      const std::int64_t group = piece % call.groups;
      multiply_tile(of, tile, group, {0, call.outputs},
                    x.of(tile, group, {0, call.channels}, plane_of(thread), columns_of(thread)),
                    sums_of(thread));
    });
    return;
  }
  for (std::int64_t piece = 0; piece < cut.tiles * call.groups; ++piece) {
    const ConvTile tile = call.tile(call.depth(), piece / call.groups);
    const std::int64_t group = piece % call.groups;
    // Where x has the columns, every part says the same place but for its channels.
    MatrixView<float> columns{};
    workspace.run(cut.channel_parts, [&](std::int64_t part, std::int64_t thread) {
      const ConvPart channels = part_of(call.channels, cut.channel_parts, part);
      const MatrixView<float> made = x.of(tile, group, channels, plane_of(thread),
                                          scratch + channels.first * call.taps * tile.columns());
      if (part == 0) columns = made;
    });
    workspace.run(cut.output_parts, [&](std::int64_t part, std::int64_t) {
      multiply_tile(of, tile, group, part_of(call.outputs, cut.output_parts, part), columns,
                    sums_of(0));
    });
  }
}

std::int64_t table_bytes(const KernelContext& context, const KernelOperand& x,
                         const KernelOperand& w, const KernelOperand& y) {
  return Workspace::bytes_of<std::int32_t>(as_size(ConvRows(context, x, w, y).table_size()));
}

// For each thread.
template <typename Cut>
std::int64_t scratch_bytes(const KernelContext& context, const KernelOperand& x,
                           const KernelOperand& w, const KernelOperand& y) {
  const Cut cut(ConvCall(x, w, y), ConvRows(context, x, w, y));
  return Workspace::bytes_of<float>(as_size(cut.scratch));
}

std::int64_t conv_table(const KernelContext& context) {
  return table_bytes(context, context.in[0], context.in[1], context.out[0]);
}

std::int64_t conv_scratch(const KernelContext& context) {
  return scratch_bytes<ForwardCut>(context, context.in[0], context.in[1], context.out[0]);
}

// Gradient of x: a piece is some samples of one group and a part of its channels, whose positions
// nobody else adds to.
struct InputCut {
  InputCut(const ConvCall& call, const ConvRows& rows) {
    constexpr std::int64_t kColumns = 256, kCachedFloats = std::int64_t{1} << 18;
    sample_parts =
        num_parts(call.samples, (call.samples * call.y_positions + kColumns - 1) / kColumns, 1);
    const std::int64_t columns =
        (call.samples + sample_parts - 1) / sample_parts * call.y_positions;
    const std::int64_t for_cache = (call.depth() * columns + kCachedFloats - 1) / kCachedFloats;
    const std::int64_t for_cores = kWantedPieces / (sample_parts * call.groups);
    // Products of fewer rows than 64 waste more than they save.
    channel_parts =
        num_parts(call.channels, std::max(for_cache, for_cores), (63 + call.taps) / call.taps);
    const std::int64_t part = (call.channels + channel_parts - 1) / channel_parts;
    this->columns = part * call.taps * columns;
    outputs = call.outputs * columns;
    scratch = this->columns + outputs + rows.plane_size();
  }
  std::int64_t sample_parts = 1, channel_parts = 1;
  std::int64_t columns = 0, outputs = 0, scratch = 0;  // floats
};

void conv_grad_input(const KernelContext& context, Workspace& workspace) {
  const KernelOperand &of_x = context.out[0], &of_w = context.in[1], &of_y = context.in[0];
  const ConvCall call(of_x, of_w, of_y);
  const ConvRows rows(context, of_x, of_w, of_y);
  const InputCut cut(call, rows);
  const auto table = workspace.take<std::int32_t>(as_size(rows.table_size()));
  rows.fill_table(table);
  const float* const dy = input<float>(context, 0);
  const float* const w = input<float>(context, 1);
  float* const dx = output<float>(context, 0);
  const bool adds = context.accumulate[0];
  float* const scratch = workspace.take<float>(as_size(workspace.threads() * cut.scratch)).data();
  workspace.run(cut.sample_parts * call.groups * cut.channel_parts, [&](std::int64_t piece,
                                                                        std::int64_t thread) {
    const std::int64_t rest = piece / cut.channel_parts, group = rest % call.groups;
    const ConvPart samples = part_of(call.samples, cut.sample_parts, rest / call.groups);
    const ConvPart channels = part_of(call.channels, cut.channel_parts, piece % cut.channel_parts);
    const ConvTile tile{.sample = samples.first,
                        .samples = samples.length,
                        .first = 0,
                        .positions = call.y_positions};
    float* const columns = scratch + thread * cut.scratch;
    gemm(channels.length * call.taps, tile.columns(), call.outputs, 1.0F,
         {w + group * call.outputs * call.depth() + channels.first * call.taps, call.depth(), true},
         outputs_of(call, dy, tile, group, columns + cut.columns), 0.0F, columns, tile.columns());
    float* const plane = columns + cut.columns + cut.outputs;
    for (std::int64_t sample = 0; sample < tile.samples; ++sample)
      for (std::int64_t channel = 0; channel < channels.length; ++channel)
        rows.scatter(columns + channel * call.taps * tile.columns() + sample * tile.positions,
                     tile.columns(), table, plane,
                     dx + call.x_at(tile.sample + sample, group, channels.first + channel), adds);
  });
}

std::int64_t grad_input_table(const KernelContext& context) {
  return table_bytes(context, context.out[0], context.in[1], context.in[0]);
}

std::int64_t grad_input_scratch(const KernelContext& context) {
  return scratch_bytes<InputCut>(context, context.out[0], context.in[1], context.in[0]);
}

// Gradient of w: a piece is a part of the channels of one group, with all tiles one after the
// other.
struct WeightCut {
  WeightCut(const ConvCall& call, const ConvRows& of)
      : channel_parts(num_parts(call.channels, (kWantedPieces + call.groups - 1) / call.groups,
                                std::max<std::int64_t>(144 / call.taps, 1))),
        rows((call.channels + channel_parts - 1) / channel_parts * call.taps),
        columns(call.most_columns(rows) * rows),
        outputs(call.most_columns(rows) * call.outputs),
        scratch(columns + outputs + of.plane_size()) {}
  std::int64_t channel_parts, rows;
  std::int64_t columns, outputs, scratch;  // floats
};

void conv_grad_weight(const KernelContext& context, Workspace& workspace) {
  const KernelOperand &of_x = context.in[0], &of_w = context.out[0], &of_y = context.in[1];
  const ConvCall call(of_x, of_w, of_y);
  const WeightCut cut(call, ConvRows(context, of_x, of_w, of_y));
  const Columns x(context, call, of_x, of_w, of_y, workspace);
  const float* const dy = input<float>(context, 1);
  float* const dw = output<float>(context, 0);
  float* const scratch = workspace.take<float>(as_size(workspace.threads() * cut.scratch)).data();
  const std::int64_t tiles = call.num_tiles(cut.rows);
  workspace.run(call.groups * cut.channel_parts, [&](std::int64_t piece, std::int64_t thread) {
    const std::int64_t group = piece / cut.channel_parts;
    const ConvPart channels = part_of(call.channels, cut.channel_parts, piece % cut.channel_parts);
    float* const buffer = scratch + thread * cut.scratch;
    float* const to = dw + group * call.outputs * call.depth() + channels.first * call.taps;
    for (std::int64_t i = 0; i < tiles; ++i) {
      const ConvTile tile = call.tile(cut.rows, i);
      MatrixView<float> columns =
          x.of(tile, group, channels, buffer + cut.columns + cut.outputs, buffer);
      columns.transposed = true;
      const bool adds = i > 0 || context.accumulate[0];
      gemm(call.outputs, channels.length * call.taps, tile.columns(), 1.0F,
           outputs_of(call, dy, tile, group, buffer + cut.columns), columns, adds ? 1.0F : 0.0F, to,
           call.depth());
    }
  });
}

std::int64_t grad_weight_table(const KernelContext& context) {
  return table_bytes(context, context.in[0], context.out[0], context.in[1]);
}

std::int64_t grad_weight_scratch(const KernelContext& context) {
  return scratch_bytes<WeightCut>(context, context.in[0], context.out[0], context.in[1]);
}

// Positions are numbered in 32 bits; the reference is quick with empty operands.
bool covers_conv(const KernelContext& context) {
  const auto fits = [](const KernelOperand& operand) {
    const std::int64_t count = elements(operand);
    return count > 0 && count < std::int64_t{1} << 31;
  };
  return context.in[0].local.dtype == DType::kF32 && is_f32(context) &&
         std::all_of(context.in.begin(), context.in.end(), fits) &&
         std::all_of(context.out.begin(), context.out.end(), fits);
}

}  // namespace

void add_fast_conv_kernels(KernelTable& table) {
  if (!has_gemm()) return;
  table.add("conv", conv, covers_conv, conv_table, conv_scratch);
  table.add("conv_grad_input", conv_grad_input, covers_conv, grad_input_table, grad_input_scratch);
  table.add("conv_grad_weight", conv_grad_weight, covers_conv, grad_weight_table,
            grad_weight_scratch);
}

}  // namespace sextant
