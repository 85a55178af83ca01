// Attention in f32 through small matrix products: a block of query rows against the keys it
// can see, scores never larger than block x sequence. Heads are read in place, with strides.
#include "backends/cpu/kernels/fast/clones.h"
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/gemm.h"
#include "backends/cpu/kernels/shared/families.h"
#include "core/operators/layers/rotary_attributes.h"

#include <cmath>

namespace sextant {
namespace {

constexpr std::int64_t kBlockRows = 64;

struct AttentionCall {
  std::int64_t batch, sequence, heads, kv_heads, size;
  float scale;
  bool causal;

  explicit AttentionCall(const KernelContext& context)
      : batch(context.in[0].local.shape[0]),
        sequence(context.in[0].local.shape[1]),
        heads(context.in[0].local.shape[2]),
        kv_heads(context.in[1].local.shape[2]),
        size(context.in[0].local.shape[3]),
        scale(static_cast<float>(
            context.attributes().real_or("scale", 1.0 / std::sqrt(static_cast<double>(size))))),
        causal(context.attributes().boolean_or("causal", true)) {}

  std::int64_t query_stride() const { return heads * size; }
  std::int64_t key_stride() const { return kv_heads * size; }
};

// One block of query rows of one head: [first, first + rows), which see keys [0, keys).
struct QueryBlock {
  std::int64_t batch, head, kv_head, first, rows, keys;

  // Keys that a row sees.
  std::int64_t visible(const AttentionCall& call, std::int64_t row) const {
    return call.causal ? first + row + 1 : keys;
  }

  std::int64_t query(const AttentionCall& call) const {
    return ((batch * call.sequence + first) * call.heads + head) * call.size;
  }
  std::int64_t key(const AttentionCall& call) const {
    return (batch * call.sequence * call.kv_heads + kv_head) * call.size;
  }
  std::int64_t statistic(const AttentionCall& call, std::int64_t row) const {
    return (batch * call.sequence + first + row) * call.heads + head;
  }
};

// visit(block, thread) for all blocks: a piece is what reads one head of keys in one sample, in
// order, so that nobody else adds to its gradients.
template <typename Visit>
void for_each_block(const AttentionCall& call, Workspace& workspace, const Visit& visit) {
  if (call.kv_heads == 0) return;
  const std::int64_t group = call.heads / call.kv_heads;
  workspace.run(call.batch * call.kv_heads, [&](std::int64_t piece, std::int64_t thread) {
    const std::int64_t kv_head = piece % call.kv_heads;
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
      for (std::int64_t s = 0; s < call.sequence; s += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, call.sequence - s);
        visit(QueryBlock{piece / call.kv_heads, h, kv_head, s, rows,
                         call.causal ? s + rows : call.sequence},
              thread);
      }
  });
}

// Rows of scores to probabilities, zero beyond what the row sees; returns log sum exp of the row.
SEXTANT_CLONES float softmax_row(float* row, std::int64_t visible, std::int64_t keys) {
  const float largest = lane_max(row, visible);
  for (std::int64_t t = 0; t < visible; ++t) row[t] = fast_exp(row[t] - largest);
  const float sum = lane_sum(visible, [&](std::int64_t t) { return row[t]; });
  const float factor = 1.0F / sum;
  for (std::int64_t t = 0; t < visible; ++t) row[t] *= factor;
  std::fill(row + visible, row + keys, 0.0F);
  return largest + std::log(sum);
}

void attention(const KernelContext& context, Workspace& workspace) {
  const AttentionCall call(context);
  const float* q = input<float>(context, 0);
  const float* k = input<float>(context, 1);
  const float* v = input<float>(context, 2);
  float* o = output<float>(context, 0);
  float* lse = output<float>(context, 1);
  const std::int64_t block_size = kBlockRows * call.sequence;
  float* const all_scores =
      workspace.take<float>(static_cast<std::size_t>(workspace.threads() * block_size)).data();
  for_each_block(call, workspace, [&](const QueryBlock& block, std::int64_t thread) {
    float* const scores = all_scores + thread * block_size;
    const std::int64_t keys = block.keys;
    const std::int64_t at_query = block.query(call), at_key = block.key(call);
    gemm(block.rows, keys, call.size, call.scale, {q + at_query, call.query_stride(), false},
         {k + at_key, call.key_stride(), true}, 0.0F, scores, keys);
    for (std::int64_t row = 0; row < block.rows; ++row)
      lse[block.statistic(call, row)] =
          softmax_row(scores + row * keys, block.visible(call, row), keys);
    gemm(block.rows, call.size, keys, 1.0F, {scores, keys, false},
         {v + at_key, call.key_stride(), false}, 0.0F, o + at_query, call.query_stride());
  });
}

struct AttentionGrad {
  const float *q, *k, *v, *o, *lse, *d_o;
  float *dq, *dk, *dv;
  float *p, *ds;  // [kBlockRows, keys]
};

// A row of scores and d_o.v to p and ds, in place, zero beyond what it sees.
SEXTANT_CLONES void softmax_grad_row(float* p, float* ds, float lse, float delta,
                                     std::int64_t visible, std::int64_t keys) {
#pragma GCC ivdep
  for (std::int64_t t = 0; t < visible; ++t) {
    p[t] = fast_exp(p[t] - lse);
    ds[t] = p[t] * (ds[t] - delta);
  }
  std::fill(p + visible, p + keys, 0.0F);
  std::fill(ds + visible, ds + keys, 0.0F);
}

SEXTANT_CLONES float dot(const float* a, const float* b, std::int64_t count) {
  return lane_sum(count, [&](std::int64_t i) { return a[i] * b[i]; });
}

void softmax_grad(const AttentionCall& call, const QueryBlock& block, const AttentionGrad& grad) {
  const std::int64_t keys = block.keys;
  for (std::int64_t row = 0; row < block.rows; ++row) {
    const std::int64_t at = block.query(call) + row * call.query_stride();
    softmax_grad_row(grad.p + row * keys, grad.ds + row * keys,
                     grad.lse[block.statistic(call, row)],
                     dot(grad.d_o + at, grad.o + at, call.size), block.visible(call, row), keys);
  }
}

void block_grad(const AttentionCall& call, const QueryBlock& block, const AttentionGrad& grad) {
  const std::int64_t keys = block.keys, rows = block.rows, size = call.size;
  const std::int64_t query_stride = call.query_stride(), key_stride = call.key_stride();
  const std::int64_t at_query = block.query(call), at_key = block.key(call);
  gemm(rows, keys, size, call.scale, {grad.q + at_query, query_stride, false},
       {grad.k + at_key, key_stride, true}, 0.0F, grad.p, keys);
  gemm(rows, keys, size, 1.0F, {grad.d_o + at_query, query_stride, false},
       {grad.v + at_key, key_stride, true}, 0.0F, grad.ds, keys);
  softmax_grad(call, block, grad);
  gemm(keys, size, rows, 1.0F, {grad.p, keys, true}, {grad.d_o + at_query, query_stride, false},
       1.0F, grad.dv + at_key, key_stride);
  gemm(keys, size, rows, call.scale, {grad.ds, keys, true},
       {grad.q + at_query, query_stride, false}, 1.0F, grad.dk + at_key, key_stride);
  gemm(rows, size, keys, call.scale, {grad.ds, keys, false}, {grad.k + at_key, key_stride, false},
       1.0F, grad.dq + at_query, query_stride);
}

void attention_grad(const KernelContext& context, Workspace& workspace) {
  const AttentionCall call(context);
  const std::int64_t block_size = kBlockRows * call.sequence;
  float* const blocks =
      workspace.take<float>(static_cast<std::size_t>(2 * workspace.threads() * block_size)).data();
  const AttentionGrad grad{input<float>(context, 0),
                           input<float>(context, 1),
                           input<float>(context, 2),
                           input<float>(context, 3),
                           input<float>(context, 4),
                           input<float>(context, 5),
                           output<float>(context, 0),
                           output<float>(context, 1),
                           output<float>(context, 2),
                           nullptr,
                           nullptr};
  for (std::size_t i = 0; i < 3; ++i)
    std::fill_n(output<float>(context, i), elements(context.out[i]), 0.0F);
  for_each_block(call, workspace, [&](const QueryBlock& block, std::int64_t thread) {
    AttentionGrad own = grad;
    own.p = blocks + 2 * thread * block_size;
    own.ds = own.p + block_size;
    block_grad(call, block, own);
  });
}

// cos and sin are the same for all heads and samples: computed once per position.
void rope(const KernelContext& context, Workspace& workspace) {
  const double theta = context.attributes().real("theta");
  const RotaryScaling scaling = rotary_scaling(context.attributes());
  const double sign = context.attributes().boolean_or("inverse", false) ? -1.0 : 1.0;
  const Shape& shape = context.in[0].local.shape;
  const std::int64_t half = shape[3] / 2;
  const std::int64_t first = context.in[0].box.dims[1].offset;
  float* cosine = workspace.take<float>(static_cast<std::size_t>(half)).data();
  float* sine = workspace.take<float>(static_cast<std::size_t>(half)).data();
  for (std::int64_t s = 0; s < shape[1]; ++s) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double exponent = -static_cast<double>(i) / static_cast<double>(half);
      const double angle =
          sign * static_cast<double>(first + s) * scaling.scaled(std::pow(theta, exponent));
      cosine[i] = static_cast<float>(std::cos(angle));
      sine[i] = static_cast<float>(std::sin(angle));
    }
    for (std::int64_t b = 0; b < shape[0]; ++b) {
      for (std::int64_t h = 0; h < shape[2]; ++h) {
        const std::int64_t at = ((b * shape[1] + s) * shape[2] + h) * shape[3];
        const float* x = input<float>(context, 0) + at;
        float* y = output<float>(context, 0) + at;
        for (std::int64_t i = 0; i < half; ++i) {
          const float low = x[i], high = x[i + half];
          y[i] = low * cosine[i] - high * sine[i];
          y[i + half] = high * cosine[i] + low * sine[i];
        }
      }
    }
  }
}

std::int64_t rope_bound(const KernelContext& context) {
  return 2 * Workspace::bytes_of<float>(static_cast<std::size_t>(context.in[0].local.shape[3] / 2));
}

// Of so many blocks of scores.
template <int kBlocks>
std::int64_t scores_bound(const KernelContext& context) {
  const std::int64_t sequence = context.in[0].local.shape[1];
  return Workspace::bytes_of<float>(static_cast<std::size_t>(kBlocks * kBlockRows * sequence));
}

// The same positions in q and k, whole groups of heads, values as wide as keys: what the blocks
// assume. Other shards are left to the reference.
bool covers_attention(const KernelContext& context) {
  if (!overwrites_f32(context)) return false;
  const KernelOperand &q = context.in[0], &k = context.in[1], &v = context.in[2];
  const std::int64_t group = context.attributes().integer_or("group", 0);
  const Interval heads = q.box.dims[2], kv_heads = k.box.dims[2];
  const bool has_whole_groups = group == 0 || (heads.offset == kv_heads.offset * group &&
                                               heads.extent == kv_heads.extent * group);
  return q.box.dims[1] == k.box.dims[1] && has_whole_groups && v.local == k.local;
}

}  // namespace

void add_fast_attention_kernels(KernelTable& table) {
  table.add("rope", rope, overwrites_f32, rope_bound);
  if (!has_gemm()) return;
  table.add("attention", attention, covers_attention, nullptr, scores_bound<1>);
  table.add("attention_grad", attention_grad, covers_attention, nullptr, scores_bound<2>);
}

}  // namespace sextant
