// Reference pieces of softmax cross-entropy; the classes may be split over ranks.
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/id_check.h"
#include "backends/cpu/kernels/label_shares.h"
#include "backends/cpu/kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sextant {
namespace {

void row_max(const KernelContext& context, Workspace& workspace) {
  const auto classes = static_cast<std::size_t>(rows_of(context.in[0].local).length);
  const Values x = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  for (std::size_t row = 0; row < y.size(); ++row) {
    y[row] = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < classes; ++i) y[row] = std::max(y[row], x[row * classes + i]);
  }
  store_output(context, 0, y, workspace);
}

void row_sum_exp(const KernelContext& context, Workspace& workspace) {
  const auto classes = static_cast<std::size_t>(rows_of(context.in[0].local).length);
  const Values x = load_input(context, 0, workspace);
  const Values max = load_input(context, 1, workspace);
  const auto y = make_output(context, 0, workspace);
  for (std::size_t row = 0; row < y.size(); ++row)
    for (std::size_t i = 0; i < classes; ++i) y[row] += std::exp(x[row * classes + i] - max[row]);
  store_output(context, 0, y, workspace);
}

// A label that lies outside the local classes is another shard's; `ignore_index` lies outside all.
void pick(const KernelContext& context, Workspace& workspace) {
  const auto classes = rows_of(context.in[0].local).length;
  const std::int64_t first = offset_of(context.in[0], context.in[0].box.dims.size() - 1);
  const Values x = load_input(context, 0, workspace);
  const auto labels = load_indices(context, 1, workspace);
  const auto y = make_output(context, 0, workspace);
  for (std::size_t row = 0; row < y.size(); ++row) {
    const std::int64_t column = labels[row] - first;
    if (labels[row] == ignored_label(context) || column < 0 || column >= classes) continue;
    y[row] = x[row * static_cast<std::size_t>(classes) + static_cast<std::size_t>(column)];
  }
  store_output(context, 0, y, workspace);
}

void cross_entropy(const KernelContext& context, Workspace& workspace) {
  const Values max = load_input(context, 1, workspace);
  const Values sum = load_input(context, 2, workspace);
  const Values picked = load_input(context, 3, workspace);
  const auto labels = load_indices(context, 4, workspace);
  const auto loss = make_output(context, 0, workspace);
  const auto tokens = make_output(context, 1, workspace);
  for (std::size_t row = 0; row < labels.size(); ++row) {
    require_label(context, labels[row]);
    if (labels[row] == ignored_label(context)) continue;
    loss[0] += std::log(sum[row]) + max[row] - picked[row];
    tokens[0] += 1.0;
  }
  store_output(context, 0, loss, workspace);
  store_output(context, 1, tokens, workspace);
}

void cross_entropy_grad(const KernelContext& context, Workspace& workspace) {
  const auto classes = static_cast<std::size_t>(rows_of(context.in[0].local).length);
  const std::int64_t first = offset_of(context.in[0], context.in[0].box.dims.size() - 1);
  const Values x = load_input(context, 0, workspace);
  const Values max = load_input(context, 1, workspace);
  const Values sum = load_input(context, 2, workspace);
  const auto labels = load_indices(context, 3, workspace);
  const Values d_loss = load_input(context, 4, workspace);
  const auto dx = make_output(context, 0, workspace);
  const LabelShares shares = label_shares(context);
  for (std::size_t row = 0; row < labels.size(); ++row) {
    require_label(context, labels[row]);
    if (labels[row] == ignored_label(context)) continue;
    const std::int64_t label = labels[row] - first;
    for (std::size_t i = 0; i < classes; ++i) {
      const double probability = std::exp(x[row * classes + i] - max[row]) / sum[row];
      const double of_label = static_cast<std::int64_t>(i) == label ? shares.label : 0.0;
      dx[row * classes + i] = d_loss[0] * (probability - of_label - shares.each);
    }
  }
  store_output(context, 0, dx, workspace);
}

}  // namespace

void add_loss_kernels(KernelTable& table) {
  table.add("row_max", row_max);
  table.add("row_sum_exp", row_sum_exp);
  table.add("pick", pick);
  table.add("cross_entropy", cross_entropy);
  table.add("cross_entropy_grad", cross_entropy_grad);
}

}  // namespace sextant
