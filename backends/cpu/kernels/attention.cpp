// Reference rotary positions and causal attention, whole and in the chunks of a ring, one query row
// at a time.
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/reference.h"
#include "core/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sextant {
namespace {

// Extents of q [B, Sq, H, D], k [B, Sk, KV, D] and v [B, Sk, KV, Dv], and where q and k lie: a
// query sees the keys up to its own global position and reads the key/value head of its global
// head. In chunks it sees those of its own chunk, which come from `shift` chunks before.
struct AttentionShape {
  std::int64_t batch, queries, keys, heads, kv_heads, size, value_size;
  std::int64_t first_query, first_key, first_head = 0, first_kv_head = 0;
  std::int64_t group;      // query heads per key/value head
  std::int64_t chunk = 0;  // positions; 0: the sequence is whole
  std::int64_t shift = 0;

  explicit AttentionShape(const KernelContext& context)
      : batch(context.in[0].local.shape[0]),
        queries(context.in[0].local.shape[1]),
        keys(context.in[1].local.shape[1]),
        heads(context.in[0].local.shape[2]),
        kv_heads(context.in[1].local.shape[2]),
        size(context.in[0].local.shape[3]),
        value_size(context.in[2].local.shape[3]),
        first_query(offset_of(context.in[0], 1)),
        first_key(offset_of(context.in[1], 1)),
        group(context.attributes().integer_or("group", kv_heads > 0 ? heads / kv_heads : 1)),
        chunk(context.attributes().integer_or("chunk", 0)),
        shift(context.attributes().integer_or("shift", 0)) {
    if (context.attributes().contains("group")) {
      first_head = offset_of(context.in[0], 2);
      first_kv_head = offset_of(context.in[1], 2);
    }
    if (heads == 0) return;
    require(group > 0 && kv_head_of(0) >= 0 && kv_head_of(heads - 1) < kv_heads,
            ErrorCode::kInternal,
            "query heads from {} on, {} of them, read other key/value heads than the {} from {} on",
            first_head, heads, kv_heads, first_kv_head);
  }

  std::int64_t kv_head_of(std::int64_t head) const {
    return (first_head + head) / group - first_kv_head;
  }
  // The keys here that a query sees.
  Interval seen(std::int64_t s) const {
    const std::int64_t position = first_query + s;
    if (chunk == 0) return keys_here(0, position + 1);
    const std::int64_t number = position / chunk;
    if (number < shift) return {};
    return keys_here(number * chunk, shift == 0 ? position + 1 : (number + 1) * chunk);
  }
  // Of the global positions [begin, end).
  Interval keys_here(std::int64_t begin, std::int64_t end) const {
    const std::int64_t from = std::clamp<std::int64_t>(begin - first_key, 0, keys);
    return {from, std::clamp<std::int64_t>(end - first_key, from, keys) - from};
  }
  std::size_t row(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return static_cast<std::size_t>((b * queries + s) * heads + h);
  }
  std::size_t query(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return row(b, s, h) * static_cast<std::size_t>(size);
  }
  std::size_t output(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return row(b, s, h) * static_cast<std::size_t>(value_size);
  }
  std::size_t key_row(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return static_cast<std::size_t>((b * keys + s) * kv_heads + h);
  }
  std::size_t key(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return key_row(b, s, h) * static_cast<std::size_t>(size);
  }
  std::size_t value(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return key_row(b, s, h) * static_cast<std::size_t>(value_size);
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
      for (std::int64_t s = 0; s < shape.queries; ++s) visit(b, s, h);
}

void attention(const KernelContext& context, Workspace& workspace) {
  const AttentionShape shape(context);
  const double scale = scale_of(context, shape.size);
  const Values q = load_input(context, 0, workspace);
  const Values k = load_input(context, 1, workspace);
  const Values v = load_input(context, 2, workspace);
  const auto o = make_output(context, 0, workspace);
  const auto lse = make_output(context, 1, workspace);
  const auto scores = workspace.take<double>(static_cast<std::size_t>(shape.keys));
  for_each_query(shape, [&](std::int64_t b, std::int64_t s, std::int64_t h) {
    const std::int64_t kv = shape.kv_head_of(h);
    const Interval seen = shape.seen(s);
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t t = seen.offset; t < seen.end(); ++t) {
      double& score = scores[static_cast<std::size_t>(t)];
      score = scale * dot(q, shape.query(b, s, h), k, shape.key(b, t, kv), shape.size);
      largest = std::max(largest, score);
    }
    double sum = 0.0;
    for (std::int64_t t = seen.offset; t < seen.end(); ++t) {
      double& score = scores[static_cast<std::size_t>(t)];
      score = std::exp(score - largest);
      sum += score;
    }
    for (std::int64_t t = seen.offset; t < seen.end(); ++t) {
      const double p = scores[static_cast<std::size_t>(t)] / sum;
      for (std::size_t d = 0; d < static_cast<std::size_t>(shape.value_size); ++d)
        o[shape.output(b, s, h) + d] += p * v[shape.value(b, t, kv) + d];
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
    const std::size_t row = shape.query(b, s, h), output = shape.output(b, s, h);
    const double delta = dot(d_o, output, o, output, shape.value_size);
    const Interval seen = shape.seen(s);
    for (std::int64_t t = seen.offset; t < seen.end(); ++t) {
      const std::size_t column = shape.key(b, t, kv), value = shape.value(b, t, kv);
      const double p =
          std::exp(scale * dot(q, row, k, column, shape.size) - lse[shape.row(b, s, h)]);
      const double ds = p * (dot(d_o, output, v, value, shape.value_size) - delta);
      for (std::size_t d = 0; d < static_cast<std::size_t>(shape.size); ++d) {
        dq[row + d] += scale * ds * k[column + d];
        dk[column + d] += scale * ds * q[row + d];
      }
      for (std::size_t d = 0; d < static_cast<std::size_t>(shape.value_size); ++d)
        dv[value + d] += p * d_o[output + d];
    }
  });
  store_output(context, 0, dq, workspace);
  store_output(context, 1, dk, workspace);
  store_output(context, 2, dv, workspace);
}

// Two sets of keys, each row by its share of the sum of both; one that has seen nothing has none.
void attention_merge(const KernelContext& context, Workspace& workspace) {
  const Values a = load_input(context, 0, workspace), lse_a = load_input(context, 1, workspace);
  const Values b = load_input(context, 2, workspace), lse_b = load_input(context, 3, workspace);
  const auto o = make_output(context, 0, workspace);
  const auto lse = make_output(context, 1, workspace);
  const std::size_t size = lse.empty() ? 0 : o.size() / lse.size();
  for (std::size_t row = 0; row < lse.size(); ++row) {
    const double largest = std::max(lse_a[row], lse_b[row]);
    lse[row] = largest;
    if (largest == -std::numeric_limits<double>::infinity()) continue;
    const double share_a = std::exp(lse_a[row] - largest), share_b = std::exp(lse_b[row] - largest);
    const double sum = share_a + share_b;
    lse[row] = largest + std::log(sum);
    for (std::size_t i = row * size; i < (row + 1) * size; ++i)
      o[i] = (share_a * a[i] + share_b * b[i]) / sum;
  }
  store_output(context, 0, o, workspace);
  store_output(context, 1, lse, workspace);
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
  table.add("attention_chunks", attention);
  table.add("attention_chunks_grad", attention_grad);
  table.add("attention_merge", attention_merge);
  table.add("rope", rope);
}

}  // namespace sextant
