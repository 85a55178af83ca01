// The programs behind the collections.
#include "experiments/accuracy/software.h"

#include "core/base/check.h"

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
// and 210 TFLOP/s (16 x 16 heads x 1024 x 64), 564 and 487 (2 x 32 x 8192 x 128). Assumed: the same
// shares of Blackwell's peak.
constexpr AttentionRate kTorch211{0.448, 0.563, 1000};

// Products of PyTorch 2.11 for a second each on one H200 reach 0.69 of the peak, ours within steps,
// whose algorithms were chosen by measurement, 0.75.
constexpr ProductUse kFirstChoice{.share = 0.92};
// Calibrated with rows r0173 and r0229: cuBLAS of CUDA 11.8, the first that knew Hopper. The lost
// extent is of tiles that are written before the next begins.
constexpr ProductUse kFirstHopper{.share = 0.834, .lost_extent = 530};

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

// Sums of gradients in passes of their own. LocalDDP's hook adds a gradient to `main_grad` of f32
// and a product writes it in 16 bits: 2 + 2 + 4 + 4, of which 4 are counted. DeepSpeed's
// BF16_Optimizer (update_hp_grads) makes a copy in f32 first: 2 + 2 + 4 + 4 + 4 + 4.
// Gradients of 16 bits are read, read and written.
constexpr double kHookBytes = 12 - 4, kHighPrecisionBytes = 20 - 4, kNarrowBytes = 6;

// Peaks of 8 bits are twice those of 16 (data sheets of H100 and GB200). Assumed: at the power
// limit, and with tiles that are filled twice as often for their time, 1.7 times is left.
constexpr double kEightBitHopper = 1.7;
// Calibrated with row r0618 (Llama 3.1 70B on 64 GB200).
constexpr double kEightBitBlackwell = 1.52;

// Calibrated with row p0004 (GPT-2 xl under DDP on two H200).
constexpr double kBucketBytesPerParameter = 8.7;

bool is_hopper(const std::string& device) { return device.starts_with("H"); }
bool is_blackwell(const std::string& device) { return device.starts_with("GB"); }

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
          .added_up_bytes = kHookBytes,
          .launch_s = kEagerLaunch,
          .waits_for_transfers = true,
          .allocator_share = kAllocatorShare};
}

// Gradients are added up by the products that make them (apex fused_weight_gradient_mlp_cuda).
Software megatron_2022() {
  Software software = megatron_2021();
  software.added_up_bytes = 0;
  return software;
}

// bigscience's fork. PipelineEngine._bf16_reduce_grads: all_reduce of all gradients in f32, though
// each replica updates a part.
Software megatron_deepspeed() {
  Software software = megatron_2021();
  software.name = "Megatron-DeepSpeed";
  software.added_up_bytes = kHighPrecisionBytes;
  software.sums_whole_gradients = true;
  return software;
}

// Without contiguous buffers for gradients, which alone keep them in f32.
Software vtrain_single_node() {
  Software software = megatron_2021();
  software.gradients = GradientType::kCompute;
  software.added_up_bytes = kNarrowBytes;
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

// llm-foundry v0.0.4 on PyTorch 2.0.1 with CUDA 11.8 where there are H100s
// (scripts/train/benchmarking/sweep.sh). Its checkpoints end a repetition with the last tensor that
// backward wants; the loss of MPT is a fused kernel.
Software pytorch_fsdp() {
  return {.name = "PyTorch FSDP",
          .written_attention = false,
          .dropout = 0,
          .gradients = GradientType::kCompute,
          .overlaps_gradients = true,
          .fusion = Software::Fusion::kNone,
          .products = Software::Products::kCuda118,
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
          .splits_micro_batches = true,
          .counted = Software::Counted::kReserved,
          .gathers_units = true};
}

// Runs with 8-bit products: float8 wants torch.compile (docs/float8.md).
Software torchtitan_compiled() {
  Software software = torchtitan();
  software.name = "torchtitan, compiled";
  software.fusion = Software::Fusion::kElementwise;
  software.chains_norms = false;
  return software;
}

// Its performance recipes recompute nothing in dense models, split norms over the sequence where tp
// is more than one, and overlap tensor-parallel communication with pieces of products.
Software megatron_bridge() {
  Software software = megatron_core();
  software.name = "Megatron-Bridge";
  software.attention = Software::Attention::kTorch211;
  software.recomputes_nothing = true;
  software.hides_tensor_sums = true;
  return software;
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

EightBitUse eight_bit_use(const std::string& device) {
  require(is_hopper(device) || is_blackwell(device), ErrorCode::kBadInput,
          "device '{}' has no products of 8 bits", device);
  return {.speedup = is_hopper(device) ? kEightBitHopper : kEightBitBlackwell};
}

ProductUse product_use(Software::Products products, const std::string& device) {
  if (is_blackwell(device)) return kFirstChoice;
  if (!is_hopper(device)) return {};
  switch (products) {
    case Software::Products::kCuda118:
      return kFirstHopper;
    case Software::Products::kTorch211:
      return kFirstChoice;
  }
  return {};
}

double attention_rate(Software::Attention attention, const std::string& device,
                      std::int64_t head_size, std::int64_t sequence) {
  AttentionRate rate = attention == Software::Attention::kFlash1 ? kFlash1 : kFlash2;
  double share = is_hopper(device) ? kWithoutWarpGroups : 1;
  if (attention == Software::Attention::kTorch211 && (is_hopper(device) || is_blackwell(device))) {
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
