// Reference convolutions: one multiply-add per sample, group, output, channel and tap.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "backends/cpu/kernels/shared/taps.h"
#include "core/base/check.h"

namespace sextant {
namespace {

// Visits every product y += x w of the operands: visit(index in x, in w, in y).
template <typename Visit>
void for_each_product(const KernelContext& context, const KernelOperand& x, const KernelOperand& w,
                      const KernelOperand& y, const Visit& visit) {
  const Shape &xs = x.local.shape, &ws = w.local.shape, &ys = y.local.shape;
  if (ws[1] == 0 || ws[0] == 0 || xs[1] == 0) return;
  const std::int64_t groups = xs[1] / ws[1], per_group = ws[1];
  require(groups * per_group == xs[1] && groups > 0 && ws[0] % groups == 0 && ys[1] == ws[0],
          ErrorCode::kInternal, "channels of x {}, w {} and y {} do not belong together",
          to_string(xs), to_string(ws), to_string(ys));
  const Windows windows(context.actor->kind, context.attributes(), spatial_extents(ws));
  const Taps taps(windows, x, y);
  const std::int64_t outputs = ws[0] / groups;
  taps.for_each([&](std::size_t y_at, std::size_t x_at, std::size_t tap) {
    for (std::int64_t n = 0; n < xs[0]; ++n)
      for (std::int64_t o = 0; o < ws[0]; ++o)
        for (std::int64_t c = 0; c < per_group; ++c) {
          const std::int64_t channel = o / outputs * per_group + c;
          visit(static_cast<std::size_t>(n * xs[1] + channel) * taps.x_positions() + x_at,
                static_cast<std::size_t>(o * per_group + c) * taps.kernel_positions() + tap,
                static_cast<std::size_t>(n * ys[1] + o) * taps.y_positions() + y_at);
        }
  });
}

void conv(const KernelContext& context, Workspace& workspace) {
  const Values x = load_input(context, 0, workspace), w = load_input(context, 1, workspace);
  const auto y = make_output(context, 0, workspace);
  for_each_product(
      context, context.in[0], context.in[1], context.out[0],
      [&](std::size_t in, std::size_t tap, std::size_t out) { y[out] += x[in] * w[tap]; });
  store_output(context, 0, y);
}

void conv_grad_input(const KernelContext& context, Workspace& workspace) {
  const Values dy = load_input(context, 0, workspace), w = load_input(context, 1, workspace);
  const auto dx = make_output(context, 0, workspace);
  for_each_product(
      context, context.out[0], context.in[1], context.in[0],
      [&](std::size_t in, std::size_t tap, std::size_t out) { dx[in] += dy[out] * w[tap]; });
  store_output(context, 0, dx);
}

void conv_grad_weight(const KernelContext& context, Workspace& workspace) {
  const Values x = load_input(context, 0, workspace), dy = load_input(context, 1, workspace);
  const auto dw = make_output(context, 0, workspace);
  for_each_product(
      context, context.in[0], context.out[0], context.in[1],
      [&](std::size_t in, std::size_t tap, std::size_t out) { dw[tap] += x[in] * dy[out]; });
  store_output(context, 0, dw);
}

}  // namespace

void add_conv_kernels(KernelTable& table) {
  table.add("conv", conv, nullptr, wide_outputs);
  table.add("conv_grad_input", conv_grad_input, nullptr, wide_outputs);
  table.add("conv_grad_weight", conv_grad_weight, nullptr, wide_outputs);
}

}  // namespace sextant
