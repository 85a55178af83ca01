// Reference layer norm and RMS norm over the last dim, forward and both gradients.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reciprocal_root.h"
#include "backends/cpu/kernels/shared/reference.h"

namespace sextant {
namespace {

// Distances from the first element are added, so that the mean of a constant row is its constant.
double mean_of(const Values& values, std::size_t first, std::size_t n) {
  if (n == 0) return 0.0;
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += values[first + i] - values[first];
  return values[first] + sum / static_cast<double>(n);
}

void layer_norm(const KernelContext& context, Workspace& workspace) {
  const double epsilon = context.attributes().real("epsilon");
  const Rows rows = rows_of(context.in[0].local);
  const Values x = load_input(context, 0, workspace);
  const Values gamma = load_input(context, 1, workspace);
  const Values beta = load_input(context, 2, workspace);
  const Output y(context, 0), means(context, 1), rstds(context, 2);
  const auto n = static_cast<std::size_t>(rows.length);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows.count); ++r) {
    const double mean = mean_of(x, r * n, n);
    double squares = 0.0;
    for (std::size_t i = 0; i < n; ++i) squares += (x[r * n + i] - mean) * (x[r * n + i] - mean);
    const double rstd = reciprocal_root(average(squares, rows.length), epsilon);
    for (std::size_t i = 0; i < n; ++i)
      y.put(r * n + i, (x[r * n + i] - mean) * rstd * gamma[i] + beta[i]);
    means.put(r, mean);
    rstds.put(r, rstd);
  }
}

void layer_norm_grad_input(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  const Values x = load_input(context, 0, workspace);
  const Values gamma = load_input(context, 1, workspace);
  const Values mean = load_input(context, 2, workspace);
  const Values rstd = load_input(context, 3, workspace);
  const Values dy = load_input(context, 4, workspace);
  const Output dx(context, 0);
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
      dx.put(r * n + i, rstd[r] * (dy[r * n + i] * gamma[i] - average_g - h * average_gh));
    }
  }
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
  store_output(context, 0, dgamma);
  store_output(context, 1, dbeta);
}

void rms_norm(const KernelContext& context, Workspace& workspace) {
  const double epsilon = context.attributes().real("epsilon");
  const Rows rows = rows_of(context.in[0].local);
  const Values x = load_input(context, 0, workspace);
  const Values gamma = load_input(context, 1, workspace);
  const Output y(context, 0), rstds(context, 1);
  const auto n = static_cast<std::size_t>(rows.length);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows.count); ++r) {
    double squares = 0.0;
    for (std::size_t i = 0; i < n; ++i) squares += x[r * n + i] * x[r * n + i];
    const double rstd = reciprocal_root(average(squares, rows.length), epsilon);
    for (std::size_t i = 0; i < n; ++i) y.put(r * n + i, x[r * n + i] * rstd * gamma[i]);
    rstds.put(r, rstd);
  }
}

void rms_norm_grad_input(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  const Values x = load_input(context, 0, workspace);
  const Values gamma = load_input(context, 1, workspace);
  const Values rstd = load_input(context, 2, workspace);
  const Values dy = load_input(context, 3, workspace);
  const Output dx(context, 0);
  const auto n = static_cast<std::size_t>(rows.length);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows.count); ++r) {
    double average_gh = 0.0;
    for (std::size_t i = 0; i < n; ++i)
      average_gh += dy[r * n + i] * gamma[i] * x[r * n + i] * rstd[r];
    average_gh /= static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      const double h = x[r * n + i] * rstd[r];
      dx.put(r * n + i, rstd[r] * (dy[r * n + i] * gamma[i] - h * average_gh));
    }
  }
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
  store_output(context, 0, dgamma);
}

}  // namespace

void add_normalization_kernels(KernelTable& table) {
  table.add("layer_norm", layer_norm);
  table.add("layer_norm_grad_input", layer_norm_grad_input);
  table.add("layer_norm_grad_weight", layer_norm_grad_weight, nullptr, wide_outputs);
  table.add("rms_norm", rms_norm);
  table.add("rms_norm_grad_input", rms_norm_grad_input);
  table.add("rms_norm_grad_weight", rms_norm_grad_weight, nullptr, wide_outputs);
}

}  // namespace sextant
