// One function per kernel family: each adds its kinds to a table.
#pragma once

namespace sextant {

class CudaKernelTable;

void add_cuda_matmul(CudaKernelTable& table);
void add_cuda_matmul_fused(CudaKernelTable& table);
void add_cuda_matmul_together(CudaKernelTable& table);
void add_cuda_quantize(CudaKernelTable& table);
void add_cuda_scaled_matmul(CudaKernelTable& table);
void add_cuda_elementwise(CudaKernelTable& table);
void add_cuda_cast(CudaKernelTable& table);
void add_cuda_normalize_images(CudaKernelTable& table);
void add_cuda_bias(CudaKernelTable& table);
void add_cuda_dropout(CudaKernelTable& table);
void add_cuda_chains(CudaKernelTable& table);
void add_cuda_lines(CudaKernelTable& table);
void add_cuda_lookup(CudaKernelTable& table);
void add_cuda_embedding(CudaKernelTable& table);
void add_cuda_loss(CudaKernelTable& table);
void add_cuda_moe(CudaKernelTable& table);
void add_cuda_movement(CudaKernelTable& table);
void add_cuda_norm(CudaKernelTable& table);
void add_cuda_reduction(CudaKernelTable& table);
void add_cuda_channels(CudaKernelTable& table);
void add_cuda_running_statistic(CudaKernelTable& table);
void add_cuda_optimizer(CudaKernelTable& table);
void add_cuda_stats(CudaKernelTable& table);
void add_cuda_updates(CudaKernelTable& table);
void add_cuda_windows(CudaKernelTable& table);
void add_cuda_attention(CudaKernelTable& table);
void add_cuda_rope(CudaKernelTable& table);

}  // namespace sextant
