// Reference mixture of experts, one choice of one token at a time.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace sextant {
namespace {

// Largest first, of equals the first; a NaN counts as largest.
void top_k(const KernelContext& context, Workspace& workspace) {
  const Values x = load_input(context, 0, workspace);
  const Output values(context, 0), indices(context, 1);
  const Rows rows = rows_of(context.in[0].local);
  const auto classes = static_cast<std::size_t>(rows.length);
  const auto k = static_cast<std::size_t>(rows_of(context.out[0].local).length);
  const auto order = workspace.take<std::size_t>(classes);
  const auto of_row = workspace.take<double>(classes);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows.count); ++row) {
    for (std::size_t i = 0; i < classes; ++i) {
      order[i] = i;
      of_row[i] = x[row * classes + i];
    }
    const auto is_before = [&](std::size_t a, std::size_t b) {
      const bool a_nan = std::isnan(of_row[a]), b_nan = std::isnan(of_row[b]);
      if (a_nan != b_nan) return a_nan;
      if (!a_nan && of_row[a] != of_row[b]) return of_row[a] > of_row[b];
      return a < b;
    };
    std::sort(order.begin(), order.end(), is_before);
    for (std::size_t j = 0; j < k; ++j) {
      values.put(row * k + j, of_row[order[j]]);
      indices.put(row * k + j, static_cast<double>(order[j]));
    }
  }
}

std::int64_t top_k_bound(const KernelContext& context) {
  const auto classes = static_cast<std::size_t>(rows_of(context.in[0].local).length);
  return Workspace::bytes_of<std::size_t>(classes) + Workspace::bytes_of<double>(classes);
}

void top_k_grad(const KernelContext& context, Workspace& workspace) {
  const Values indices = load_input(context, 0, workspace);
  const Values dvalues = load_input(context, 1, workspace);
  const auto dx = make_output(context, 0, workspace);
  const Rows rows = rows_of(context.in[0].local);
  const std::int64_t classes = rows_of(context.out[0].local).length;
  for (std::int64_t at = 0; at < rows.count * rows.length; ++at) {
    const auto index = static_cast<std::int64_t>(indices[static_cast<std::size_t>(at)]);
    if (index < 0 || index >= classes) continue;
    dx[static_cast<std::size_t>(at / rows.length * classes + index)] +=
        dvalues[static_cast<std::size_t>(at)];
  }
  store_output(context, 0, dx);
}

// The n-th choice of an expert in its group, token by token, gets place n; -1 for no expert.
void expert_position(const KernelContext& context, Workspace& workspace) {
  const Values experts = load_input(context, 0, workspace);
  const Output positions(context, 0);
  const std::int64_t num_experts = context.attributes().integer("experts");
  const auto taken = workspace.take<std::int64_t>(static_cast<std::size_t>(num_experts));
  const Shape& shape = context.in[0].local.shape;
  const auto per_group = static_cast<std::size_t>(shape[1] * shape[2]);
  for (std::size_t at = 0; at < experts.size(); ++at) {
    if (at % per_group == 0) std::fill(taken.begin(), taken.end(), 0);
    const auto expert = static_cast<std::int64_t>(experts[at]);
    const bool is_expert = expert >= 0 && expert < num_experts;
    positions.put(
        at, is_expert ? static_cast<double>(taken[static_cast<std::size_t>(expert)]++) : -1.0);
  }
}

std::int64_t expert_position_bound(const KernelContext& context) {
  return Workspace::bytes_of<std::int64_t>(
      static_cast<std::size_t>(context.attributes().integer("experts")));
}

// visit(choice, first element of its token in [G, T, h], first element of its place in
// [E, G, C, h]) for every choice whose place lies in the box of `places`.
template <typename Visit>
void for_each_choice(const KernelOperand& places, const Shape& choices, const Values& experts,
                     const Values& positions, const Visit& visit) {
  const Shape& local = places.local.shape;
  for (std::int64_t at = 0; at < choices.elements(); ++at) {
    const auto choice = static_cast<std::size_t>(at);
    const std::int64_t token = at / choices[2], group = token / choices[1];
    const std::int64_t expert = static_cast<std::int64_t>(experts[choice]) - offset_of(places, 0);
    const std::int64_t position =
        static_cast<std::int64_t>(positions[choice]) - offset_of(places, 2);
    if (expert < 0 || expert >= local[0] || position < 0 || position >= local[2]) continue;
    visit(choice, static_cast<std::size_t>(token * local[3]),
          static_cast<std::size_t>(((expert * local[1] + group) * local[2] + position) * local[3]));
  }
}

// Weight of a choice: input 3, or 1 without it.
Values load_weights(const KernelContext& context, Workspace& workspace) {
  return context.in.size() > 3 ? load_input(context, 3, workspace) : Values();
}

double weight_of(const Values& weights, std::size_t choice) {
  return weights.empty() ? 1.0 : weights[choice];
}

void moe_dispatch(const KernelContext& context, Workspace& workspace) {
  const Values x = load_input(context, 0, workspace);
  const Values weights = load_weights(context, workspace);
  const auto y = make_output(context, 0, workspace);
  const auto hidden = static_cast<std::size_t>(context.in[0].local.shape[2]);
  for_each_choice(context.out[0], context.in[1].local.shape, load_input(context, 1, workspace),
                  load_input(context, 2, workspace),
                  [&](std::size_t choice, std::size_t token, std::size_t place) {
                    for (std::size_t i = 0; i < hidden; ++i)
                      y[place + i] += weight_of(weights, choice) * x[token + i];
                  });
  store_output(context, 0, y);
}

void moe_combine(const KernelContext& context, Workspace& workspace) {
  const Values y = load_input(context, 0, workspace);
  const Values weights = load_weights(context, workspace);
  const auto x = make_output(context, 0, workspace);
  const auto hidden = static_cast<std::size_t>(context.out[0].local.shape[2]);
  for_each_choice(context.in[0], context.in[1].local.shape, load_input(context, 1, workspace),
                  load_input(context, 2, workspace),
                  [&](std::size_t choice, std::size_t token, std::size_t place) {
                    for (std::size_t i = 0; i < hidden; ++i)
                      x[token + i] += weight_of(weights, choice) * y[place + i];
                  });
  store_output(context, 0, x);
}

void moe_weight_grad(const KernelContext& context, Workspace& workspace) {
  const Values y = load_input(context, 0, workspace), d = load_input(context, 1, workspace);
  const auto dw = make_output(context, 0, workspace);
  const auto hidden = static_cast<std::size_t>(context.in[1].local.shape[2]);
  for_each_choice(context.in[0], context.in[2].local.shape, load_input(context, 2, workspace),
                  load_input(context, 3, workspace),
                  [&](std::size_t choice, std::size_t token, std::size_t place) {
                    for (std::size_t i = 0; i < hidden; ++i)
                      dw[choice] += d[token + i] * y[place + i];
                  });
  store_output(context, 0, dw);
}

}  // namespace

void add_moe_kernels(KernelTable& table) {
  table.add("top_k", top_k, nullptr, top_k_bound);
  table.add("top_k_grad", top_k_grad, nullptr, wide_outputs);
  table.add("expert_position", expert_position, nullptr, expert_position_bound);
  table.add("moe_dispatch", moe_dispatch, nullptr, wide_outputs);
  table.add("moe_combine", moe_combine, nullptr, wide_outputs);
  table.add("moe_weight_grad", moe_weight_grad, nullptr, wide_outputs);
}

}  // namespace sextant
