// Reference rotary positions and attention, whole and in the chunks of a ring, one query row
// of one head at a time.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "core/base/check.h"
#include "core/operators/layers/rotary_attributes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sextant {
namespace {

// Extents of q [B, Sq, H, D], k [B, Sk, KV, D] and v [B, Sk, KV, Dv], and where q and k lie: a
// query sees the keys up to its own global position, all of them without `causal`, and reads the
// key/value head of its global head. In chunks it sees those of its own chunk, which come from
// `shift` chunks before.
struct AttentionShape {
  std::int64_t batch, queries, keys, heads, kv_heads, size, value_size;
  std::int64_t first_query, first_key, first_head = 0, first_kv_head = 0;
  std::int64_t group;      // query heads per key/value head
  std::int64_t chunk = 0;  // positions; 0: the sequence is whole
  std::int64_t shift = 0;
  bool causal;

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
        shift(context.attributes().integer_or("shift", 0)),
        causal(context.attributes().boolean_or("causal", true)) {
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
    if (chunk == 0) return causal ? keys_here(0, position + 1) : Interval{0, keys};
    const std::int64_t number = position / chunk;
    if (causal && number < shift) return {};
    const bool sees_all = !causal || shift != 0;
    return keys_here(number * chunk, sees_all ? (number + 1) * chunk : position + 1);
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

// Rows of one head in double: what every query of the head reads is widened once.
class HeadRows {
 public:
  HeadRows(std::int64_t rows, std::int64_t width, Workspace& workspace)
      : values_(workspace.take<double>(static_cast<std::size_t>(rows * width))),
        width_(static_cast<std::size_t>(width)) {}

  std::span<double> row(std::int64_t index) const {
    return values_.subspan(static_cast<std::size_t>(index) * width_, width_);
  }
  void clear() const { std::fill(values_.begin(), values_.end(), 0.0); }
  // Row `index` from and to element `at` of a tensor.
  void load(std::int64_t index, const Values& from, std::size_t at) const {
    for (std::size_t d = 0; d < width_; ++d) row(index)[d] = from[at + d];
  }
  void store(std::int64_t index, const Output& to, std::size_t at) const {
    for (std::size_t d = 0; d < width_; ++d) to.put(at + d, row(index)[d]);
  }

 private:
  std::span<double> values_;
  std::size_t width_;
};

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double factor, std::span<const double> from, std::span<double> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

// begin(b, kv) before the query heads that read a key/value head, visit(b, h, kv) for each of them,
// end(b, kv) behind. Key/value heads that none of the local query heads reads are visited too.
template <typename Begin, typename Visit, typename End>
void for_each_head(const AttentionShape& shape, const Begin& begin, const Visit& visit,
                   const End& end) {
  for (std::int64_t b = 0; b < shape.batch; ++b)
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      begin(b, kv);
      for (std::int64_t h = 0; h < shape.heads; ++h)
        if (shape.kv_head_of(h) == kv) visit(b, h);
      end(b, kv);
    }
}

// Of the keys and values of one head.
std::int64_t head_bound(const AttentionShape& shape) {
  const auto rows = [&](std::int64_t width) {
    return Workspace::bytes_of<double>(static_cast<std::size_t>(shape.keys * width));
  };
  return rows(shape.size) + rows(shape.value_size);
}

std::int64_t row_bound(std::int64_t width) {
  return Workspace::bytes_of<double>(static_cast<std::size_t>(width));
}

std::int64_t attention_bound(const KernelContext& context) {
  const AttentionShape shape(context);
  return head_bound(shape) + row_bound(shape.keys) + row_bound(shape.size) +
         row_bound(shape.value_size);
}

std::int64_t attention_grad_bound(const KernelContext& context) {
  const AttentionShape shape(context);
  return 2 * head_bound(shape) + 2 * row_bound(shape.size) + 2 * row_bound(shape.value_size);
}

void attention(const KernelContext& context, Workspace& workspace) {
  const AttentionShape shape(context);
  const double scale = scale_of(context, shape.size);
  const Values q = load_input(context, 0, workspace);
  const Values k = load_input(context, 1, workspace);
  const Values v = load_input(context, 2, workspace);
  const Output o(context, 0), lse(context, 1);
  const HeadRows keys(shape.keys, shape.size, workspace);
  const HeadRows values(shape.keys, shape.value_size, workspace);
  const HeadRows query(1, shape.size, workspace), result(1, shape.value_size, workspace);
  const auto scores = workspace.take<double>(static_cast<std::size_t>(shape.keys));
  const auto attend = [&](std::int64_t b, std::int64_t s, std::int64_t h) {
    const Interval seen = shape.seen(s);
    query.load(0, q, shape.query(b, s, h));
    result.clear();
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t t = seen.offset; t < seen.end(); ++t) {
      double& score = scores[static_cast<std::size_t>(t)];
      score = scale * dot(query.row(0), keys.row(t));
      largest = std::max(largest, score);
    }
    double sum = 0.0;
    for (std::int64_t t = seen.offset; t < seen.end(); ++t) {
      double& score = scores[static_cast<std::size_t>(t)];
      score = std::exp(score - largest);
      sum += score;
    }
    for (std::int64_t t = seen.offset; t < seen.end(); ++t)
      add_scaled(scores[static_cast<std::size_t>(t)] / sum, values.row(t), result.row(0));
    result.store(0, o, shape.output(b, s, h));
    lse.put(shape.row(b, s, h), largest + std::log(sum));
  };
  for_each_head(
      shape,
      [&](std::int64_t b, std::int64_t kv) {
        for (std::int64_t t = 0; t < shape.keys; ++t) {
          keys.load(t, k, shape.key(b, t, kv));
          values.load(t, v, shape.value(b, t, kv));
        }
      },
      [&](std::int64_t b, std::int64_t h) {
        for (std::int64_t s = 0; s < shape.queries; ++s) attend(b, s, h);
      },
      [](std::int64_t, std::int64_t) {});
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
  const Output dq(context, 0), dk(context, 1), dv(context, 2);
  const HeadRows keys(shape.keys, shape.size, workspace), d_keys(shape.keys, shape.size, workspace);
  const HeadRows values(shape.keys, shape.value_size, workspace);
  const HeadRows d_values(shape.keys, shape.value_size, workspace);
  const HeadRows query(1, shape.size, workspace), d_query(1, shape.size, workspace);
  const HeadRows result(1, shape.value_size, workspace), d_result(1, shape.value_size, workspace);
  const auto add_query = [&](std::int64_t b, std::int64_t s, std::int64_t h) {
    query.load(0, q, shape.query(b, s, h));
    result.load(0, o, shape.output(b, s, h));
    d_result.load(0, d_o, shape.output(b, s, h));
    d_query.clear();
    const double delta = dot(d_result.row(0), result.row(0));
    const Interval seen = shape.seen(s);
    for (std::int64_t t = seen.offset; t < seen.end(); ++t) {
      const double p = std::exp(scale * dot(query.row(0), keys.row(t)) - lse[shape.row(b, s, h)]);
      const double ds = p * (dot(d_result.row(0), values.row(t)) - delta);
      add_scaled(scale * ds, keys.row(t), d_query.row(0));
      add_scaled(scale * ds, query.row(0), d_keys.row(t));
      add_scaled(p, d_result.row(0), d_values.row(t));
    }
    d_query.store(0, dq, shape.query(b, s, h));
  };
  for_each_head(
      shape,
      [&](std::int64_t b, std::int64_t kv) {
        d_keys.clear();
        d_values.clear();
        for (std::int64_t t = 0; t < shape.keys; ++t) {
          keys.load(t, k, shape.key(b, t, kv));
          values.load(t, v, shape.value(b, t, kv));
        }
      },
      [&](std::int64_t b, std::int64_t h) {
        for (std::int64_t s = 0; s < shape.queries; ++s) add_query(b, s, h);
      },
      [&](std::int64_t b, std::int64_t kv) {
        for (std::int64_t t = 0; t < shape.keys; ++t) {
          d_keys.store(t, dk, shape.key(b, t, kv));
          d_values.store(t, dv, shape.value(b, t, kv));
        }
      });
}

// Two sets of keys, each row by its share of the sum of both; one that has seen nothing has none.
void attention_merge(const KernelContext& context, Workspace& workspace) {
  const Values a = load_input(context, 0, workspace), lse_a = load_input(context, 1, workspace);
  const Values b = load_input(context, 2, workspace), lse_b = load_input(context, 3, workspace);
  const Output o(context, 0), lse(context, 1);
  const std::size_t size = lse.size() == 0 ? 0 : o.size() / lse.size();
  for (std::size_t row = 0; row < lse.size(); ++row) {
    const double largest = std::max(lse_a[row], lse_b[row]);
    const bool has_seen = largest != -std::numeric_limits<double>::infinity();
    const double share_a = has_seen ? std::exp(lse_a[row] - largest) : 0.0;
    const double share_b = has_seen ? std::exp(lse_b[row] - largest) : 0.0;
    const double sum = share_a + share_b;
    lse.put(row, has_seen ? largest + std::log(sum) : largest);
    for (std::size_t i = row * size; i < (row + 1) * size; ++i)
      o.put(i, has_seen ? (share_a * a[i] + share_b * b[i]) / sum : 0.0);
  }
}

void rope(const KernelContext& context, Workspace& workspace) {
  const double theta = context.attributes().real("theta");
  const RotaryScaling scaling = rotary_scaling(context.attributes());
  const double sign = context.attributes().boolean_or("inverse", false) ? -1.0 : 1.0;
  const Shape& shape = context.in[0].local.shape;
  const std::int64_t size = shape[3];
  const std::int64_t first = offset_of(context.in[0], 1);
  const Values x = load_input(context, 0, workspace);
  const Output y(context, 0);
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t s = 0; s < shape[1]; ++s) {
      for (std::int64_t i = 0; i < size / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(size);
        const double angle =
            sign * static_cast<double>(first + s) * scaling.scaled(std::pow(theta, exponent));
        for (std::int64_t h = 0; h < shape[2]; ++h) {
          const std::int64_t at = ((b * shape[1] + s) * shape[2] + h) * size + i;
          const auto low = static_cast<std::size_t>(at);
          const auto high = static_cast<std::size_t>(at + size / 2);
          y.put(low, x[low] * std::cos(angle) - x[high] * std::sin(angle));
          y.put(high, x[high] * std::cos(angle) + x[low] * std::sin(angle));
        }
      }
    }
  }
}

}  // namespace

void add_attention_kernels(KernelTable& table) {
  table.add("attention", attention, nullptr, attention_bound);
  table.add("attention_grad", attention_grad, nullptr, attention_grad_bound);
  table.add("attention_chunks", attention, nullptr, attention_bound);
  table.add("attention_chunks_grad", attention_grad, nullptr, attention_grad_bound);
  table.add("attention_merge", attention_merge);
  table.add("rope", rope);
}

}  // namespace sextant
