// Reference pieces of softmax cross-entropy; the classes may be split over ranks.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/id_check.h"
#include "backends/cpu/kernels/shared/label_shares.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sextant {
namespace {

void row_max(const KernelContext& context, Workspace& workspace) {
  const auto classes = static_cast<std::size_t>(rows_of(context.in[0].local).length);
  const Values x = load_input(context, 0, workspace);
  const Output y(context, 0);
  for (std::size_t row = 0; row < y.size(); ++row) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < classes; ++i) largest = std::max(largest, x[row * classes + i]);
    y.put(row, largest);
  }
}

void row_sum_exp(const KernelContext& context, Workspace& workspace) {
  const auto classes = static_cast<std::size_t>(rows_of(context.in[0].local).length);
  const Values x = load_input(context, 0, workspace);
  const Values max = load_input(context, 1, workspace);
  const Output y(context, 0);
  for (std::size_t row = 0; row < y.size(); ++row) {
    double sum = 0.0;
    for (std::size_t i = 0; i < classes; ++i) sum += std::exp(x[row * classes + i] - max[row]);
    y.put(row, sum);
  }
}

// A label that lies outside the local classes is another shard's; `ignore_index` lies outside all.
void pick(const KernelContext& context, Workspace& workspace) {
  const auto classes = rows_of(context.in[0].local).length;
  const std::int64_t first = offset_of(context.in[0], context.in[0].box.dims.size() - 1);
  const Values x = load_input(context, 0, workspace);
  const Indices labels = load_indices(context, 1, workspace);
  const Output y(context, 0);
  for (std::size_t row = 0; row < y.size(); ++row) {
    const std::int64_t column = labels[row] - first;
    const bool is_here = labels[row] != ignored_label(context) && column >= 0 && column < classes;
    const std::size_t at = row * static_cast<std::size_t>(classes);
    y.put(row, is_here ? x[at + static_cast<std::size_t>(column)] : 0.0);
  }
}

void cross_entropy(const KernelContext& context, Workspace& workspace) {
  const Values max = load_input(context, 1, workspace);
  const Values sum = load_input(context, 2, workspace);
  const Values picked = load_input(context, 3, workspace);
  const Indices labels = load_indices(context, 4, workspace);
  double loss = 0.0, tokens = 0.0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    require_label(context, labels[row]);
    if (labels[row] == ignored_label(context)) continue;
    loss += std::log(sum[row]) + max[row] - picked[row];
    tokens += 1.0;
  }
  Output(context, 0).put(0, loss);
  Output(context, 1).put(0, tokens);
}

void cross_entropy_grad(const KernelContext& context, Workspace& workspace) {
  const auto classes = static_cast<std::size_t>(rows_of(context.in[0].local).length);
  const std::int64_t first = offset_of(context.in[0], context.in[0].box.dims.size() - 1);
  const Values x = load_input(context, 0, workspace);
  const Values max = load_input(context, 1, workspace);
  const Values sum = load_input(context, 2, workspace);
  const auto labels = load_indices(context, 3, workspace);
  const Values d_loss = load_input(context, 4, workspace);
  const Output dx(context, 0);
  const LabelShares shares = label_shares(context);
  for (std::size_t row = 0; row < labels.size(); ++row) {
    require_label(context, labels[row]);
    const bool is_ignored = labels[row] == ignored_label(context);
    const std::int64_t label = labels[row] - first;
    for (std::size_t i = 0; i < classes; ++i) {
      const double probability =
          is_ignored ? 0.0 : std::exp(x[row * classes + i] - max[row]) / sum[row];
      const double of_label = static_cast<std::int64_t>(i) == label ? shares.label : 0.0;
      dx.put(row * classes + i,
             is_ignored ? 0.0 : d_loss[0] * (probability - of_label - shares.each));
    }
  }
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
