// Reference pools: each window looks at the positions that are here.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "backends/cpu/kernels/shared/taps.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sextant {
namespace {

Windows windows_of(const KernelContext& context) {
  const std::vector<std::int64_t>& kernel = context.attributes().integers("kernel");
  return Windows(context.actor->kind, context.attributes(), kernel, kernel);
}

// Channels of all samples.
std::size_t planes(const KernelOperand& operand) {
  return static_cast<std::size_t>(operand.local.shape[0] * operand.local.shape[1]);
}

void max_pool(const KernelContext& context, Workspace& workspace) {
  const Windows windows = windows_of(context);
  const Taps taps(windows, context.in[0], context.out[0]);
  const Values x = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  std::fill(y.begin(), y.end(), -std::numeric_limits<double>::infinity());
  taps.for_each([&](std::size_t y_at, std::size_t x_at, std::size_t) {
    for (std::size_t plane = 0; plane < planes(context.in[0]); ++plane) {
      const double value = x[plane * taps.x_positions() + x_at];
      double& largest = y[plane * taps.y_positions() + y_at];
      if (value > largest || std::isnan(value)) largest = value;
    }
  });
  store_output(context, 0, y);
}

// Taps come by window, then row-major: the first of equal elements keeps its place.
void max_pool_grad(const KernelContext& context, Workspace& workspace) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  const Windows windows = windows_of(context);
  const Taps taps(windows, context.in[0], context.in[1]);
  const Values x = load_input(context, 0, workspace), dy = load_input(context, 1, workspace);
  const auto dx = make_output(context, 0, workspace);
  const auto first = workspace.take<std::size_t>(dy.size());
  std::fill(first.begin(), first.end(), kNone);
  taps.for_each([&](std::size_t y_at, std::size_t x_at, std::size_t) {
    for (std::size_t plane = 0; plane < planes(context.in[0]); ++plane) {
      const std::size_t here = plane * taps.x_positions() + x_at;
      std::size_t& largest = first[plane * taps.y_positions() + y_at];
      if (largest == kNone || x[here] > x[largest] ||
          (std::isnan(x[here]) && !std::isnan(x[largest])))
        largest = here;
    }
  });
  for (std::size_t i = 0; i < dy.size(); ++i)
    if (first[i] != kNone) dx[first[i]] += dy[i];
  store_output(context, 0, dx);
}

std::int64_t max_pool_grad_bound(const KernelContext& context) {
  return wide_outputs(context) + Workspace::bytes_of<std::size_t>(num_elements(context.in[1]));
}

// By how much a window divides its sum: all its positions, or those inside the global tensor.
std::span<double> divisors(const KernelContext& context, const Taps& taps,
                           const std::vector<std::int64_t>& global, Workspace& workspace) {
  const auto counts = workspace.take<double>(taps.y_positions());
  const bool counts_padding = context.attributes().boolean_or("count_padding", false);
  taps.for_each_count(global, [&](std::size_t y_at, std::int64_t inside) {
    counts[y_at] =
        counts_padding ? static_cast<double>(taps.kernel_positions()) : static_cast<double>(inside);
  });
  return counts;
}

// The windows lie in the smaller operand: in the output of the pool, the input of its gradient.
std::int64_t avg_pool_bound(const KernelContext& context) {
  const auto positions = [](const KernelOperand& operand) {
    std::int64_t count = 1;
    for (const Interval& dim : std::span(operand.box.dims).subspan(kFirstSpatialDim))
      count *= dim.extent;
    return static_cast<std::size_t>(count);
  };
  return wide_outputs(context) +
         Workspace::bytes_of<double>(std::max(positions(context.in[0]), positions(context.out[0])));
}

void avg_pool(const KernelContext& context, Workspace& workspace) {
  const Windows windows = windows_of(context);
  const Taps taps(windows, context.in[0], context.out[0]);
  const auto counts =
      divisors(context, taps, spatial_extents(context.in[0].layout->global.shape), workspace);
  const Values x = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  taps.for_each([&](std::size_t y_at, std::size_t x_at, std::size_t) {
    for (std::size_t plane = 0; plane < planes(context.in[0]); ++plane)
      y[plane * taps.y_positions() + y_at] += x[plane * taps.x_positions() + x_at] / counts[y_at];
  });
  store_output(context, 0, y);
}

void avg_pool_grad(const KernelContext& context, Workspace& workspace) {
  const Windows windows = windows_of(context);
  const Taps taps(windows, context.out[0], context.in[0]);
  const auto counts =
      divisors(context, taps, spatial_extents(context.out[0].layout->global.shape), workspace);
  const Values dy = load_input(context, 0, workspace);
  const auto dx = make_output(context, 0, workspace);
  taps.for_each([&](std::size_t y_at, std::size_t x_at, std::size_t) {
    for (std::size_t plane = 0; plane < planes(context.in[0]); ++plane)
      dx[plane * taps.x_positions() + x_at] += dy[plane * taps.y_positions() + y_at] / counts[y_at];
  });
  store_output(context, 0, dx);
}

}  // namespace

void add_pool_kernels(KernelTable& table) {
  table.add("max_pool", max_pool, nullptr, wide_outputs);
  table.add("max_pool_grad", max_pool_grad, nullptr, max_pool_grad_bound);
  table.add("avg_pool", avg_pool, nullptr, avg_pool_bound);
  table.add("avg_pool_grad", avg_pool_grad, nullptr, avg_pool_bound);
}

}  // namespace sextant
