// What a training program does that the plan of a row does not say: kernels of its time, types, and
// what it overlaps. Known per source, never per row.
#pragma once

#include "compiler/optimizer_options.h"

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
  bool fuses_kernels = true;       // biases, activations, residual sums, norms
  bool written_loss = false;       // cross entropy as operators on f32 (written_loss.h)
  // Recomputes a block to its end, also what no gradient reads.
  bool repeats_whole_layers = false;
  // Rate of fused attention as a share of that of large products.
  double attention_share = 1;
  // Of the host, per operator; an interpreter is in the way. 0: as the cluster says.
  double launch_s = 0;
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
std::string_view to_string(Software::Counted counted);  // "arena", "allocated", "reserved"

Software megatron_2021();  // arXiv 2104.04473, 2205.05198 and what forked it
Software megatron_core();  // with FlashAttention, overlapped gradients
Software pytorch_fsdp();   // MosaicML
Software torchtitan();     // FSDP2, not compiled
// ../peers/torch_gpt.py; its pipelines train in bf16 alone.
Software pytorch_compiled();
Software pytorch_pipelined();

}  // namespace sextant
