// The programs behind the collections.
#include "experiments/accuracy/software.h"

namespace sextant {
namespace {

// Rates of attention forward and backward together, causal: share of the peak at head sizes of 64
// and 128 for long sequences, and the sequence at which half of that is reached.
struct AttentionRate {
  double at_64 = 0, at_128 = 0, half_sequence = 0;
};
// Assumed, near the curves of arXiv 2307.08691 for A100; the first version, in Triton, at half.
constexpr AttentionRate kFlash1{0.28, 0.28, 0}, kFlash2{0.57, 0.63, 500};
// Assumed: neither multiplies with Hopper's instructions for groups of warps, and without them 0.62
// of the peak is left. At 128 that gives 310 (2,048 tokens) to 364 TFLOP/s (8,192); published: up
// to 335.
constexpr double kWithoutWarpGroups = 0.62;
// Measured: scaled_dot_product_attention of PyTorch 2.11 on one H200, 1,024 to 8,192 tokens: 297
// and 210 TFLOP/s (16 x 16 heads x 1024 x 64), 564 and 487 (2 x 32 x 8192 x 128).
constexpr AttentionRate kTorch211{0.448, 0.563, 1000};

// Products of PyTorch 2.11 for a second each on one H200 reach 0.69 of the peak, ours within steps,
// whose algorithms were chosen by measurement, 0.75.
constexpr double kFirstChoice = 0.92;

// NCCL's kernels take 16 to 24 of 132 multiprocessors. Assumed.
constexpr double kBesideCommunication = 0.85;

// FSDP2: from the flat buffer to parameters in forward and in backward (read and write bf16), from
// gradients to a flat buffer (bf16 to f32). DDP: from gradients to buckets (f32).
constexpr double kFsdp2Copies = 2 * (2 + 2) + (2 + 4), kDdpCopies = 4 + 4;

// Calibrated with row p0006: AdamW runs operator by operator on every parameter, through DTensor.
constexpr double kUpdate = 375e-6;

// Calibrated: with kernels of a microsecond, a layer of vTrain's runs on one node (forward, again
// and backward) takes 3.3 to 3.6 ms whatever its size (rows v0059 and v0102).
constexpr double kEagerLaunch = 53e-6;

// Of PyTorch's caching allocator: blocks of 512 bytes and 2 MiB, and holes between them. Assumed.
constexpr double kAllocatorShare = 0.02;

// Calibrated with row p0004 (GPT-2 xl under DDP on two H200).
constexpr double kBucketBytesPerParameter = 8.7;

}  // namespace

// After each exchange between stages it calls torch.cuda.synchronize (p2p_communication.py);
// gradients are reduced as one flat tensor, Apex updates all parameters at once.
Software megatron_2021() {
  return {.name = "Megatron-LM before FlashAttention",
          .written_attention = true,
          .dropout = 0.1,
          .gradients = GradientType::kWide,
          .overlaps_gradients = false,
          .repeats_whole_layers = true,
          .launch_s = kEagerLaunch,
          .waits_for_transfers = true,
          .allocator_share = kAllocatorShare};
}

// Without contiguous buffers for gradients, which alone keep them in f32.
Software vtrain_single_node() {
  Software software = megatron_2021();
  software.gradients = GradientType::kCompute;
  return software;
}

Software megatron_core() {
  return {.name = "Megatron-Core",
          .written_attention = false,
          .dropout = 0,
          .gradients = GradientType::kWide,
          .overlaps_gradients = true,
          .repeats_whole_layers = true,
          .compute_beside_communication = kBesideCommunication};
}

// Its checkpoints end a repetition with the last tensor that backward wants; the loss of MPT is a
// fused kernel.
Software pytorch_fsdp() {
  return {.name = "PyTorch FSDP",
          .written_attention = false,
          .dropout = 0,
          .gradients = GradientType::kCompute,
          .overlaps_gradients = true,
          .fusion = Software::Fusion::kNone,
          .attention = Software::Attention::kFlash1,
          .compute_beside_communication = kBesideCommunication,
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
          .fusion = Software::Fusion::kNone,
          .written_loss = true,
          .chains_norms = true,
          .compute_beside_communication = kBesideCommunication,
          .copied_bytes_sharded = kFsdp2Copies,
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
          .fusion = Software::Fusion::kElementwise,
          .max_gradient_norm = 0,
          .written_loss = true,
          .attention = Software::Attention::kTorch211,
          .compute_beside_communication = kBesideCommunication,
          .copied_bytes_sharded = kFsdp2Copies,
          .copied_bytes_replicated = kDdpCopies,
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

Software pytorch_tensor_parallel() {
  Software software = pytorch_compiled();
  software.name = "PyTorch, compiled, DTensor";
  software.update_s = kUpdate;
  return software;
}

double product_share(const std::string& device) {
  return device.starts_with("H") ? kFirstChoice : 1;
}

double attention_rate(Software::Attention attention, const std::string& device,
                      std::int64_t head_size, std::int64_t sequence) {
  const bool is_hopper = device.starts_with("H");
  AttentionRate rate = attention == Software::Attention::kFlash1 ? kFlash1 : kFlash2;
  double share = is_hopper ? kWithoutWarpGroups : 1;
  if (attention == Software::Attention::kTorch211 && is_hopper) {
    rate = kTorch211;
    share = 1;
  }
  const double s = static_cast<double>(sequence);
  return share * (head_size > 96 ? rate.at_128 : rate.at_64) * s / (s + rate.half_sequence);
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
