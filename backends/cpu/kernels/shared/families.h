// One function per kernel family: each adds its kinds to a table. The fast families are added over
// the reference ones and take what they do not cover from there.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"

namespace sextant {

void add_matmul_kernels(KernelTable& table);
void add_quantize_kernels(KernelTable& table);
void add_normalize_images_kernels(KernelTable& table);
void add_elementwise_kernels(KernelTable& table);
void add_unary_kernels(KernelTable& table);
void add_binary_kernels(KernelTable& table);
void add_normalization_kernels(KernelTable& table);
void add_norm_piece_kernels(KernelTable& table);
void add_attention_kernels(KernelTable& table);
void add_class_sample_kernels(KernelTable& table);
void add_dropout_kernels(KernelTable& table);
void add_conv_kernels(KernelTable& table);
void add_pool_kernels(KernelTable& table);
void add_moe_kernels(KernelTable& table);
void add_embedding_kernels(KernelTable& table);
void add_shape_kernels(KernelTable& table);
void add_concat_kernels(KernelTable& table);
void add_index_kernels(KernelTable& table);
void add_loss_kernels(KernelTable& table);
void add_reduce_kernels(KernelTable& table);
void add_softmax_kernels(KernelTable& table);
void add_scan_kernels(KernelTable& table);
void add_arg_reduce_kernels(KernelTable& table);
void add_optimizer_kernels(KernelTable& table);
void add_running_statistic_kernels(KernelTable& table);
void add_update_control_kernels(KernelTable& table);
void add_source_kernels(KernelTable& table);
void add_boxing_kernels(KernelTable& table);

void add_fast_matmul_kernels(KernelTable& table);
void add_fast_elementwise_kernels(KernelTable& table);
void add_fast_normalization_kernels(KernelTable& table);
void add_fast_attention_kernels(KernelTable& table);
void add_fast_class_sample_kernels(KernelTable& table);
void add_fast_embedding_kernels(KernelTable& table);
void add_fast_loss_kernels(KernelTable& table);
void add_fast_optimizer_kernels(KernelTable& table);
void add_fast_conv_kernels(KernelTable& table);
void add_fast_normalize_images_kernels(KernelTable& table);
void add_fast_pool_kernels(KernelTable& table);
void add_fast_reduce_kernels(KernelTable& table);
void add_fast_norm_piece_kernels(KernelTable& table);

}  // namespace sextant
