// The registry of all families.
#include "core/graphs/operator.h"
#include "core/operators/families.h"

namespace sextant {

const OperatorRegistry& builtin_operators() {
  static const OperatorRegistry registry = [] {
    OperatorRegistry built;
    add_sources(built);
    add_matmul(built);
    add_batch_matmul(built);
    add_scaled_matmul(built);
    add_unary(built);
    add_activation(built);
    add_cast(built);
    add_quantize(built);
    add_normalize_images(built);
    add_binary(built);
    add_compare(built);
    add_bias(built);
    add_normalization(built);
    add_norm_pieces(built);
    add_rope(built);
    add_attention(built);
    add_attention_chunks(built);
    add_class_sample(built);
    add_dropout(built);
    add_conv(built);
    add_pool(built);
    add_moe(built);
    add_embedding(built);
    add_shapes(built);
    add_concat(built);
    add_roll(built);
    add_index(built);
    add_boxing(built);
    add_loss(built);
    add_reduce(built);
    add_softmax(built);
    add_scan(built);
    add_arg_reduce(built);
    add_optimizer(built);
    add_running_statistic(built);
    return built;
  }();
  return registry;
}

}  // namespace sextant
