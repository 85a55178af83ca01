// Reference layer norm and RMS norm over the last dim, forward and both gradients.
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/reciprocal_root.h"
#include "backends/cpu/kernels/reference.h"

namespace sextant {
namespace {

Values row_of(Values values, std::int64_t row, std::int64_t length) {
  return values.subspan(static_cast<std::size_t>(row * length), static_cast<std::size_t>(length));
}

// Distances from the first element are added, so that the mean of a constant row is its constant.
double mean_of(Values row) {
  if (row.empty()) return 0.0;
  double sum = 0.0;
  for (const double value : row) sum += value - row[0];
  return row[0] + sum / static_cast<double>(row.size());
}

void layer_norm(const KernelContext& context, Workspace& workspace) {
  const double epsilon = context.attributes().real("epsilon");
  const Rows rows = rows_of(context.in[0].local);
  const Values x = load_input(context, 0, workspace);
  const Values gamma = load_input(context, 1, workspace);
  const Values beta = load_input(context, 2, workspace);
  const auto y = make_output(context, 0, workspace);
  const auto mean = make_output(context, 1, workspace);
  const auto rstd = make_output(context, 2, workspace);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const Values values = row_of(x, row, rows.length);
    const auto r = static_cast<std::size_t>(row);
    mean[r] = mean_of(values);
    double variance = 0.0;
    for (const double value : values) variance += (value - mean[r]) * (value - mean[r]);
    variance /= static_cast<double>(rows.length);
    rstd[r] = reciprocal_root(variance, epsilon);
    for (std::size_t i = 0; i < values.size(); ++i)
      y[r * values.size() + i] = (values[i] - mean[r]) * rstd[r] * gamma[i] + beta[i];
  }
  store_output(context, 0, y, workspace);
  store_output(context, 1, mean, workspace);
  store_output(context, 2, rstd, workspace);
}

void layer_norm_grad_input(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  const Values x = load_input(context, 0, workspace);
  const Values gamma = load_input(context, 1, workspace);
  const Values mean = load_input(context, 2, workspace);
  const Values rstd = load_input(context, 3, workspace);
  const Values dy = load_input(context, 4, workspace);
  const auto dx = make_output(context, 0, workspace);
  const auto n = static_cast<std::size_t>(rows.length);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows.count); ++r) {
    double average_g = 0.0, average_gh = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      const double g = dy[r * n + i] * gamma[i];
      average_g += g;
      average_gh += g * (x[r * n + i] - mean[r]) * rstd[r];
    }
    average_g /= static_cast<double>(n);
    average_gh /= static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      const double h = (x[r * n + i] - mean[r]) * rstd[r];
      dx[r * n + i] = rstd[r] * (dy[r * n + i] * gamma[i] - average_g - h * average_gh);
    }
  }
  store_output(context, 0, dx, workspace);
}

void layer_norm_grad_weight(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  const Values x = load_input(context, 0, workspace);
  const Values mean = load_input(context, 1, workspace);
  const Values rstd = load_input(context, 2, workspace);
  const Values dy = load_input(context, 3, workspace);
  const auto dgamma = make_output(context, 0, workspace);
  const auto dbeta = make_output(context, 1, workspace);
  const auto n = static_cast<std::size_t>(rows.length);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows.count); ++r) {
    for (std::size_t i = 0; i < n; ++i) {
      dgamma[i] += dy[r * n + i] * (x[r * n + i] - mean[r]) * rstd[r];
      dbeta[i] += dy[r * n + i];
    }
  }
  store_output(context, 0, dgamma, workspace);
  store_output(context, 1, dbeta, workspace);
}

void rms_norm(const KernelContext& context, Workspace& workspace) {
  const double epsilon = context.attributes().real("epsilon");
  const Rows rows = rows_of(context.in[0].local);
  const Values x = load_input(context, 0, workspace);
  const Values gamma = load_input(context, 1, workspace);
  const auto y = make_output(context, 0, workspace);
  const auto rstd = make_output(context, 1, workspace);
  const auto n = static_cast<std::size_t>(rows.length);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows.count); ++r) {
    double squares = 0.0;
    for (std::size_t i = 0; i < n; ++i) squares += x[r * n + i] * x[r * n + i];
    rstd[r] = reciprocal_root(squares / static_cast<double>(n), epsilon);
    for (std::size_t i = 0; i < n; ++i) y[r * n + i] = x[r * n + i] * rstd[r] * gamma[i];
  }
  store_output(context, 0, y, workspace);
  store_output(context, 1, rstd, workspace);
}

void rms_norm_grad_input(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  const Values x = load_input(context, 0, workspace);
  const Values gamma = load_input(context, 1, workspace);
  const Values rstd = load_input(context, 2, workspace);
  const Values dy = load_input(context, 3, workspace);
  const auto dx = make_output(context, 0, workspace);
  const auto n = static_cast<std::size_t>(rows.length);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows.count); ++r) {
    double average_gh = 0.0;
    for (std::size_t i = 0; i < n; ++i)
      average_gh += dy[r * n + i] * gamma[i] * x[r * n + i] * rstd[r];
    average_gh /= static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      const double h = x[r * n + i] * rstd[r];
      dx[r * n + i] = rstd[r] * (dy[r * n + i] * gamma[i] - h * average_gh);
    }
  }
  store_output(context, 0, dx, workspace);
}

void rms_norm_grad_weight(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  const Values x = load_input(context, 0, workspace);
  const Values rstd = load_input(context, 1, workspace);
  const Values dy = load_input(context, 2, workspace);
  const auto dgamma = make_output(context, 0, workspace);
  const auto n = static_cast<std::size_t>(rows.length);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows.count); ++r)
    for (std::size_t i = 0; i < n; ++i) dgamma[i] += dy[r * n + i] * x[r * n + i] * rstd[r];
  store_output(context, 0, dgamma, workspace);
}

}  // namespace

void add_normalization_kernels(KernelTable& table) {
  table.add("layer_norm", layer_norm);
  table.add("layer_norm_grad_input", layer_norm_grad_input);
  table.add("layer_norm_grad_weight", layer_norm_grad_weight);
  table.add("rms_norm", rms_norm);
  table.add("rms_norm_grad_input", rms_norm_grad_input);
  table.add("rms_norm_grad_weight", rms_norm_grad_weight);
}

}  // namespace sextant
