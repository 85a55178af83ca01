// Reference rotary positions and causal attention, one query row at a time.
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sextant {
namespace {

// Extents of q [B, S, H, D] and k, v [B, S, KV, D].
struct AttentionShape {
  std::int64_t batch, sequence, heads, kv_heads, size;

  explicit AttentionShape(const KernelContext& context)
      : batch(context.in[0].local.shape[0]),
        sequence(context.in[0].local.shape[1]),
        heads(context.in[0].local.shape[2]),
        kv_heads(context.in[1].local.shape[2]),
        size(context.in[0].local.shape[3]) {}

  std::int64_t kv_head_of(std::int64_t head) const { return head / (heads / kv_heads); }
  std::size_t query(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return static_cast<std::size_t>(((b * sequence + s) * heads + h) * size);
  }
  std::size_t key(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return static_cast<std::size_t>(((b * sequence + s) * kv_heads + h) * size);
  }
  std::size_t row(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return static_cast<std::size_t>((b * sequence + s) * heads + h);
  }
};

double scale_of(const KernelContext& context, std::int64_t size) {
  return context.attributes().real_or("scale", 1.0 / std::sqrt(static_cast<double>(size)));
}

double dot(Values a, std::size_t at_a, Values b, std::size_t at_b, std::int64_t count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    sum += a[at_a + i] * b[at_b + i];
  return sum;
}

template <typename Visit>
void for_each_query(const AttentionShape& shape, const Visit& visit) {
  for (std::int64_t b = 0; b < shape.batch; ++b)
    for (std::int64_t h = 0; h < shape.heads; ++h)
      for (std::int64_t s = 0; s < shape.sequence; ++s) visit(b, s, h);
}

void attention(const KernelContext& context, Workspace& workspace) {
  const AttentionShape shape(context);
  const double scale = scale_of(context, shape.size);
  const Values q = load_input(context, 0, workspace);
  const Values k = load_input(context, 1, workspace);
  const Values v = load_input(context, 2, workspace);
  const auto o = make_output(context, 0, workspace);
  const auto lse = make_output(context, 1, workspace);
  const auto scores = workspace.take<double>(static_cast<std::size_t>(shape.sequence));
  for_each_query(shape, [&](std::int64_t b, std::int64_t s, std::int64_t h) {
    const std::int64_t kv = shape.kv_head_of(h);
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t t = 0; t <= s; ++t) {
      double& score = scores[static_cast<std::size_t>(t)];
      score = scale * dot(q, shape.query(b, s, h), k, shape.key(b, t, kv), shape.size);
      largest = std::max(largest, score);
    }
    double sum = 0.0;
    for (std::int64_t t = 0; t <= s; ++t) {
      double& score = scores[static_cast<std::size_t>(t)];
      score = std::exp(score - largest);
      sum += score;
    }
    for (std::int64_t t = 0; t <= s; ++t) {
      const double p = scores[static_cast<std::size_t>(t)] / sum;
      for (std::size_t d = 0; d < static_cast<std::size_t>(shape.size); ++d)
        o[shape.query(b, s, h) + d] += p * v[shape.key(b, t, kv) + d];
    }
    lse[shape.row(b, s, h)] = largest + std::log(sum);
  });
  store_output(context, 0, o, workspace);
  store_output(context, 1, lse, workspace);
}

void attention_grad(const KernelContext& context, Workspace& workspace) {
  const AttentionShape shape(context);
  const double scale = scale_of(context, shape.size);
  const Values q = load_input(context, 0, workspace);
  const Values k = load_input(context, 1, workspace);
  const Values v = load_input(context, 2, workspace);
  const Values o = load_input(context, 3, workspace);
  const Values lse = load_input(context, 4, workspace);
  const Values d_o = load_input(context, 5, workspace);
  const auto dq = make_output(context, 0, workspace);
  const auto dk = make_output(context, 1, workspace);
  const auto dv = make_output(context, 2, workspace);
  for_each_query(shape, [&](std::int64_t b, std::int64_t s, std::int64_t h) {
    const std::int64_t kv = shape.kv_head_of(h);
    const std::size_t row = shape.query(b, s, h);
    const double delta = dot(d_o, row, o, row, shape.size);
    for (std::int64_t t = 0; t <= s; ++t) {
      const std::size_t column = shape.key(b, t, kv);
      const double p =
          std::exp(scale * dot(q, row, k, column, shape.size) - lse[shape.row(b, s, h)]);
      const double ds = p * (dot(d_o, row, v, column, shape.size) - delta);
      for (std::size_t d = 0; d < static_cast<std::size_t>(shape.size); ++d) {
        dq[row + d] += scale * ds * k[column + d];
        dk[column + d] += scale * ds * q[row + d];
        dv[column + d] += p * d_o[row + d];
      }
    }
  });
  store_output(context, 0, dq, workspace);
  store_output(context, 1, dk, workspace);
  store_output(context, 2, dv, workspace);
}

void rope(const KernelContext& context, Workspace& workspace) {
  const double theta = context.attributes().real("theta");
  const double sign = context.attributes().boolean_or("inverse", false) ? -1.0 : 1.0;
  const Shape& shape = context.in[0].local.shape;
  const std::int64_t size = shape[3];
  const std::int64_t first = offset_of(context.in[0], 1);
  const Values x = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t s = 0; s < shape[1]; ++s) {
      for (std::int64_t i = 0; i < size / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(size);
        const double angle = sign * static_cast<double>(first + s) * std::pow(theta, exponent);
        for (std::int64_t h = 0; h < shape[2]; ++h) {
          const std::int64_t at = ((b * shape[1] + s) * shape[2] + h) * size + i;
          const auto low = static_cast<std::size_t>(at);
          const auto high = static_cast<std::size_t>(at + size / 2);
          y[low] = x[low] * std::cos(angle) - x[high] * std::sin(angle);
          y[high] = x[high] * std::cos(angle) + x[low] * std::sin(angle);
        }
      }
    }
  }
  store_output(context, 0, y, workspace);
}

}  // namespace

void add_attention_kernels(KernelTable& table) {
  table.add("attention", attention);
  table.add("attention_grad", attention_grad);
  table.add("rope", rope);
}

}  // namespace sextant
