// The programs behind the collections.
#include "experiments/accuracy/software.h"

namespace sextant {
namespace {

// FlashAttention-2, arXiv 2307.08691, figures 4 to 6: forward and backward together reach 0.5 to
// 0.6 of the peak where cuBLAS reaches 0.8; the kernels before it, in Triton, half of that.
constexpr double kFlashAttention2 = 0.7, kFlashAttention1 = 0.4;

// Calibrated: with kernels of a microsecond, a layer of vTrain's runs on one node (forward, again
// and backward) takes 3.3 to 3.6 ms whatever its size (rows v0059 and v0102).
constexpr double kEagerLaunch = 45e-6;

// Of PyTorch's caching allocator: blocks of 512 bytes and 2 MiB, and holes between them. Assumed.
constexpr double kAllocatorShare = 0.02;

// Calibrated with row p0010 (GPT-2 xl on one H200) and p0004 (the same under DDP).
constexpr double kLossBytesPerLogit = 10, kBucketBytesPerParameter = 8.7;

}  // namespace

Software megatron_2021() {
  return {.name = "Megatron-LM before FlashAttention",
          .written_attention = true,
          .dropout = 0.1,
          .gradients = GradientType::kWide,
          .overlaps_gradients = false,
          .launch_s = kEagerLaunch,
          .allocator_share = kAllocatorShare};
}

Software megatron_core() {
  return {.name = "Megatron-Core",
          .written_attention = false,
          .dropout = 0,
          .gradients = GradientType::kWide,
          .overlaps_gradients = true,
          .attention_share = kFlashAttention2};
}

Software pytorch_fsdp() {
  return {.name = "PyTorch FSDP",
          .written_attention = false,
          .dropout = 0,
          .gradients = GradientType::kCompute,
          .overlaps_gradients = true,
          .fuses_kernels = false,
          .attention_share = kFlashAttention1,
          .allocator_share = kAllocatorShare};
}

Software pytorch_compiled() {
  return {.name = "PyTorch, compiled",
          .written_attention = false,
          .dropout = 0,
          .gradients = GradientType::kWide,
          .overlaps_gradients = true,
          .attention_share = kFlashAttention2,
          .allocator_share = kAllocatorShare,
          .loss_bytes_per_logit = kLossBytesPerLogit,
          .bucket_bytes_per_parameter = kBucketBytesPerParameter};
}

}  // namespace sextant
