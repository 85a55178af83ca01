// Reference pieces of norms whose rows may be split over ranks. Five operands where a mean is
// subtracted, three where not: a missing mean is 0, a missing beta is not added.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "backends/cpu/kernels/shared/walk.h"
#include "core/operators/reductions/reduced_dims.h"

namespace sextant {
namespace {

ReducedDims statistics_dims(const KernelContext& context, std::size_t rank) {
  return ReducedDims(context.actor->kind, context.attributes(), rank);
}

// Calls `visit(element, its statistics, its weights)`; input 0 has the elements.
template <typename Visit>
void for_each_element(const KernelContext& context, const Visit& visit) {
  const Shape& x = context.in[0].local.shape;
  const ReducedDims statistics = statistics_dims(context, x.rank());
  const ReducedDims weights = ReducedDims::all_but(
      context.actor->kind, context.attributes().integers("weight_dims"), x.rank());
  walk<2>(x, {strides_onto(x, statistics.kept()), strides_onto(x, weights.kept())},
          [&](std::size_t i, const auto& at) { visit(i, at[0], at[1]); });
}

void reduce_squares(const KernelContext& context, Workspace& workspace) {
  const Shape& shape = context.in[0].local.shape;
  const bool has_mean = context.in.size() == 2;
  const Values x = load_input(context, 0, workspace);
  const Values mean = has_mean ? load_input(context, 1, workspace) : Values();
  const auto sum = make_output(context, 0, workspace);
  walk<1>(shape, {strides_onto(shape, statistics_dims(context, shape.rank()).kept())},
          [&](std::size_t i, const auto& at) {
            const double centred = has_mean ? x[i] - mean[at[0]] : x[i];
            sum[at[0]] += centred * centred;
          });
  store_output(context, 0, sum);
}

void normalize(const KernelContext& context, Workspace& workspace) {
  const bool is_centred = context.in.size() == 5;
  const std::size_t next = is_centred ? 2 : 1;
  const Values x = load_input(context, 0, workspace);
  const Values mean = is_centred ? load_input(context, 1, workspace) : Values();
  const Values rstd = load_input(context, next, workspace);
  const Values gamma = load_input(context, next + 1, workspace);
  const Values beta = is_centred ? load_input(context, 4, workspace) : Values();
  const Output y(context, 0);
  for_each_element(context, [&](std::size_t i, std::size_t s, std::size_t w) {
    y.put(i,
          is_centred ? (x[i] - mean[s]) * rstd[s] * gamma[w] + beta[w] : x[i] * rstd[s] * gamma[w]);
  });
}

void normalize_grad_sums(const KernelContext& context, Workspace& workspace) {
  const bool is_centred = context.in.size() == 4;
  const std::size_t next = is_centred ? 2 : 1, last = is_centred ? 1 : 0;
  const Values x = load_input(context, 0, workspace);
  const Values mean = is_centred ? load_input(context, 1, workspace) : Values();
  const Values gamma = load_input(context, next, workspace);
  const Values dy = load_input(context, next + 1, workspace);
  const auto sum_g = make_output(context, 0, workspace);
  const auto sum_gx = is_centred ? make_output(context, 1, workspace) : sum_g;
  for_each_element(context, [&](std::size_t i, std::size_t s, std::size_t w) {
    const double g = dy[i] * gamma[w];
    if (is_centred) sum_g[s] += g;
    sum_gx[s] += g * (is_centred ? x[i] - mean[s] : x[i]);
  });
  if (is_centred) store_output(context, 0, sum_g);
  store_output(context, last, sum_gx);
}

// dx = rstd (g - avg(g) - (x - mean) rstd^2 avg(g (x - mean))), averages over the global count.
// Sums of weights lack the factor gamma, and that of (x - mean) has a factor rstd.
void normalize_grad_input(const KernelContext& context, Workspace& workspace) {
  const bool is_centred = context.in.size() == 7;
  const Shape& global = context.in[0].layout->global.shape;
  const auto count = static_cast<double>(statistics_dims(context, global.rank()).count(global));
  const std::size_t next = is_centred ? 2 : 1, last = context.in.size() - 1;
  const Values x = load_input(context, 0, workspace);
  const Values mean = is_centred ? load_input(context, 1, workspace) : Values();
  const Values rstd = load_input(context, next, workspace);
  const Values gamma = load_input(context, next + 1, workspace);
  const Values sum_g = is_centred ? load_input(context, 4, workspace) : Values();
  const Values sum_gx = load_input(context, last - 1, workspace);
  const Values dy = load_input(context, last, workspace);
  const Output dx(context, 0);
  const bool of_weights =
      context.attributes().contains("sums") && context.attributes().text("sums") == "of_weights";
  for_each_element(context, [&](std::size_t i, std::size_t s, std::size_t w) {
    const double centred = is_centred ? x[i] - mean[s] : x[i];
    const double average = is_centred ? sum_g[s] / count : 0.0;
    const double slope = centred * rstd[s] * sum_gx[s] / count;
    dx.put(i, of_weights ? rstd[s] * gamma[w] * (dy[i] - average - slope)
                         : rstd[s] * (dy[i] * gamma[w] - average - rstd[s] * slope));
  });
}

void normalize_grad_weight(const KernelContext& context, Workspace& workspace) {
  const bool is_centred = context.in.size() == 4;
  const std::size_t next = is_centred ? 2 : 1;
  const Values x = load_input(context, 0, workspace);
  const Values mean = is_centred ? load_input(context, 1, workspace) : Values();
  const Values rstd = load_input(context, next, workspace);
  const Values dy = load_input(context, next + 1, workspace);
  const auto dgamma = make_output(context, 0, workspace);
  const auto dbeta = is_centred ? make_output(context, 1, workspace) : dgamma;
  for_each_element(context, [&](std::size_t i, std::size_t s, std::size_t w) {
    dgamma[w] += dy[i] * (is_centred ? x[i] - mean[s] : x[i]) * rstd[s];
    if (is_centred) dbeta[w] += dy[i];
  });
  store_output(context, 0, dgamma);
  if (is_centred) store_output(context, 1, dbeta);
}

}  // namespace

void add_norm_piece_kernels(KernelTable& table) {
  table.add("reduce_squares", reduce_squares, nullptr, wide_outputs);
  table.add("normalize", normalize);
  table.add("normalize_grad_sums", normalize_grad_sums, nullptr, wide_outputs);
  table.add("normalize_grad_input", normalize_grad_input);
  table.add("normalize_grad_weight", normalize_grad_weight, nullptr, wide_outputs);
}

}  // namespace sextant
