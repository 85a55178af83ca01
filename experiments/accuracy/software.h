// What a training program does that the plan of a row does not say: kernels of its time, types, and
// what it overlaps. Known per source, never per row.
#pragma once

#include "compiler/training/optimizer_options.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace sextant {

struct Software {
  std::string name = "as compiled here";
  // Scores of attention are written to memory and read back: programs from before FlashAttention.
  bool written_attention = false;
  double dropout = 0;  // of the residual stream, embeddings and (written) attention
  GradientType gradients = GradientType::kWide;
  bool overlaps_gradients = true;  // their reduction with backward
  // Biases, activations, residual sums and norms: into products too, among themselves alone, or
  // not at all.
  enum class Fusion : std::uint8_t { kAll, kElementwise, kNone } fusion = Fusion::kAll;
  double max_gradient_norm = 1;  // 0: gradients are not clipped
  bool written_loss = false;     // cross entropy as operators on f32 (pytorch_graph.h)
  // Recomputes a block to its end, also what no gradient reads.
  bool repeats_whole_layers = false;
  // Root-mean-square norms and rotary positions as chains of element-wise operators in f32.
  bool chains_norms = false;
  // Whose products it runs, where the chip is a Hopper: libraries got better with the years.
  enum class Products : std::uint8_t { kCuda118, kTorch211 } products = Products::kTorch211;
  // Whose fused attention it runs.
  enum class Attention : std::uint8_t {
    kFlash1,
    kFlash2,
    kTorch211
  } attention = Attention::kFlash2;
  // Rate of kernels while a communication runs beside them: it takes multiprocessors and bandwidth.
  double compute_beside_communication = 1;
  // Copies of parameters and gradients into and out of the buffers of collectives, on the queue of
  // kernels, in bytes per parameter and pass: of sharded parameters, of whole ones.
  double copied_bytes_sharded = 0, copied_bytes_replicated = 0;
  // Bytes per parameter and micro-batch of adding gradients up, beyond what a product writes that
  // adds them up itself.
  double added_up_bytes = 0;
  // Under ZeRO 1 it sums whole gradients on all replicas instead of a part on each.
  bool sums_whole_gradients = false;
  // Of the host, per parameter tensor that the optimizer updates; 0: hidden.
  double update_s = 0;
  // Of the host, per operator; an interpreter is in the way. 0: as the cluster says.
  double launch_s = 0;
  // Its host waits for every transfer between stages, so it never launches ahead over one.
  bool waits_for_transfers = false;
  bool recomputes_nothing = false;  // where its rows leave that out
  // Collectives of tensor parallelism stand behind pieces of the products beside them; norms are
  // split over the sequence.
  bool hides_tensor_sums = false;
  // What its rows call a micro-batch, a pipeline cuts into as many as it has stages.
  bool splits_micro_batches = false;
  // What it reports as its memory: our arena, or what PyTorch's allocator has handed out or taken
  // from the device at most.
  enum class Counted : std::uint8_t { kArena, kAllocated, kReserved } counted = Counted::kArena;
  // Rounding and holes of a caching allocator, as a share of the arena.
  double allocator_share = 0;
  bool gathers_units = false;  // as FSDP2 does, where parameters are sharded (allocator_replay.h)
  bool is_all_in_compute_type = false;  // parameters, gradients and moments too
  bool collects_outputs = false;        // of all micro-batches, in the last stage
  // Buckets of gradients that replicas reduce, per parameter.
  double bucket_bytes_per_parameter = 0;
};

// Products of layers (not of the head) on 8-bit operands: rate beside those of 16 bits, and what is
// made 8-bit in passes of its own. Elements of an activation or its gradient: read in 16 bits,
// written as they are and transposed.
struct EightBitUse {
  double speedup = 1;
  double cast_read = 2, cast_written = 1 + 1;
};
// Throws Error(kBadInput) for a device without such products.
EightBitUse eight_bit_use(const std::string& device);

// A program's products on a device beside ours: rate, as a share, and the inner extent that a tile
// loses beyond what ours lose.
struct ProductUse {
  double share = 1, lost_extent = 0;
};
ProductUse product_use(Software::Products products, const std::string& device);

// Of fused attention, forward and backward together, as a share of the device's peak.
double attention_rate(Software::Attention attention, const std::string& device,
                      std::int64_t head_size, std::int64_t sequence);
std::string_view to_string(Software::Counted counted);  // "arena", "allocated", "reserved"

Software megatron_2021();  // arXiv 2104.04473 and what forked it
Software megatron_2022();  // arXiv 2205.05198 and what forked it
Software megatron_deepspeed();
Software vtrain_single_node();
Software megatron_core();  // with FlashAttention, overlapped gradients
Software pytorch_fsdp();   // MosaicML
Software torchtitan();     // FSDP2, not compiled
Software torchtitan_compiled();
Software megatron_bridge();  // Transformer Engine, cuDNN's attention
// ../peers/torch_gpt.py; its pipelines train in bf16 alone.
Software pytorch_compiled();
Software pytorch_pipelined();
Software pytorch_tensor_parallel();

}  // namespace sextant
