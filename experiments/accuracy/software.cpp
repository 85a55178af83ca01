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

// Calibrated with row p0004 (GPT-2 xl under DDP on two H200).
constexpr double kBucketBytesPerParameter = 8.7;

}  // namespace

Software megatron_2021() {
  return {.name = "Megatron-LM before FlashAttention",
          .written_attention = true,
          .dropout = 0.1,
          .gradients = GradientType::kWide,
          .overlaps_gradients = false,
          .repeats_whole_layers = true,
          .launch_s = kEagerLaunch,
          .allocator_share = kAllocatorShare};
}

Software megatron_core() {
  return {.name = "Megatron-Core",
          .written_attention = false,
          .dropout = 0,
          .gradients = GradientType::kWide,
          .overlaps_gradients = true,
          .repeats_whole_layers = true,
          .attention_share = kFlashAttention2};
}

// Its checkpoints end a repetition with the last tensor that backward wants.
Software pytorch_fsdp() {
  return {.name = "PyTorch FSDP",
          .written_attention = false,
          .dropout = 0,
          .gradients = GradientType::kCompute,
          .overlaps_gradients = true,
          .fuses_kernels = false,
          .written_loss = true,
          .attention_share = kFlashAttention1,
          .allocator_share = kAllocatorShare};
}

// pytorch/torchtitan of December 2024: parameters gathered in bf16, gradients reduced in f32, and
// `max_reserved` of the allocator in its log (torchtitan/metrics.py).
Software torchtitan() {
  return {.name = "torchtitan",
          .written_attention = false,
          .dropout = 0,
          .gradients = GradientType::kWide,
          .overlaps_gradients = true,
          .fuses_kernels = false,
          .written_loss = true,
          .attention_share = kFlashAttention2,
          .counted = Software::Counted::kReserved,
          .gathers_units = true};
}

// ../peers/torch_gpt.py prints `torch.cuda.max_memory_allocated`.
Software pytorch_compiled() {
  return {.name = "PyTorch, compiled",
          .written_attention = false,
          .dropout = 0,
          .gradients = GradientType::kWide,
          .overlaps_gradients = true,
          .written_loss = true,
          .attention_share = kFlashAttention2,
          .counted = Software::Counted::kAllocated,
          .gathers_units = true,
          .bucket_bytes_per_parameter = kBucketBytesPerParameter};
}

Software pytorch_pipelined() {
  Software software = pytorch_compiled();
  software.name = "PyTorch, compiled, pipelined";
  software.gradients = GradientType::kCompute;
  software.is_all_in_compute_type = true;
  software.collects_outputs = true;
  return software;
}

std::string_view to_string(Software::Counted counted) {
  switch (counted) {
    case Software::Counted::kArena:
      return "arena";
    case Software::Counted::kAllocated:
      return "allocated";
    case Software::Counted::kReserved:
      return "reserved";
  }
  return "arena";
}

}  // namespace sextant
