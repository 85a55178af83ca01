// The operator families: each adds its kinds to a registry; most are one file of a room here.
#pragma once

namespace sextant {

class OperatorRegistry;

void add_sources(OperatorRegistry& registry);
void add_matmul(OperatorRegistry& registry);
void add_batch_matmul(OperatorRegistry& registry);
void add_scaled_matmul(OperatorRegistry& registry);
void add_unary(OperatorRegistry& registry);
void add_activation(OperatorRegistry& registry);
void add_cast(OperatorRegistry& registry);
void add_quantize(OperatorRegistry& registry);
void add_normalize_images(OperatorRegistry& registry);
void add_binary(OperatorRegistry& registry);
void add_compare(OperatorRegistry& registry);
void add_bias(OperatorRegistry& registry);
void add_normalization(OperatorRegistry& registry);
void add_norm_pieces(OperatorRegistry& registry);
void add_rope(OperatorRegistry& registry);
void add_attention(OperatorRegistry& registry);
void add_attention_chunks(OperatorRegistry& registry);
void add_class_sample(OperatorRegistry& registry);
void add_dropout(OperatorRegistry& registry);
void add_conv(OperatorRegistry& registry);
void add_pool(OperatorRegistry& registry);
void add_moe(OperatorRegistry& registry);
void add_embedding(OperatorRegistry& registry);
void add_shapes(OperatorRegistry& registry);
void add_concat(OperatorRegistry& registry);
void add_roll(OperatorRegistry& registry);
void add_index(OperatorRegistry& registry);
void add_boxing(OperatorRegistry& registry);
void add_loss(OperatorRegistry& registry);
void add_softmax(OperatorRegistry& registry);
void add_scan(OperatorRegistry& registry);
void add_arg_reduce(OperatorRegistry& registry);
void add_reduce(OperatorRegistry& registry);
void add_optimizer(OperatorRegistry& registry);
void add_running_statistic(OperatorRegistry& registry);

}  // namespace sextant
